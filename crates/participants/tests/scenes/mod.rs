//! What must hold of every database that takes part, as scenes on a real one. A scene that fails says what did not hold.
#![allow(dead_code, reason = "not every test plays every scene")]

pub mod branches;
pub mod decisions;
pub mod deployments;
pub mod fences;
pub mod losses;
pub mod mariadb_only;
pub mod postgres_only;
pub mod stage;

use std::pin::Pin;

use anyhow::Result;

pub use stage::{Engine, Stage};

/// A scene on a stage.
pub type Scene = for<'a> fn(&'a mut Stage) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Names scenes after their functions.
#[macro_export]
macro_rules! scenes {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), {
            fn play<'a>(
                stage: &'a mut $crate::scenes::Stage,
            ) -> std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>> {
                Box::pin($crate::scenes::$module::$name(stage))
            }
            play
        })),*]
    };
}

/// Those for both engines.
pub const COMMON: &[(&str, Scene)] = scenes![
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
    losses::a_branch_outlives_a_crash_of_the_database,
    losses::dead_idle_connections_do_not_matter,
    losses::a_connection_lost_before_the_vote_loses_the_work,
    losses::a_connection_lost_after_the_vote_loses_nothing,
    losses::a_vote_whose_answer_is_lost_is_rolled_back,
    losses::a_late_vote_is_found,
    losses::a_statement_nobody_waits_for_is_rolled_back,
    fences::a_hung_owner_of_locks_is_ended,
    fences::a_hung_owner_of_a_prepared_branch_is_ended,
    fences::who_was_fenced_may_begin_again,
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
    deployments::a_trial_that_was_left_is_ended_by_whoever_has_the_number,
];

/// Plays scenes whose name has one of the words of the command line, all if there is none.
pub async fn play(stage: &mut Stage, scenes: &[(&str, Scene)]) -> usize {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut failed = 0;
    for (name, scene) in scenes {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let started = std::time::Instant::now();
        let result = stage.play(*scene).await;
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{}: {name} ... {verdict} ({} ms)", stage.engine.word(), started.elapsed().as_millis());
        if let Err(error) = result {
            println!("    {error:#}");
            failed += 1;
        }
    }
    failed
}
