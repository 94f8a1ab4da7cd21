//! Transactions with real servers, databases, clients and commands. The databases are started once for all
//! scenarios: `cargo test -p jeton-cli --test transactions -- WORD` runs those with the word in their names.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bank;
mod cluster;
mod deployments;
mod failover;
mod http_client;
mod http_contract;
mod in_doubt;
mod outages;
#[allow(dead_code, reason = "used by other tests")]
#[path = "../program/mod.rs"]
mod program;
mod python;
mod tls;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use bank::Bank;

type Scenario = fn(&Bank);

macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => { &[$((stringify!($name), $module::$name as Scenario)),*] };
}

const SCENARIOS: &[(&str, Scenario)] = scenarios![
    http_contract::a_retry_of_a_transfer_returns_the_same_bytes,
    http_contract::invalid_requests_are_rejected,
    http_contract::acknowledged_outcomes_are_removed,
    http_contract::expired_transactions_are_removed_everywhere,
    http_contract::tx_commands_run_show_and_list,
    in_doubt::a_branch_in_doubt_is_listed_and_resolved,
    outages::a_stopped_database_uses_no_attempts,
    outages::resolve_reports_unreachable_databases,
    deployments::a_second_deployment_of_the_same_number_is_refused,
    deployments::registers_of_another_cluster_are_refused,
    deployments::branches_of_other_clusters_are_ignored,
    failover::another_server_returns_the_one_result,
    failover::recovery_ignores_acknowledged_requests,
    failover::a_transfer_with_raft,
    failover::a_transfer_with_raft_in_memory,
    python::the_python_client_executes_a_transfer,
    python::the_python_client_uses_https,
    tls::servers_and_clients_use_https,
    tls::a_plain_url_of_another_machine_is_logged,
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_chosen = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let bank = Bank::open();
    let mut failed = 0;
    for (name, scenario) in SCENARIOS.iter().filter(|(name, _)| is_chosen(name)) {
        let started = Instant::now();
        // A scenario has its own accounts and servers, so a failure does not affect the next.
        let is_good = catch_unwind(AssertUnwindSafe(|| scenario(&bank))).is_ok();
        failed += usize::from(!is_good);
        let verdict = if is_good { "ok" } else { "FAILED" };
        println!("{name} ... {verdict} ({} ms)", started.elapsed().as_millis());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
