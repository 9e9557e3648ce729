use crate::cases::{Column, Form, Loop, Pass, Row, Subject};
use crate::with_column;
use flecs_ecs::prelude::*;

crate::components!(Component);

pub struct World {
    world: flecs_ecs::core::World,
}

impl Subject for World {
    type Handle = Entity;
    const PARALLEL: bool = true;
    fn new() -> Self {
        World { world: flecs_ecs::core::World::new() }
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
    fn create_for(&mut self, column: Column) {
        let e = self.world.entity().set(TGT).set(FLG);
        with_column!(column, T => {
            e.set(T::NEW);
        })
    }
    fn create_n8(&mut self, out: &mut [Entity]) {
        let n = out.len(); // the library takes a value for each entity
        let made = self
            .world
            .entity_bulk(n as u32)
            .set(&vec![POS; n])
            .set(&vec![VEL; n])
            .set(&vec![HP; n])
            .set(&vec![LVL; n])
            .set(&vec![TGT; n])
            .set(&vec![BUFF; n])
            .set(&vec![STATS; n])
            .set(&vec![FLG; n])
            .build();
        out.copy_from_slice(&made);
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
        if kinds & 16 != 0 {
            entity.set(VEL);
        }
        if kinds & 32 != 0 {
            entity.set(HP);
        }
    }
    fn get(&self, e: Entity) -> f32 {
        let entity = self.world.entity_from_id(e);
        if !entity.is_alive() {
            return 0.0;
        }
        entity.try_get::<&Pos>(|p| p.x).unwrap_or(0.0)
    }
    fn get3(&self, e: Entity) -> f32 {
        let entity = self.world.entity_from_id(e);
        if !entity.is_alive() {
            return 0.0;
        }
        entity.try_get::<&Pos>(|p| p.x).unwrap_or(0.0)
            + entity.try_get::<&Vel>(|v| v.x).unwrap_or(0.0)
            + entity.try_get::<&Hp>(|hp| hp.now as f32).unwrap_or(0.0)
    }
    fn has_lvl(&self, e: Entity) -> bool {
        let entity = self.world.entity_from_id(e);
        entity.is_alive() && entity.has(Lvl::id())
    }
    fn write(&mut self, e: Entity) {
        let entity = self.world.entity_from_id(e);
        if entity.is_alive() {
            entity.try_get::<&mut Pos>(|p| p.x += 1.0);
        }
    }
    fn pass(&mut self, what: Loop) -> Pass<Self> {
        match what {
            Loop::Each(column, form) => with_column!(column, T => {
                let query = self.world.query::<&mut T>().set_cached().build();
                let mut rare = Vec::new();
                match form {
                    Form::Rows => Box::new(move |_| query.each(T::step)),
                    Form::Blocks => Box::new(move |_| {
                        query.run(|mut it| {
                            while it.next() {
                                let mut rows = it.field_mut::<T>(0);
                                it.iter().for_each(|i| rows[i].step());
                            }
                        })
                    }),
                    Form::Index => Box::new(move |_| {
                        query.each_iter(|_, i, row| {
                            row.step();
                            row.number(usize::from(i) as u32);
                        })
                    }),
                    Form::Entity => Box::new(move |_| {
                        query.each_entity(|e, row| {
                            row.step();
                            if row.rare() {
                                rare.push(e.id());
                            }
                        })
                    }),
                    Form::Parallel => {
                        self.world.set_threads(2);
                        self.world.system::<&mut T>().par_each(T::step);
                        Box::new(|s| {
                            s.world.progress();
                        })
                    }
                }
            }),
            Loop::Two => {
                let query = self.world.query::<(&mut Pos, &Vel)>().set_cached().build();
                Box::new(move |_| query.each(|(p, v)| move2(p, v)))
            }
            Loop::Three => {
                let query = self.world.query::<(&mut Pos, &Vel, &mut Hp)>().set_cached().build();
                Box::new(move |_| query.each(|(p, v, hp)| move3(p, v, hp)))
            }
            Loop::Changed => unreachable!(),
        }
    }
}
