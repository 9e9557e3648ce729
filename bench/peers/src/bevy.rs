use crate::cases::{Column, Form, Loop, Pass, Row, Subject};
use crate::with_column;
use bevy_ecs::prelude::{Changed, Component, Entity};
use bevy_tasks::{ComputeTaskPool, TaskPoolBuilder};

crate::components!(Component);

pub struct World {
    world: bevy_ecs::world::World,
}

impl Subject for World {
    type Handle = Entity;
    const MARKS: bool = true;
    const PARALLEL: bool = true;
    fn new() -> Self {
        World { world: bevy_ecs::world::World::new() }
    }
    fn create(&mut self, components: u32) -> Entity {
        match components {
            1 => self.world.spawn(POS).id(),
            3 => self.world.spawn((POS, VEL, HP)).id(),
            4 => self.world.spawn((POS, VEL, HP, LVL)).id(),
            _ => self.world.spawn((POS, VEL, HP, LVL, TGT, BUFF, STATS, FLG)).id(),
        }
    }
    fn create_for(&mut self, column: Column) {
        with_column!(column, T => {
            self.world.spawn((T::NEW, TGT, FLG));
        })
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
        if kinds & 16 != 0 {
            entity.insert(VEL);
        }
        if kinds & 32 != 0 {
            entity.insert(HP);
        }
    }
    fn get(&self, e: Entity) -> f32 {
        self.world.get::<Pos>(e).map_or(0.0, |p| p.x)
    }
    fn get3(&self, e: Entity) -> f32 {
        self.get(e) + self.world.get::<Vel>(e).map_or(0.0, |v| v.x) + self.world.get::<Hp>(e).map_or(0.0, |hp| hp.now as f32)
    }
    fn has_lvl(&self, e: Entity) -> bool {
        self.world.get_entity(e).is_ok_and(|entity| entity.contains::<Lvl>())
    }
    fn write(&mut self, e: Entity) {
        if let Some(mut p) = self.world.get_mut::<Pos>(e) {
            p.x += 1.0;
        }
    }
    fn pass(&mut self, what: Loop) -> Pass<Self> {
        match what {
            Loop::Each(column, form) => with_column!(column, T => {
                let mut query = self.world.query::<&mut T>();
                let mut with_entity = self.world.query::<(Entity, &mut T)>();
                let mut rare = Vec::new();
                match form {
                    Form::Rows => Box::new(move |s| query.iter_mut(&mut s.world).for_each(|mut row| row.step())),
                    Form::Blocks => Box::new(move |s| {
                        for mut rows in query.contiguous_iter_mut(&mut s.world).unwrap() {
                            rows.bypass_change_detection().iter_mut().for_each(T::step);
                        }
                    }),
                    Form::Index => Box::new(move |s| {
                        with_entity.iter_mut(&mut s.world).for_each(|(e, mut row)| {
                            row.step();
                            row.number(e.index_u32());
                        })
                    }),
                    Form::Entity => Box::new(move |s| {
                        with_entity.iter_mut(&mut s.world).for_each(|(e, mut row)| {
                            row.step();
                            if row.rare() {
                                rare.push(e);
                            }
                        })
                    }),
                    Form::Parallel => {
                        // The caller helps the two.
                        ComputeTaskPool::get_or_init(|| TaskPoolBuilder::new().num_threads(2).build());
                        Box::new(move |s| query.par_iter_mut(&mut s.world).for_each(|mut row| row.step()))
                    }
                }
            }),
            Loop::Two => {
                let mut query = self.world.query::<(&mut Pos, &Vel)>();
                Box::new(move |s| query.iter_mut(&mut s.world).for_each(|(mut p, v)| move2(&mut p, v)))
            }
            Loop::Three => {
                let mut query = self.world.query::<(&mut Pos, &Vel, &mut Hp)>();
                Box::new(move |s| query.iter_mut(&mut s.world).for_each(|(mut p, v, mut hp)| move3(&mut p, v, &mut hp)))
            }
            Loop::Changed => {
                let mut query = self.world.query_filtered::<&Pos, Changed<Pos>>();
                Box::new(move |s| {
                    let mut sum = 0.0;
                    query.iter(&s.world).for_each(|p| sum += p.x);
                    std::hint::black_box(sum);
                })
            }
        }
    }
    fn clear_changes(&mut self) {
        self.world.clear_trackers();
    }
}
