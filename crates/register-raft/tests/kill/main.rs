//! Real crashes: three members, each in a process of its own, with writers in all of them that race for the same registers. The process that leads is
//! killed with SIGKILL again and again, and sometimes all of them at once. In the end every register that was acknowledged has its one value, at all members.
//!
//! Without arguments it is the test; with `child` it is a process that is killed.

#![allow(clippy::unwrap_used, reason = "what a test's helper cannot do fails the test")]

mod child;
mod parent;

/// How often a leader is killed. `JETON_KILL_ROUNDS` asks for more.
const ROUNDS: usize = 12;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "child") {
        return child::run(&arguments[1..]);
    }
    let rounds = std::env::var("JETON_KILL_ROUNDS").ok().and_then(|text| text.parse().ok());
    parent::run(rounds.unwrap_or(ROUNDS));
}
