use crate::cases::{Column, Subject};
use bevy_ecs::prelude::{Component, Entity, QueryState};

crate::components!(Component);

pub struct World {
    world: bevy_ecs::world::World,
    pos: QueryState<&'static mut Pos>,
    hp: QueryState<&'static mut Hp>,
    stats: QueryState<&'static mut Stats>,
    two: QueryState<(&'static mut Pos, &'static Vel)>,
    three: QueryState<(&'static mut Pos, &'static Vel, &'static mut Hp)>,
}

impl Subject for World {
    type Handle = Entity;
    fn new() -> Self {
        let mut world = bevy_ecs::world::World::new();
        let (pos, hp, stats) = (world.query(), world.query(), world.query());
        let (two, three) = (world.query(), world.query());
        World { world, pos, hp, stats, two, three }
    }
    fn create(&mut self, components: u32) -> Entity {
        match components {
            1 => self.world.spawn(POS).id(),
            3 => self.world.spawn((POS, VEL, HP)).id(),
            4 => self.world.spawn((POS, VEL, HP, LVL)).id(),
            _ => self.world.spawn((POS, VEL, HP, LVL, TGT, BUFF, STATS, FLG)).id(),
        }
    }
    fn create_for(&mut self, column: Column) -> Entity {
        match column {
            Column::Pos => self.world.spawn((POS, TGT, FLG)).id(),
            Column::Hp => self.world.spawn((HP, TGT, FLG)).id(),
            Column::Stats => self.world.spawn((STATS, TGT, FLG)).id(),
        }
    }
    fn create_n8(&mut self, out: &mut [Entity]) {
        let values = (0..out.len()).map(|_| (POS, VEL, HP, LVL, TGT, BUFF, STATS, FLG));
        for (place, e) in out.iter_mut().zip(self.world.spawn_batch(values)) {
            *place = e;
        }
    }
    fn destroy(&mut self, e: Entity) {
        self.world.despawn(e);
    }
    fn add_extra(&mut self, e: Entity) {
        self.world.entity_mut(e).insert(EXTRA);
    }
    fn remove_extra(&mut self, e: Entity) {
        self.world.entity_mut(e).remove::<Extra>();
    }
    fn mix(&mut self, e: Entity, kinds: usize) {
        let mut entity = self.world.entity_mut(e);
        if kinds & 1 != 0 {
            entity.insert(LVL);
        }
        if kinds & 2 != 0 {
            entity.insert(TGT);
        }
        if kinds & 4 != 0 {
            entity.insert(FLG);
        }
        if kinds & 8 != 0 {
            entity.remove::<Vel>();
        }
    }
    fn get(&self, e: Entity) -> f32 {
        self.world.get::<Pos>(e).unwrap().x
    }
    fn get3(&self, e: Entity) -> f32 {
        let hp = self.world.get::<Hp>(e).unwrap().now as f32;
        self.world.get::<Pos>(e).unwrap().x + self.world.get::<Vel>(e).unwrap().x + hp
    }
    fn has_lvl(&self, e: Entity) -> bool {
        self.world.get_entity(e).is_ok_and(|entity| entity.contains::<Lvl>())
    }
    fn each(&mut self, column: Column) {
        match column {
            Column::Pos => self.pos.iter_mut(&mut self.world).for_each(|mut p| step_pos(&mut p)),
            Column::Hp => self.hp.iter_mut(&mut self.world).for_each(|mut hp| step_hp(&mut hp)),
            Column::Stats => self.stats.iter_mut(&mut self.world).for_each(|mut stats| step_stats(&mut stats)),
        }
    }
    fn each2(&mut self) {
        self.two.iter_mut(&mut self.world).for_each(|(mut p, v)| move2(&mut p, v));
    }
    fn each3(&mut self) {
        self.three.iter_mut(&mut self.world).for_each(|(mut p, v, mut hp)| move3(&mut p, v, &mut hp));
    }
}
