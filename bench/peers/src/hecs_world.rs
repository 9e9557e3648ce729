use crate::cases::{Column, Subject};
use hecs::Entity;

crate::components!();

pub struct World {
    world: hecs::World,
}

impl Subject for World {
    type Handle = Entity;
    fn new() -> Self {
        World { world: hecs::World::new() }
    }
    fn create(&mut self, components: u32) -> Entity {
        match components {
            1 => self.world.spawn((POS,)),
            3 => self.world.spawn((POS, VEL, HP)),
            4 => self.world.spawn((POS, VEL, HP, LVL)),
            _ => self.world.spawn((POS, VEL, HP, LVL, TGT, BUFF, STATS, FLG)),
        }
    }
    fn create_for(&mut self, column: Column) -> Entity {
        match column {
            Column::Pos => self.world.spawn((POS, TGT, FLG)),
            Column::Hp => self.world.spawn((HP, TGT, FLG)),
            Column::Stats => self.world.spawn((STATS, TGT, FLG)),
        }
    }
    fn create_n8(&mut self, out: &mut [Entity]) {
        let values = (0..out.len()).map(|_| (POS, VEL, HP, LVL, TGT, BUFF, STATS, FLG));
        for (place, e) in out.iter_mut().zip(self.world.spawn_batch(values)) {
            *place = e;
        }
    }
    fn destroy(&mut self, e: Entity) {
        self.world.despawn(e).unwrap();
    }
    fn add_extra(&mut self, e: Entity) {
        self.world.insert_one(e, EXTRA).unwrap();
    }
    fn remove_extra(&mut self, e: Entity) {
        self.world.remove_one::<Extra>(e).unwrap();
    }
    fn mix(&mut self, e: Entity, kinds: usize) {
        if kinds & 1 != 0 {
            self.world.insert_one(e, LVL).unwrap();
        }
        if kinds & 2 != 0 {
            self.world.insert_one(e, TGT).unwrap();
        }
        if kinds & 4 != 0 {
            self.world.insert_one(e, FLG).unwrap();
        }
        if kinds & 8 != 0 {
            self.world.remove_one::<Vel>(e).unwrap();
        }
    }
    fn get(&self, e: Entity) -> f32 {
        self.world.get::<&Pos>(e).unwrap().x
    }
    fn get3(&self, e: Entity) -> f32 {
        let hp = self.world.get::<&Hp>(e).unwrap().now as f32;
        self.world.get::<&Pos>(e).unwrap().x + self.world.get::<&Vel>(e).unwrap().x + hp
    }
    fn has_lvl(&self, e: Entity) -> bool {
        self.world.satisfies::<&Lvl>(e)
    }
    fn each(&mut self, column: Column) {
        match column {
            Column::Pos => self.world.query_mut::<&mut Pos>().into_iter().for_each(step_pos),
            Column::Hp => self.world.query_mut::<&mut Hp>().into_iter().for_each(step_hp),
            Column::Stats => self.world.query_mut::<&mut Stats>().into_iter().for_each(step_stats),
        }
    }
    fn each2(&mut self) {
        self.world.query_mut::<(&mut Pos, &Vel)>().into_iter().for_each(|(p, v)| move2(p, v));
    }
    fn each3(&mut self) {
        self.world.query_mut::<(&mut Pos, &Vel, &mut Hp)>().into_iter().for_each(|(p, v, hp)| move3(p, v, hp));
    }
}
