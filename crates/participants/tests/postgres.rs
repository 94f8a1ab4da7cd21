//! The scenarios on a real PostgreSQL.
mod scenarios;

use scenarios::{Engine, Fixture, Scenario};

const OWN: &[(&str, Scenario)] = scenarios![
    postgres_only::unchanged_branch_ends_at_vote,
    postgres_only::session_is_read_only_outside_of_branches,
    postgres_only::deferred_constraint_fails_the_vote,
    postgres_only::stale_prepared_statement_is_replaced,
    postgres_only::wrong_setup_is_reported_with_remedy,
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut fixture = Fixture::build(Engine::Postgres).await?;
    let failed =
        scenarios::run(&mut fixture, scenarios::COMMON).await + scenarios::run(&mut fixture, OWN).await;
    anyhow::ensure!(failed == 0, "{failed} failed");
    Ok(())
}
