//! Seeds that must pass: fixed ones, and some that depend on the day.

use std::time::{SystemTime, UNIX_EPOCH};

use jeton_sim::parallel_runner::{RunOptions, run_all};
use jeton_sim::run::{RunSpec, run};
use jeton_sim::stats::Stats;

fn pass(seeds: std::ops::Range<u64>) -> Stats {
    let tally = run_all(seeds, RunOptions::default());
    if let Some((seed, outcome)) = tally.failed {
        panic!("seed {seed}: {:?}\nsee it with: jeton-sim --seed {seed}", outcome.violation);
    }
    tally.stats
}

#[test]
fn the_fixed_seeds_pass_and_reach_every_case() {
    let stats = pass(0..900);
    // The runs must reach every kind of response.
    for (what, least) in [
        ("fresh", 20_000),
        ("replayed", 5_000),
        ("mismatch", 500),
        ("expired", 500),
        ("fenced", 100),
        ("epoch ahead", 200),
        ("unknown session", 100),
        ("superseded", 1),
        ("probably seen", 500),
        ("fresh, refused by a bound", 500),
        ("overflow", 100),
        ("read, expiring", 500),
        ("read, expired", 200),
        ("branch prepared", 2_000),
        ("branch committed", 500),
        ("branch aborted", 500),
        ("branch finished before", 500),
        ("branch rejected", 300),
        ("reserved", 100),
        ("full", 200),
        ("era dropped", 50),
        ("crash", 1_000),
        ("restart", 500),
        ("start rejected", 10),
    ] {
        assert!(stats.get(what) >= least, "{what}: {} times, of at least {least}", stats.get(what));
    }
}

#[test]
fn the_seeds_of_the_day_pass() {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let first = day * 1_000;
    println!("seeds {first}..{}", first + 150);
    pass(first..first + 150);
}

#[test]
fn a_seed_has_one_history() {
    for seed in 0..20 {
        let (first, second) = (run(&RunSpec::of(seed)), run(&RunSpec::of(seed)));
        assert_eq!(first.log.hash, second.log.hash, "seed {seed}");
        assert_eq!(first.log.lines, second.log.lines, "seed {seed}");
    }
}
