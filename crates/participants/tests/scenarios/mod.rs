//! What must hold of every database that takes part, as scenarios on a real one. A scenario that fails says what did not hold.
#![allow(dead_code, reason = "not every test plays every scenario")]

pub mod branches;
pub mod connection_loss;
pub mod decisions;
pub mod deployments;
pub mod fencing;
pub mod fixture;
pub mod mariadb_only;
pub mod postgres_only;

use std::pin::Pin;

use anyhow::Result;

pub use fixture::{Engine, Fixture};

/// A scenario on a fixture.
pub type Scenario = for<'a> fn(&'a mut Fixture) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Names scenarios after their functions.
#[macro_export]
macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), {
            fn play<'a>(
                fixture: &'a mut $crate::scenarios::Fixture,
            ) -> std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>> {
                Box::pin($crate::scenarios::$module::$name(fixture))
            }
            play
        })),*]
    };
}

/// Those for both engines.
pub const COMMON: &[(&str, Scenario)] = scenarios![
    branches::a_branch_commits_after_its_vote,
    branches::a_branch_is_rolled_back_after_its_vote,
    branches::a_branch_is_rolled_back_before_its_vote,
    branches::a_failed_statement_is_never_forgiven,
    branches::what_would_end_the_branch_is_refused,
    branches::connections_are_reused_and_keep_nothing,
    branches::room_is_bounded,
    branches::a_lock_not_had_is_passing,
    branches::another_commits_while_the_owner_is_connected,
    branches::many_decide_at_once,
    branches::the_end_cannot_be_changed,
    branches::damage_is_told,
    branches::it_is_told_how_many_rows_were_met,
    branches::locks_of_a_prepared_branch_are_told,
    branches::values_come_back_as_they_went,
    branches::prepared_branches_have_an_age,
    connection_loss::a_branch_outlives_a_crash_of_the_database,
    connection_loss::dead_idle_connections_do_not_matter,
    connection_loss::a_connection_lost_before_the_vote_loses_the_work,
    connection_loss::a_connection_lost_after_the_vote_loses_nothing,
    connection_loss::a_vote_whose_answer_is_lost_is_rolled_back,
    connection_loss::a_late_vote_is_found,
    connection_loss::a_statement_nobody_waits_for_is_rolled_back,
    fencing::a_hung_owner_of_locks_is_ended,
    fencing::a_hung_owner_of_a_prepared_branch_is_ended,
    fencing::who_was_fenced_may_begin_again,
    decisions::a_decision_is_committed_with_the_work,
    decisions::a_decision_that_stands_undoes_the_work,
    decisions::of_two_executors_one_commits,
    decisions::the_owner_races_a_cleaner,
    decisions::a_lost_answer_is_looked_up,
    decisions::a_lost_question_decides_nothing,
    decisions::a_decision_under_way_is_waited_for,
    decisions::what_is_forgotten_is_not_decided_again,
    deployments::a_number_is_claimed_by_one_deployment,
    deployments::branches_of_strangers_are_not_listed,
    deployments::tables_of_an_earlier_version_are_renamed,
    deployments::a_trial_that_was_left_is_ended_by_whoever_has_the_number,
];

/// Plays scenarios whose name has one of the words of the command line, all if there is none.
pub async fn play(fixture: &mut Fixture, scenarios: &[(&str, Scenario)]) -> usize {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut failed = 0;
    for (name, scenario) in scenarios {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let started = std::time::Instant::now();
        let result = fixture.play(*scenario).await;
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{}: {name} ... {verdict} ({} ms)", fixture.engine.word(), started.elapsed().as_millis());
        if let Err(error) = result {
            println!("    {error:#}");
            failed += 1;
        }
    }
    failed
}
