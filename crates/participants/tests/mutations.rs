//! Every planted bug is found by a scenario that should find it; and without it the same scenario passes.
mod scenarios;

use jeton_participants::mutation::{Mutation, plant};
use scenarios::{Engine, Fixture, Scenario};

const POSTGRES: Engine = Engine::Postgres;
const MARIADB: Engine = Engine::MariaDb { binlog: false };

type Planted = (Engine, Mutation, &'static [(&'static str, Scenario)]);

const PLANTED: &[Planted] = &[
    (POSTGRES, Mutation::UnguardedVote, scenarios![branches::a_failed_statement_is_never_forgiven]),
    (POSTGRES, Mutation::UnknownIsDone, scenarios![branches::damage_is_told]),
    (POSTGRES, Mutation::FenceOmitted, scenarios![fencing::a_hung_owner_of_locks_is_ended]),
    (MARIADB, Mutation::ErrorForgiven, scenarios![branches::a_failed_statement_is_never_forgiven]),
    (MARIADB, Mutation::UnknownIsDone, scenarios![branches::another_commits_while_the_owner_is_connected]),
    (MARIADB, Mutation::SessionReset, scenarios![branches::a_branch_commits_after_its_vote]),
    (MARIADB, Mutation::RollbackTrusted, scenarios![mariadb_only::what_comes_back_after_a_crash_is_found]),
    (
        MARIADB,
        Mutation::MarkOmitted,
        scenarios![mariadb_only::a_branch_that_only_read_can_be_committed_by_others],
    ),
    (MARIADB, Mutation::LateErrorIgnored, scenarios![mariadb_only::a_vote_that_fails_late_is_no]),
    (
        MARIADB,
        Mutation::PartingNotAwaited,
        scenarios![mariadb_only::a_branch_is_ended_while_its_session_goes],
    ),
    (MARIADB, Mutation::FenceOmitted, scenarios![fencing::a_hung_owner_of_locks_is_ended]),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut missed = Vec::new();
    for engine in [POSTGRES, MARIADB] {
        for (_, mutation, scenarios) in PLANTED.iter().filter(|(other, ..)| *other == engine) {
            for (name, scenario) in *scenarios {
                // What a planted bug leaves behind ends with its database.
                let mut fixture = Fixture::build(engine).await?;
                plant(None);
                if let Err(error) = fixture.play(*scenario).await {
                    missed.push(format!("{name} fails without a planted bug: {error:#}"));
                }
                plant(Some(*mutation));
                fixture.rounds = 3_000;
                match fixture.play(*scenario).await {
                    Ok(()) => missed.push(format!("{mutation:?} was not noticed by {name}")),
                    Err(error) => println!("{}: {mutation:?} was noticed: {error:#}", engine.word()),
                }
                plant(None);
            }
        }
    }
    anyhow::ensure!(missed.is_empty(), "{missed:#?}");
    Ok(())
}
