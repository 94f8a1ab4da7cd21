//! The scenarios on a real MariaDB, with and without a binary log.
mod scenarios;

use scenarios::{Engine, Fixture, Scenario};

const OWN: &[(&str, Scenario)] = scenarios![
    mariadb_only::branch_without_statement_ends_at_vote,
    mariadb_only::read_only_branch_can_be_committed_by_others,
    mariadb_only::branch_reappearing_after_crash_is_listed,
    mariadb_only::non_transactional_tables_are_refused,
    mariadb_only::implicit_commits_are_refused,
    mariadb_only::branch_is_resolved_while_its_session_ends,
    mariadb_only::failed_begin_executes_nothing,
    mariadb_only::vote_without_commit_marker_is_no,
    mariadb_only::late_prepare_error_is_a_no_vote,
    mariadb_only::deadlock_victim_executes_nothing_more,
    mariadb_only::wrong_setup_is_reported_with_remedy,
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut failed = 0;
    for binlog in [false, true] {
        let mut fixture = Fixture::build(Engine::MariaDb { binlog }).await?;
        failed +=
            scenarios::run(&mut fixture, scenarios::COMMON).await + scenarios::run(&mut fixture, OWN).await;
    }
    anyhow::ensure!(failed == 0, "{failed} failed");
    Ok(())
}
