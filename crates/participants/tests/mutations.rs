//! Every planted bug is detected by a scenario, and without the bug the same scenario passes.
mod scenarios;

use jeton_participants::mutation::{Mutation, plant};
use scenarios::{Engine, Fixture, Scenario};

const POSTGRES: Engine = Engine::Postgres;
const MARIADB: Engine = Engine::MariaDb { binlog: false };

type Planted = (Engine, Mutation, &'static [(&'static str, Scenario)]);

const PLANTED: &[Planted] = &[
    (POSTGRES, Mutation::UnguardedVote, scenarios![branches::failed_statement_fails_the_branch]),
    (POSTGRES, Mutation::UnknownIsDone, scenarios![branches::heuristic_outcome_is_reported]),
    (POSTGRES, Mutation::FenceOmitted, scenarios![fencing::fence_releases_locks_of_open_branch]),
    (MARIADB, Mutation::ErrorIgnored, scenarios![branches::failed_statement_fails_the_branch]),
    (MARIADB, Mutation::UnknownIsDone, scenarios![branches::other_server_commits_while_owner_is_connected]),
    (MARIADB, Mutation::SessionReset, scenarios![branches::commit_after_vote]),
    (MARIADB, Mutation::RollbackTrusted, scenarios![mariadb_only::branch_reappearing_after_crash_is_listed]),
    (MARIADB, Mutation::MarkerOmitted, scenarios![mariadb_only::read_only_branch_can_be_committed_by_others]),
    (MARIADB, Mutation::LateErrorIgnored, scenarios![mariadb_only::late_prepare_error_is_a_no_vote]),
    (
        MARIADB,
        Mutation::SessionEndNotAwaited,
        scenarios![mariadb_only::branch_is_resolved_while_its_session_ends],
    ),
    (MARIADB, Mutation::FenceOmitted, scenarios![fencing::fence_releases_locks_of_open_branch]),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut undetected = Vec::new();
    for engine in [POSTGRES, MARIADB] {
        for (_, mutation, scenarios) in PLANTED.iter().filter(|(other, ..)| *other == engine) {
            for (name, scenario) in *scenarios {
                // A new database for each bug, because a bug leaves branches behind.
                let mut fixture = Fixture::build(engine).await?;
                plant(None);
                if let Err(error) = fixture.run(*scenario).await {
                    undetected.push(format!("{name} fails without a planted bug: {error:#}"));
                }
                plant(Some(*mutation));
                fixture.rounds = 3_000;
                match fixture.run(*scenario).await {
                    Ok(()) => undetected.push(format!("{mutation:?} was not detected by {name}")),
                    Err(error) => println!("{}: {mutation:?} was detected: {error:#}", engine.label()),
                }
                plant(None);
            }
        }
    }
    anyhow::ensure!(undetected.is_empty(), "{undetected:#?}");
    Ok(())
}
