//! The cases, over anything that is a Subject. Names and work are those of ../ecs/*_cases.hpp. Left out is ecs_copy: none of the
//! libraries has a call that copies a world.
use crate::measure::{evict_caches, live_bytes, shuffle, timed, timed_passes, Clock, Random};

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
        pub struct Lvl { pub value: u32 }
        #[derive(Clone, Copy, $($derive),*)]
        #[allow(dead_code)]
        pub struct Tgt { pub id: u64 }
        #[derive(Clone, Copy, $($derive),*)]
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

        impl Row for Lvl {
            const NEW: Lvl = LVL;
            fn step(&mut self) { self.value = self.value.wrapping_add(1); }
            fn rare(&self) -> bool { self.value == 0 }
        }
        impl Row for Hp {
            const NEW: Hp = HP;
            fn step(&mut self) { self.now = if self.now < self.max { self.now + 1 } else { self.now }; }
        }
        impl Row for Pos {
            const NEW: Pos = POS;
            fn step(&mut self) { self.x += 1.0; self.y += 2.0; self.z += 3.0; }
            fn rare(&self) -> bool { self.x < 0.0 }
            fn number(&mut self, number: u32) { self.z = number as f32; }
        }
        impl Row for Buff {
            const NEW: Buff = BUFF;
            fn step(&mut self) { for v in &mut self.values { *v = v.wrapping_mul(3).wrapping_add(1); } }
        }
        impl Row for Stats {
            const NEW: Stats = STATS;
            fn step(&mut self) { for v in &mut self.values { *v = *v * 0.99 + 0.5; } }
            fn rare(&self) -> bool { self.values[0] < 0.0 }
        }
        fn move2(p: &mut Pos, v: &Vel) { p.x += v.x * 0.016; p.y += v.y * 0.016; p.z += v.z * 0.016; }
        fn move3(p: &mut Pos, v: &Vel, hp: &mut Hp) { move2(p, v); hp.now = hp.now.wrapping_add(1); }
    };
}

/// Evaluates `work` with the column's type under the name `row`.
#[macro_export]
macro_rules! with_column {
    ($column:expr, $row:ident => $work:expr) => {
        match $column {
            Column::Lvl => {
                type $row = Lvl;
                $work
            }
            Column::Hp => {
                type $row = Hp;
                $work
            }
            Column::Pos => {
                type $row = Pos;
                $work
            }
            Column::Buff => {
                type $row = Buff;
                $work
            }
            Column::Stats => {
                type $row = Stats;
                $work
            }
        }
    };
}

/// What the loops do to a row.
pub trait Row {
    const NEW: Self;
    fn step(&mut self);
    /// True for rows that the loops never see.
    fn rare(&self) -> bool {
        false
    }
    fn number(&mut self, _number: u32) {}
}

/// Which row a loop over one type works on.
#[derive(Clone, Copy)]
pub enum Column {
    Lvl,
    Hp,
    Pos,
    Buff,
    Stats,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    Rows,
    /// The library's fastest loop; no row is marked.
    Blocks,
    /// Some number of the entity goes into the row.
    Index,
    /// The handles of rare rows are kept.
    Entity,
    /// Two threads.
    Parallel,
}

#[derive(Clone, Copy)]
pub enum Loop {
    Each(Column, Form),
    Two,
    Three,
    /// Over the Pos that were written since clear_changes.
    Changed,
}

pub type Pass<S> = Box<dyn FnMut(&mut S)>;

pub trait Subject: Sized + 'static {
    type Handle: Copy + 'static;
    /// What is written is marked, row by row. Without, there is no ecs_change: hecs compares values with copies of them, flecs marks
    /// whole tables.
    const MARKS: bool = false;
    /// The library runs a loop on several threads.
    const PARALLEL: bool = false;
    fn new() -> Self;
    /// 1: Pos; 3: and Vel, Hp; 4: and Lvl; 8: and Tgt, Buff, Stats, Flg.
    fn create(&mut self, components: u32) -> Self::Handle;
    /// The column's type, Tgt and Flg.
    fn create_for(&mut self, column: Column);
    fn create_n8(&mut self, out: &mut [Self::Handle]);
    fn destroy(&mut self, e: Self::Handle);
    fn add_extra(&mut self, e: Self::Handle);
    fn remove_extra(&mut self, e: Self::Handle);
    /// Bits 0 to 5: adds Lvl, Tgt, Flg, removes Vel, adds Vel, Hp.
    fn mix(&mut self, e: Self::Handle, kinds: usize);
    /// All checked: a dead handle and a type that is not there are noticed, and give 0.
    fn get(&self, e: Self::Handle) -> f32;
    fn get3(&self, e: Self::Handle) -> f32;
    fn has_lvl(&self, e: Self::Handle) -> bool;
    /// Adds 1 to Pos::x.
    fn write(&mut self, e: Self::Handle);
    /// A loop that is prepared once. It goes before the world does.
    fn pass(&mut self, what: Loop) -> Pass<Self>;
    fn clear_changes(&mut self) {}
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

/// A new world; its types are known.
fn empty<S: Subject>(components: u32) -> (S, S::Handle) {
    let mut world = S::new();
    let first = world.create(components);
    world.destroy(first);
    (world, first)
}

fn populated<S: Subject>(column: Column, count: usize) -> S {
    let mut world = S::new();
    (0..count).for_each(|_| world.create_for(column));
    world
}

struct Looped<S> {
    pass: Pass<S>, // goes first
    world: S,
}
impl<S: Subject> Looped<S> {
    fn new(mut world: S, what: Loop) -> Self {
        Looped { pass: world.pass(what), world }
    }
    fn run(&mut self) {
        (self.pass)(&mut self.world);
    }
    fn measure(mut self, clock: Clock, count: usize) -> Measure {
        Box::new(move || timed_passes(clock, count, || self.run()))
    }
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
    if S::MARKS {
        changes::<S>(&mut list, large);
    }
    structure::<S>(&mut list, small, large);
    list.cases
}

fn loops<S: Subject>(list: &mut List, small: usize, large: usize) {
    let mut each = |name: String, column, form, count| {
        let clock = if form == Form::Parallel { Clock::Wall } else { Clock::Thread };
        list.add("ecs_each", name, move || Looped::new(populated::<S>(column, count), Loop::Each(column, form)).measure(clock, count));
    };
    let columns =
        [("lvl4", Column::Lvl), ("hp8", Column::Hp), ("pos12", Column::Pos), ("buff32", Column::Buff), ("stats64", Column::Stats)];
    for (name, column) in columns {
        each(format!("each_{name}_1m"), column, Form::Rows, large);
        each(format!("each_blocks_{name}_1m"), column, Form::Blocks, large);
    }
    each("each_index_pos12_1m".into(), Column::Pos, Form::Index, large);
    for (name, column) in [columns[0], columns[2], columns[4]] {
        each(format!("each_entity_{name}_1m"), column, Form::Entity, large);
    }
    each("each_pos12_100k".into(), Column::Pos, Form::Rows, small);
    if S::PARALLEL {
        each("each_parallel_pos12_1m".into(), Column::Pos, Form::Parallel, large);
        each("each_parallel_stats64_1m".into(), Column::Stats, Form::Parallel, large);
        each("each_parallel_pos12_100k".into(), Column::Pos, Form::Parallel, small);
    }
    for (kind, what) in [("two", Loop::Two), ("three", Loop::Three)] {
        for mixture in ["fresh", "churned", "shuffled", "mixed16"] {
            for (size, count) in [("100k", small), ("1m", large)] {
                list.add("ecs_views", format!("{kind}_{mixture}_{size}"), move || {
                    Looped::new(mixed::<S>(mixture, count), what).measure(Clock::Thread, count)
                });
            }
        }
    }
}

fn mixed<S: Subject>(mixture: &str, count: usize) -> S {
    let mut world = S::new();
    let mut entities = all(&mut world, if mixture == "shuffled" { 1 } else { 3 }, count);
    let mut random = Random::new(if mixture == "mixed16" { 7 } else { 3 });
    match mixture {
        "churned" => {
            for _ in 0..2 * count {
                let k = random.below(count);
                world.destroy(entities[k]);
                entities[k] = world.create(3);
            }
        }
        "shuffled" => {
            for (seed, kinds) in [(1, 16), (2, 32)] {
                shuffle(&mut entities, seed);
                entities.iter().for_each(|&e| world.mix(e, kinds));
            }
        }
        "mixed16" => entities.iter().for_each(|&e| world.mix(e, random.below(16))),
        _ => {}
    }
    world
}

fn access<S: Subject>(list: &mut List, small: usize, large: usize) {
    for (name, kind, count) in [
        ("get_in_order_1m", "get", large),
        ("get_random_100k", "get", small),
        ("get_random_cold_100k", "get", small),
        ("get_random_1m", "get", large),
        ("get3_random_100k", "get3", small),
        ("get3_random_1m", "get3", large),
        ("has_random_100k", "has", small),
        ("has_random_1m", "has", large),
        ("mut_random_1m", "mut", large),
    ] {
        list.add("ecs_access", name, move || {
            let mut world = S::new();
            let mut entities: Vec<_> = (0..count).map(|i| world.create(if kind == "has" && i % 2 == 0 { 3 } else { 4 })).collect();
            if name.contains("random") {
                shuffle(&mut entities, 42);
            }
            Box::new(move || {
                let mut sum = 0.0;
                let mut pass = || match kind {
                    "get" => entities.iter().for_each(|&e| sum += world.get(e)),
                    "get3" => entities.iter().for_each(|&e| sum += world.get3(e)),
                    "has" => entities.iter().for_each(|&e| sum += if world.has_lvl(e) { 1.0 } else { 0.0 }),
                    _ => entities.iter().for_each(|&e| world.write(e)),
                };
                let ns = if name.contains("cold") {
                    evict_caches();
                    timed(pass) / count as f64
                } else {
                    timed_passes(Clock::Thread, count, &mut pass)
                };
                std::hint::black_box(sum);
                ns
            })
        });
    }
}

fn changes<S: Subject>(list: &mut List, count: usize) {
    for (share, per_mille) in [("0.1", 1), ("10", 100), ("100", 1000)] {
        list.add("ecs_change", format!("scan_{share}_percent_1m"), move || {
            let mut world = S::new();
            let entities = all(&mut world, 1, count);
            world.clear_changes();
            let mut random = Random::new(5);
            entities.iter().filter(|_| random.below(1000) < per_mille).for_each(|&e| world.write(e));
            Looped::new(world, Loop::Changed).measure(Clock::Thread, count)
        });
        // By written row; each round writes the next ones of a shuffled list.
        list.add("ecs_change", format!("mark_{share}_percent_1m"), move || {
            let mut world = S::new();
            let mut entities = all(&mut world, 1, count);
            shuffle(&mut entities, 5);
            let marked = count / 1000 * per_mille;
            let mut from = 0;
            Box::new(move || {
                let rounds = 200_000 / marked + 5;
                let mut ns = 0.0;
                for round in 0..rounds {
                    world.clear_changes();
                    let written = &entities[from..from + marked];
                    let taken = timed(|| written.iter().for_each(|&e| world.write(e)));
                    from = (from + marked) % count;
                    ns += if round == 0 { 0.0 } else { taken };
                }
                ns / (rounds - 1) as f64 / marked as f64
            })
        });
    }
    list.add("ecs_change", "mark_bulk_1m", move || {
        let mut looped = Looped::new(populated::<S>(Column::Pos, count), Loop::Each(Column::Pos, Form::Rows));
        Box::new(move || {
            let mut ns = 0.0;
            for round in 0..5 {
                looped.world.clear_changes();
                let taken = timed(|| looped.run());
                ns += if round == 0 { 0.0 } else { taken };
            }
            ns / 4.0 / count as f64
        })
    });
    list.add("ecs_change", "mark_none_1m", move || {
        Looped::new(populated::<S>(Column::Pos, count), Loop::Each(Column::Pos, Form::Blocks)).measure(Clock::Thread, count)
    });
}

fn structure<S: Subject>(list: &mut List, small: usize, large: usize) {
    for (name, components, count) in [
        ("create_c1_100k", 1, small),
        ("create_c8_100k", 8, small),
        ("create_again_c8_100k", 8, small),
        ("create_c1_1m", 1, large),
        ("create_c3_1m", 3, large),
        ("create_c8_1m", 8, large),
        ("instantiate_c8_100k", 8, small),
        ("instantiate_again_c8_100k", 8, small),
    ] {
        list.add("ecs_create", name, move || {
            Box::new(move || {
                let (mut world, first) = empty::<S>(components);
                let mut entities = vec![first; count];
                let create = |world: &mut S, entities: &mut [S::Handle]| {
                    if name.contains("instantiate") {
                        world.create_n8(entities);
                    } else {
                        entities.iter_mut().for_each(|e| *e = world.create(components));
                    }
                };
                if name.contains("again") {
                    create(&mut world, &mut entities);
                    entities.iter().rev().for_each(|&e| world.destroy(e));
                }
                timed(|| create(&mut world, &mut entities)) / count as f64
            })
        });
    }
    // No library has a call that destroys a list of entities: in batches, too, they go one by one.
    for (name, components, count) in [
        ("destroy_in_order_c8_100k", 8, small),
        ("destroy_random_c8_100k", 8, small),
        ("destroy_tenth_c8_100k", 8, small),
        ("destroy_tenth_batch_c8_100k", 8, small),
        ("destroy_random_c1_1m", 1, large),
        ("destroy_random_c8_1m", 8, large),
        ("destroy_tenth_c8_1m", 8, large),
        ("destroy_tenth_batch_c8_1m", 8, large),
    ] {
        list.add("ecs_destroy", name, move || {
            Box::new(move || {
                let mut world = S::new();
                let mut entities = all(&mut world, components, count);
                if !name.contains("in_order") {
                    shuffle(&mut entities, 42);
                }
                let going = if name.contains("tenth") { count / 10 } else { count };
                timed(|| entities[..going].iter().for_each(|&e| world.destroy(e))) / going as f64
            })
        });
    }
    for (name, count, batch) in [
        ("churn_c8_100k", small, false),
        ("churn_batch_c8_100k", small, true),
        ("churn_c8_1m", large, false),
        ("churn_batch_c8_1m", large, true),
    ] {
        list.add("ecs_churn", name, move || {
            let mut world = S::new();
            let mut entities = all(&mut world, 8, count);
            let mut random = Random::new(3);
            Box::new(move || {
                let replaced = count / 10;
                let mut ns = 0.0;
                for round in 0..6 {
                    (0..replaced).for_each(|i| entities.swap(i, i + random.below(count - i)));
                    let going = &mut entities[..replaced];
                    let taken = timed(|| {
                        if batch {
                            going.iter().for_each(|&e| world.destroy(e));
                            world.create_n8(going);
                        } else {
                            for e in going {
                                world.destroy(*e);
                                *e = world.create(8);
                            }
                        }
                    });
                    ns += if round == 0 { 0.0 } else { taken };
                }
                ns / 5.0 / replaced as f64
            })
        });
    }
    for (name, random) in [("add_remove_fifth_in_order_100k", false), ("add_remove_fifth_random_100k", true)] {
        list.add("ecs_churn", name, move || {
            let mut world = S::new();
            let mut entities = all(&mut world, 4, small);
            if random {
                shuffle(&mut entities, 42);
            }
            Box::new(move || {
                timed_passes(Clock::Thread, small, || {
                    for &e in &entities {
                        world.add_extra(e);
                        world.remove_extra(e);
                    }
                })
            })
        });
    }
    for (name, add) in [("add_fifth_random_100k", true), ("remove_fifth_random_100k", false)] {
        list.add("ecs_churn", name, move || {
            let mut world = S::new();
            let mut entities = all(&mut world, 4, small);
            shuffle(&mut entities, 42);
            Box::new(move || {
                let mut ns = 0.0;
                for round in 0..11 {
                    let adding = timed(|| entities.iter().for_each(|&e| world.add_extra(e)));
                    let removing = timed(|| entities.iter().for_each(|&e| world.remove_extra(e)));
                    ns += match round {
                        0 => 0.0,
                        _ if add => adding,
                        _ => removing,
                    };
                }
                ns / 10.0 / small as f64
            })
        });
    }
    for (name, components, count) in [
        ("memory_c1_100k", 1, small),
        ("memory_c3_100k", 3, small),
        ("memory_c8_100k", 8, small),
        ("memory_c1_1m", 1, large),
        ("memory_c8_1m", 8, large),
    ] {
        list.add("ecs_memory", name, move || {
            Box::new(move || {
                let mut world = S::new();
                let before = live_bytes();
                (0..count).for_each(|_| {
                    world.create(components);
                });
                (live_bytes() - before) as f64 / count as f64
            })
        });
    }
}
