//! Crashes of real processes: three members, each in its own process, with concurrent writers of the same
//! registers. The leader is killed with SIGKILL repeatedly, and sometimes all members at once. At the end
//! every acknowledged register has one value, at all members.
//!
//! Without arguments this program is the test; with `child` it is a member.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod child;
mod parent;

/// How often a leader is killed. `JETON_KILL_ROUNDS` overrides it.
const ROUNDS: usize = 12;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "child") {
        return child::run(&arguments[1..]);
    }
    let rounds = std::env::var("JETON_KILL_ROUNDS").ok().and_then(|text| text.parse().ok());
    parent::run(rounds.unwrap_or(ROUNDS));
}
