//! The cases of bench/ecs for ECS crates: same components, same counts, same random numbers, one row a case and library.
//!
//!     throng-ecs-peers [--quick] [--repeat N] [--case TEXT] [--json FILE]
mod bevy;
mod cases;
mod flecs;
mod hecs_world;
mod measure;

use cases::{cases, Case, Subject};
use std::fmt::Write;

struct Library {
    name: &'static str,
    version: &'static str,
    cases: Vec<Case>,
}

fn library<S: Subject>(name: &'static str, version: &'static str, quick: bool) -> Library {
    Library { name, version, cases: cases::<S>(quick) }
}

fn main() {
    let (mut quick, mut repeat, mut filter, mut json) = (false, 5usize, String::new(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| refuse(&format!("{argument} needs a value")));
        match argument.as_str() {
            "--quick" => quick = true,
            "--repeat" => {
                repeat = value().parse().ok().filter(|n| (1..=25).contains(n)).unwrap_or_else(|| refuse("--repeat takes 1 to 25"))
            }
            "--case" => filter = value(),
            "--json" => json = Some(value()),
            _ => refuse(&format!("unknown option {argument}")),
        }
    }
    measure::touch_heap(if quick { 64 } else { 1200 });
    // The versions are those of Cargo.toml, which pins them.
    let libraries = [
        library::<bevy::World>("bevy_ecs", "0.20.1", quick),
        library::<hecs_world::World>("hecs", "0.11.2", quick),
        library::<flecs::World>("flecs_ecs", "0.2.2", quick),
    ];
    let mut rows = String::new();
    // The first library has every case.
    for case in libraries[0].cases.iter().filter(|case| case.name.contains(&filter)) {
        // In a round each library runs once, so that a drift of the machine meets all of them.
        let mut runs = Vec::new();
        for library in &libraries {
            if let Some(same) = library.cases.iter().find(|other| other.name == case.name) {
                runs.push((library, (same.prepare)(), Vec::new()));
            }
        }
        for round in 0..=repeat {
            for (_, measure, times) in &mut runs {
                let value = measure();
                if round > 0 {
                    times.push(value);
                }
            }
        }
        print!("{:<34}", case.name);
        for (library, _, times) in &mut runs {
            let value = measure::median(times);
            let figure = if case.scenario == "ecs_memory" { "bytes_per_entity" } else { "ns_per_op" };
            print!(" {:>9} {value:<9.4}", library.name);
            let separator = if rows.is_empty() { "" } else { "," };
            write!(
                rows,
                "{separator}\n {{\"scenario\": \"{}\", \"case\": \"{}\", \"library\": \"{}\", \"version\": \"{}\", \"quick\": {quick}, \
                 \"repeat\": {repeat}, \"{figure}\": {value}}}",
                case.scenario, case.name, library.name, library.version
            )
            .unwrap();
        }
        println!();
    }
    if rows.is_empty() {
        refuse(&format!("no case has \"{filter}\" in its name"));
    }
    if let Some(path) = json {
        std::fs::write(&path, format!("{{\"rows\": [{rows}\n]}}\n")).unwrap_or_else(|_| refuse(&format!("cannot write {path}")));
    }
}

fn refuse(what: &str) -> ! {
    eprintln!("throng-ecs-peers: {what}");
    std::process::exit(2)
}
