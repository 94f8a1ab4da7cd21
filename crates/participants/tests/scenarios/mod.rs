//! Scenarios for participants, on a real database.
#![allow(dead_code, reason = "not every test plays every scenario")]

pub mod branches;
pub mod connection_loss;
pub mod decisions;
pub mod deployments;
pub mod fencing;
pub mod fixture;
pub mod mariadb_only;
pub mod postgres_only;
pub mod tls;

use std::pin::Pin;

use anyhow::Result;

pub use fixture::{Engine, Fixture};

pub type Scenario = for<'a> fn(&'a mut Fixture) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Names scenarios after their functions.
#[macro_export]
macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), {
            fn run<'a>(
                fixture: &'a mut $crate::scenarios::Fixture,
            ) -> std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>> {
                Box::pin($crate::scenarios::$module::$name(fixture))
            }
            run
        })),*]
    };
}

/// The scenarios of both engines.
pub const COMMON: &[(&str, Scenario)] = scenarios![
    branches::commit_after_vote,
    branches::rollback_after_vote,
    branches::rollback_before_vote,
    branches::failed_statement_fails_the_branch,
    branches::control_statements_are_refused,
    branches::connections_are_reused_without_leftovers,
    branches::connections_are_bounded,
    branches::lock_timeout_is_transient,
    branches::other_server_commits_while_owner_is_connected,
    branches::concurrent_resolution,
    branches::outcome_cannot_change,
    branches::heuristic_outcome_is_reported,
    branches::row_counts_are_reported,
    branches::locks_of_prepared_branch_are_listed,
    branches::values_round_trip,
    branches::prepared_branches_have_an_age,
    connection_loss::prepared_branch_survives_database_crash,
    connection_loss::dead_idle_connections_are_replaced,
    connection_loss::connection_lost_before_vote_aborts,
    connection_loss::connection_lost_after_vote_keeps_the_branch,
    connection_loss::vote_with_lost_response_is_rolled_back,
    connection_loss::late_prepare_is_listed,
    connection_loss::abandoned_statement_is_rolled_back,
    fencing::fence_releases_locks_of_open_branch,
    fencing::fence_ends_session_of_prepared_branch,
    fencing::fenced_server_may_begin_again,
    decisions::decision_commits_with_the_branch,
    decisions::existing_decision_rolls_the_branch_back,
    decisions::one_of_two_coordinators_commits,
    decisions::owner_races_recovery,
    decisions::lost_response_is_looked_up,
    decisions::lost_request_decides_nothing,
    decisions::decision_in_flight_is_awaited,
    decisions::forgotten_session_is_not_decided_again,
    deployments::cluster_number_belongs_to_one_deployment,
    deployments::branches_of_other_clusters_are_not_listed,
    deployments::tables_of_an_earlier_version_are_renamed,
    deployments::interrupted_privilege_check_is_cleaned_up,
    tls::connections_are_encrypted_as_the_url_says,
];

/// Runs the scenarios whose name contains an argument of the command line, or all without arguments.
pub async fn run(fixture: &mut Fixture, scenarios: &[(&str, Scenario)]) -> usize {
    let filters: Vec<String> = std::env::args().skip(1).filter(|label| !label.starts_with('-')).collect();
    let mut failed = 0;
    for (name, scenario) in scenarios {
        if !filters.is_empty() && !filters.iter().any(|label| name.contains(label.as_str())) {
            continue;
        }
        let started = std::time::Instant::now();
        let result = fixture.run(*scenario).await;
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{}: {name} ... {verdict} ({} ms)", fixture.engine.label(), started.elapsed().as_millis());
        if let Err(error) = result {
            println!("    {error:#}");
            failed += 1;
        }
    }
    failed
}
