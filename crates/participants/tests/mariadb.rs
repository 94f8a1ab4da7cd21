//! MariaDB as a participant, on a real one, with a binary log and without.
mod scenarios;

use scenarios::{Engine, Fixture, Scenario};

const OWN: &[(&str, Scenario)] = scenarios![
    mariadb_only::a_branch_without_a_statement_is_over,
    mariadb_only::a_branch_that_only_read_can_be_committed_by_others,
    mariadb_only::what_comes_back_after_a_crash_is_found,
    mariadb_only::tables_of_other_engines_are_refused,
    mariadb_only::what_commits_by_itself_is_refused,
    mariadb_only::a_branch_is_ended_while_its_session_goes,
    mariadb_only::a_branch_that_does_not_begin_does_nothing,
    mariadb_only::a_vote_without_its_mark_is_no,
    mariadb_only::a_vote_that_fails_late_is_no,
    mariadb_only::a_victim_of_a_deadlock_does_nothing_more,
    mariadb_only::a_wrong_setup_is_told_with_a_remedy,
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut failed = 0;
    for binlog in [false, true] {
        let mut fixture = Fixture::build(Engine::MariaDb { binlog }).await?;
        failed +=
            scenarios::play(&mut fixture, scenarios::COMMON).await + scenarios::play(&mut fixture, OWN).await;
    }
    anyhow::ensure!(failed == 0, "{failed} failed");
    Ok(())
}
