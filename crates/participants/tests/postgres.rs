//! PostgreSQL as a participant, on a real one.
mod scenarios;

use scenarios::{Engine, Fixture, Scenario};

const OWN: &[(&str, Scenario)] = scenarios![
    postgres_only::a_branch_that_changed_nothing_is_over,
    postgres_only::a_session_writes_nothing_outside_of_its_branch,
    postgres_only::a_check_at_the_end_fails_the_vote,
    postgres_only::a_stale_statement_is_prepared_again,
    postgres_only::a_wrong_setup_is_told_with_a_remedy,
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut fixture = Fixture::build(Engine::Postgres).await?;
    let failed =
        scenarios::play(&mut fixture, scenarios::COMMON).await + scenarios::play(&mut fixture, OWN).await;
    anyhow::ensure!(failed == 0, "{failed} failed");
    Ok(())
}
