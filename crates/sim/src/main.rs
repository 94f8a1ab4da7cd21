//! The simulator's command line.
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let mut stats = jeton_sim::stats::Stats::default();
    for seed in args[0]..args[1] {
        let outcome = jeton_sim::run::run(&jeton_sim::run::Script::of(seed));
        stats.add(&outcome.told.stats);
        if let Some(violation) = outcome.violation {
            println!("seed {seed}: {violation}");
            if args.len() > 2 { for (step, line) in &outcome.told.lines { println!("{step:4} {line}"); } break; }
        }
    }
    println!("{stats}");
}
