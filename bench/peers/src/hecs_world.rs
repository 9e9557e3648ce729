use crate::cases::{Column, Form, Loop, Pass, Row, Subject};
use crate::with_column;
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
        if kinds & 16 != 0 {
            self.world.insert_one(e, VEL).unwrap();
        }
        if kinds & 32 != 0 {
            self.world.insert_one(e, HP).unwrap();
        }
    }
    fn get(&self, e: Entity) -> f32 {
        self.world.get::<&Pos>(e).map_or(0.0, |p| p.x)
    }
    fn get3(&self, e: Entity) -> f32 {
        self.get(e) + self.world.get::<&Vel>(e).map_or(0.0, |v| v.x) + self.world.get::<&Hp>(e).map_or(0.0, |hp| hp.now as f32)
    }
    fn has_lvl(&self, e: Entity) -> bool {
        self.world.satisfies::<&Lvl>(e)
    }
    fn write(&mut self, e: Entity) {
        if let Ok(p) = self.world.query_one_mut::<&mut Pos>(e) {
            p.x += 1.0;
        }
    }
    fn pass(&mut self, what: Loop) -> Pass<Self> {
        match what {
            Loop::Each(column, form) => with_column!(column, T => {
                let mut rare = Vec::new();
                match form {
                    Form::Rows => Box::new(|s| s.world.query_mut::<&mut T>().into_iter().for_each(T::step)),
                    Form::Blocks => Box::new(|s| {
                        for archetype in s.world.archetypes() {
                            if let Some(mut rows) = archetype.get::<&mut T>() {
                                rows.iter_mut().for_each(T::step);
                            }
                        }
                    }),
                    Form::Index => Box::new(|s| {
                        s.world.query_mut::<(Entity, &mut T)>().into_iter().for_each(|(e, row)| {
                            row.step();
                            row.number(e.id());
                        })
                    }),
                    Form::Entity => Box::new(move |s| {
                        s.world.query_mut::<(Entity, &mut T)>().into_iter().for_each(|(e, row)| {
                            row.step();
                            if row.rare() {
                                rare.push(e);
                            }
                        })
                    }),
                    Form::Parallel => unreachable!(),
                }
            }),
            Loop::Two => Box::new(|s| s.world.query_mut::<(&mut Pos, &Vel)>().into_iter().for_each(|(p, v)| move2(p, v))),
            Loop::Three => {
                Box::new(|s| s.world.query_mut::<(&mut Pos, &Vel, &mut Hp)>().into_iter().for_each(|(p, v, hp)| move3(p, v, hp)))
            }
            Loop::Changed => unreachable!(),
        }
    }
}
