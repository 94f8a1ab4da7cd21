//! Real crashes: an engine in a process of its own is killed with SIGKILL repeatedly under load. The
//! client retries unanswered operations and sends duplicates of answered ones. After every kill the counts
//! must match the oracle. Further scenarios: a probabilistic table, and a table that is deleted and created
//! again.
//!
//! Without arguments it is the test; with `child` it is the process that is killed.

mod child;
#[path = "../common/mod.rs"]
mod common;
mod deletion;
mod driver;
mod oracle;
mod probabilistic;
mod relaxed;

/// Number of kills. `JETON_KILL_ROUNDS` overrides it.
const ROUNDS: u64 = 60;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("child") {
        let arguments: Vec<String> = arguments.collect();
        let [folder, shards, scenario] = &arguments[..] else {
            panic!("child needs a folder, a number of shards and a scenario");
        };
        return child::serve(folder.as_ref(), shards.parse().expect("a number of shards"), scenario);
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds = number("JETON_KILL_ROUNDS").unwrap_or(ROUNDS);
    // A new seed each time: what the kill interrupts is random anyway.
    let seed = number("JETON_KILL_SEED").unwrap_or_else(|| std::process::id().into());
    println!("{rounds} kills, JETON_KILL_SEED={seed}");
    driver::run(rounds, seed);
    relaxed::run(rounds.div_ceil(3), seed);
    probabilistic::run(rounds.div_ceil(4), seed);
    deletion::run(rounds.div_ceil(3), seed);
}
