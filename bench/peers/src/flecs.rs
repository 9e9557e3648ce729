use crate::cases::{Column, Subject};
use flecs_ecs::prelude::*;

crate::components!(Component);

pub struct World {
    pos: Query<&'static mut Pos>,
    hp: Query<&'static mut Hp>,
    stats: Query<&'static mut Stats>,
    two: Query<(&'static mut Pos, &'static Vel)>,
    three: Query<(&'static mut Pos, &'static Vel, &'static mut Hp)>,
    world: flecs_ecs::core::World, // last: the queries go first
}

impl Subject for World {
    type Handle = Entity;
    fn new() -> Self {
        let world = flecs_ecs::core::World::new();
        World {
            pos: world.query::<&mut Pos>().set_cached().build(),
            hp: world.query::<&mut Hp>().set_cached().build(),
            stats: world.query::<&mut Stats>().set_cached().build(),
            two: world.query::<(&mut Pos, &Vel)>().set_cached().build(),
            three: world.query::<(&mut Pos, &Vel, &mut Hp)>().set_cached().build(),
            world,
        }
    }
    fn create(&mut self, components: u32) -> Entity {
        let e = self.world.entity().set(POS);
        if components >= 3 {
            e.set(VEL).set(HP);
        }
        if components >= 4 {
            e.set(LVL);
        }
        if components == 8 {
            e.set(TGT).set(BUFF).set(STATS).set(FLG);
        }
        e.id()
    }
    fn create_for(&mut self, column: Column) -> Entity {
        let e = self.world.entity().set(TGT).set(FLG);
        match column {
            Column::Pos => e.set(POS),
            Column::Hp => e.set(HP),
            Column::Stats => e.set(STATS),
        };
        e.id()
    }
    fn create_n8(&mut self, out: &mut [Entity]) {
        out.iter_mut().for_each(|e| *e = self.create(8));
    }
    fn destroy(&mut self, e: Entity) {
        self.world.entity_from_id(e).destruct();
    }
    fn add_extra(&mut self, e: Entity) {
        self.world.entity_from_id(e).set(EXTRA);
    }
    fn remove_extra(&mut self, e: Entity) {
        self.world.entity_from_id(e).remove(Extra::id());
    }
    fn mix(&mut self, e: Entity, kinds: usize) {
        let entity = self.world.entity_from_id(e);
        if kinds & 1 != 0 {
            entity.set(LVL);
        }
        if kinds & 2 != 0 {
            entity.set(TGT);
        }
        if kinds & 4 != 0 {
            entity.set(FLG);
        }
        if kinds & 8 != 0 {
            entity.remove(Vel::id());
        }
    }
    fn get(&self, e: Entity) -> f32 {
        let entity = self.world.entity_from_id(e);
        let mut value = 0.0;
        if entity.is_alive() {
            entity.get::<&Pos>(|p| value = p.x);
        }
        value
    }
    fn get3(&self, e: Entity) -> f32 {
        let entity = self.world.entity_from_id(e);
        let mut value = 0.0;
        if entity.is_alive() {
            entity.get::<&Pos>(|p| value += p.x);
            entity.get::<&Vel>(|v| value += v.x);
            entity.get::<&Hp>(|hp| value += hp.now as f32);
        }
        value
    }
    fn has_lvl(&self, e: Entity) -> bool {
        let entity = self.world.entity_from_id(e);
        entity.is_alive() && entity.has(Lvl::id())
    }
    fn each(&mut self, column: Column) {
        match column {
            Column::Pos => self.pos.each(step_pos),
            Column::Hp => self.hp.each(step_hp),
            Column::Stats => self.stats.each(step_stats),
        }
    }
    fn each2(&mut self) {
        self.two.each(|(p, v)| move2(p, v));
    }
    fn each3(&mut self) {
        self.three.each(|(p, v, hp)| move3(p, v, hp));
    }
}
