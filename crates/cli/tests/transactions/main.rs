//! Transactions as their users have them: real servers, real databases, the clients and the commands. The
//! databases are started once, and the scenarios are played on them one after the other: `cargo test -p
//! jeton-cli --test transactions -- WORD` plays those with the word in their names.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bank;
mod cluster;
mod deployments;
mod failover;
mod http_client;
mod http_contract;
mod in_doubt;
#[allow(dead_code, reason = "other tests run it to its end")]
#[path = "../program/mod.rs"]
mod program;
mod python;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bank::Bank;

/// Nothing that is awaited takes as long as this, whatever else the machine does.
pub const TIMEOUT: Duration = Duration::from_secs(60);

type Scenario = fn(&Bank);

macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => { &[$((stringify!($name), $module::$name as Scenario)),*] };
}

const SCENES: &[(&str, Scenario)] = scenarios![
    http_contract::a_transfer_is_done_once_and_answered_the_same,
    http_contract::what_cannot_be_is_refused,
    http_contract::what_was_acknowledged_is_forgotten,
    http_contract::what_is_old_has_left_every_place,
    http_contract::tx_commands_run_show_and_list,
    in_doubt::a_branch_left_behind_is_listed_and_resolved,
    deployments::a_second_deployment_of_the_same_number_is_refused,
    deployments::registers_of_another_cluster_are_refused,
    deployments::foreign_branches_are_left_alone,
    failover::the_one_answer_comes_from_another_server,
    failover::sweeps_and_acknowledgements_do_not_meet,
    failover::registers_in_raft_do_a_transfer,
    failover::registers_in_five_memories_do_a_transfer,
    python::issue_of_python_does_a_transfer,
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_chosen = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let bank = Bank::open();
    let mut failed = 0;
    for (name, scenario) in SCENES.iter().filter(|(name, _)| is_chosen(name)) {
        let started = Instant::now();
        // What a scenario breaks is its own: accounts, servers and cluster.
        let is_good = catch_unwind(AssertUnwindSafe(|| scenario(&bank))).is_ok();
        failed += usize::from(!is_good);
        let verdict = if is_good { "ok" } else { "FAILED" };
        println!("{name} ... {verdict} ({} ms)", started.elapsed().as_millis());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tries until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
