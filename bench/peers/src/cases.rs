//! The cases, over anything that is a Subject. Names and work are those of ../ecs/*_cases.hpp.
use crate::measure::{live_bytes, shuffle, timed, timed_passes, Random};
use std::cell::RefCell;
use std::rc::Rc;

/// The components of ../ecs/components.hpp. Each library's module makes its own, since each has its own derive.
#[macro_export]
macro_rules! components {
    ($($derive:path),*) => {
        #[derive(Clone, Copy, $($derive),*)]
        pub struct Pos { pub x: f32, pub y: f32, pub z: f32 }
        #[derive(Clone, Copy, $($derive),*)]
        pub struct Vel { pub x: f32, pub y: f32, pub z: f32 }
        #[derive(Clone, Copy, $($derive),*)]
        pub struct Hp { pub now: i32, pub max: i32 }
        #[derive(Clone, Copy, $($derive),*)]
        #[allow(dead_code)]
        pub struct Lvl { pub value: u32 }
        #[derive(Clone, Copy, $($derive),*)]
        #[allow(dead_code)]
        pub struct Tgt { pub id: u64 }
        #[derive(Clone, Copy, $($derive),*)]
        #[allow(dead_code)]
        pub struct Buff { pub values: [u32; 8] }
        #[derive(Clone, Copy, $($derive),*)]
        pub struct Stats { pub values: [f32; 16] }
        #[derive(Clone, Copy, $($derive),*)]
        #[allow(dead_code)]
        pub struct Flg { pub value: u32 }
        #[derive(Clone, Copy, $($derive),*)]
        #[allow(dead_code)]
        pub struct Extra { pub values: [u32; 4] }

        const POS: Pos = Pos { x: 1.0, y: 2.0, z: 3.0 };
        const VEL: Vel = Vel { x: 1.0, y: 1.0, z: 1.0 };
        const HP: Hp = Hp { now: 100, max: 200 };
        const LVL: Lvl = Lvl { value: 1 };
        const TGT: Tgt = Tgt { id: 0 };
        const BUFF: Buff = Buff { values: [0; 8] };
        const STATS: Stats = Stats { values: [0.0; 16] };
        const FLG: Flg = Flg { value: 0 };
        const EXTRA: Extra = Extra { values: [1, 2, 3, 4] };

        fn step_pos(p: &mut Pos) { p.x += 1.0; p.y += 2.0; p.z += 3.0; }
        fn step_hp(hp: &mut Hp) { if hp.now < hp.max { hp.now += 1; } }
        fn step_stats(stats: &mut Stats) { for v in &mut stats.values { *v = *v * 0.99 + 0.5; } }
        fn move2(p: &mut Pos, v: &Vel) { p.x += v.x * 0.016; p.y += v.y * 0.016; p.z += v.z * 0.016; }
        fn move3(p: &mut Pos, v: &Vel, hp: &mut Hp) { move2(p, v); hp.now = hp.now.wrapping_add(1); }
    };
}

/// Which row a looping case works on.
#[derive(Clone, Copy)]
pub enum Column {
    Pos,
    Hp,
    Stats,
}

pub trait Subject: 'static {
    type Handle: Copy + 'static;
    fn new() -> Self;
    /// 1: Pos; 3: and Vel, Hp; 4: and Lvl; 8: and Tgt, Buff, Stats, Flg.
    fn create(&mut self, components: u32) -> Self::Handle;
    /// The column's type, Tgt and Flg.
    fn create_for(&mut self, column: Column) -> Self::Handle;
    fn create_n8(&mut self, out: &mut [Self::Handle]);
    fn destroy(&mut self, e: Self::Handle);
    fn add_extra(&mut self, e: Self::Handle);
    fn remove_extra(&mut self, e: Self::Handle);
    /// Bits 0 to 3: adds Lvl, Tgt, Flg, removes Vel.
    fn mix(&mut self, e: Self::Handle, kinds: usize);
    /// All checked: a dead handle is noticed.
    fn get(&self, e: Self::Handle) -> f32;
    fn get3(&self, e: Self::Handle) -> f32;
    fn has_lvl(&self, e: Self::Handle) -> bool;
    fn each(&mut self, column: Column);
    fn each2(&mut self);
    fn each3(&mut self);
}

pub type Measure = Box<dyn FnMut() -> f64>;
pub struct Case {
    pub scenario: &'static str,
    pub name: String,
    pub prepare: Box<dyn Fn() -> Measure>,
}

fn all<S: Subject>(world: &mut S, components: u32, count: usize) -> Vec<S::Handle> {
    (0..count).map(|_| world.create(components)).collect()
}

struct List {
    cases: Vec<Case>,
}
impl List {
    fn add(&mut self, scenario: &'static str, name: impl Into<String>, prepare: impl Fn() -> Measure + 'static) {
        self.cases.push(Case { scenario, name: name.into(), prepare: Box::new(prepare) });
    }
}

pub fn cases<S: Subject>(quick: bool) -> Vec<Case> {
    let (small, large) = if quick { (5_000, 20_000) } else { (100_000, 1_000_000) };
    let mut list = List { cases: Vec::new() };
    loops::<S>(&mut list, small, large);
    access::<S>(&mut list, small, large);
    structure::<S>(&mut list, small, large);
    list.cases
}

fn loops<S: Subject>(list: &mut List, small: usize, large: usize) {
    let columns = [("each_hp8_1m", Column::Hp), ("each_pos12_1m", Column::Pos), ("each_stats64_1m", Column::Stats)];
    for (name, column) in columns {
        list.add("ecs_each", name, move || {
            let mut world = S::new();
            (0..large).for_each(|_| {
                world.create_for(column);
            });
            Box::new(move || timed_passes(large, || world.each(column)))
        });
    }
    for three in [false, true] {
        for mixture in ["fresh", "churned", "mixed16"] {
            for (size, count) in [("100k", small), ("1m", large)] {
                list.add("ecs_views", format!("{}_{mixture}_{size}", if three { "three" } else { "two" }), move || {
                    let mut world = S::new();
                    let mut entities = all(&mut world, 3, count);
                    let mut random = Random::new(if mixture == "mixed16" { 7 } else { 3 });
                    if mixture == "churned" {
                        for _ in 0..2 * count {
                            let k = random.below(count);
                            world.destroy(entities[k]);
                            entities[k] = world.create(3);
                        }
                    } else if mixture == "mixed16" {
                        entities.iter().for_each(|&e| world.mix(e, random.below(16)));
                    }
                    Box::new(move || timed_passes(count, || if three { world.each3() } else { world.each2() }))
                });
            }
        }
    }
}

fn access<S: Subject>(list: &mut List, small: usize, large: usize) {
    for kind in ["get", "get3", "has"] {
        for (size, count) in [("100k", small), ("1m", large)] {
            list.add("ecs_access", format!("{kind}_random_{size}"), move || {
                let mut world = S::new();
                let mut entities: Vec<_> = (0..count).map(|i| world.create(if kind == "has" && i % 2 == 0 { 3 } else { 4 })).collect();
                shuffle(&mut entities, 42);
                Box::new(move || {
                    let mut sum = 0.0;
                    let ns = timed_passes(count, || match kind {
                        "get" => entities.iter().for_each(|&e| sum += world.get(e)),
                        "get3" => entities.iter().for_each(|&e| sum += world.get3(e)),
                        _ => entities.iter().for_each(|&e| sum += if world.has_lvl(e) { 1.0 } else { 0.0 }),
                    });
                    std::hint::black_box(sum);
                    ns
                })
            });
        }
    }
}

fn structure<S: Subject>(list: &mut List, small: usize, large: usize) {
    let creations = [("create_c1_1m", 1, large), ("create_c3_1m", 3, large), ("create_c8_100k", 8, small), ("create_c8_1m", 8, large)];
    for (name, components, count) in creations {
        list.add("ecs_create", name, move || {
            Box::new(move || {
                let mut world = S::new();
                let first = world.create(components);
                world.destroy(first);
                let mut entities = vec![first; count];
                timed(|| entities.iter_mut().for_each(|e| *e = world.create(components))) / count as f64
            })
        });
    }
    list.add("ecs_create", "instantiate_c8_100k", move || {
        Box::new(move || {
            let mut world = S::new();
            let first = world.create(8);
            world.destroy(first);
            let mut entities = vec![first; small];
            timed(|| world.create_n8(&mut entities)) / small as f64
        })
    });
    for (name, count, tenth) in
        [("destroy_random_c8_100k", small, false), ("destroy_random_c8_1m", large, false), ("destroy_tenth_c8_1m", large, true)]
    {
        list.add("ecs_destroy", name, move || {
            Box::new(move || {
                let mut world = S::new();
                let mut entities = all(&mut world, 8, count);
                shuffle(&mut entities, 42);
                let going = if tenth { count / 10 } else { count };
                timed(|| entities[..going].iter().for_each(|&e| world.destroy(e))) / going as f64
            })
        });
    }
    for (name, count) in [("churn_c8_100k", small), ("churn_c8_1m", large)] {
        list.add("ecs_churn", name, move || {
            let mut world = S::new();
            let mut entities = all(&mut world, 8, count);
            let mut random = Random::new(3);
            Box::new(move || {
                let replaced = count / 10;
                let mut ns = 0.0;
                for round in 0..6 {
                    (0..replaced).for_each(|i| entities.swap(i, i + random.below(count - i)));
                    let taken = timed(|| {
                        for e in &mut entities[..replaced] {
                            world.destroy(*e);
                            *e = world.create(8);
                        }
                    });
                    ns += if round == 0 { 0.0 } else { taken };
                }
                ns / 5.0 / replaced as f64
            })
        });
    }
    list.add("ecs_churn", "add_remove_fifth_random_100k", move || {
        let mut world = S::new();
        let mut entities = all(&mut world, 4, small);
        shuffle(&mut entities, 42);
        Box::new(move || {
            timed_passes(small, || {
                for &e in &entities {
                    world.add_extra(e);
                    world.remove_extra(e);
                }
            })
        })
    });
    for (name, components, count) in [("memory_c1_1m", 1, large), ("memory_c8_1m", 8, large)] {
        list.add("ecs_memory", name, move || {
            let bytes = Rc::new(RefCell::new(0.0)); // the same each time
            Box::new(move || {
                if *bytes.borrow() == 0.0 {
                    let mut world = S::new();
                    let before = live_bytes();
                    (0..count).for_each(|_| {
                        world.create(components);
                    });
                    *bytes.borrow_mut() = (live_bytes() - before) as f64 / count as f64;
                }
                *bytes.borrow()
            })
        });
    }
}
