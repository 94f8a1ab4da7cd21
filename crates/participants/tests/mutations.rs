//! Every planted bug is found by a scene that should find it; and without it the same scene passes.
mod scenes;

use jeton_participants::mutation::{Mutation, plant};
use scenes::{Engine, Scene, Stage};

const POSTGRES: Engine = Engine::Postgres;
const MARIADB: Engine = Engine::MariaDb { binlog: false };

type Planted = (Engine, Mutation, &'static [(&'static str, Scene)]);

const PLANTED: &[Planted] = &[
    (POSTGRES, Mutation::UnguardedVote, scenes![branches::a_failed_statement_is_never_forgiven]),
    (POSTGRES, Mutation::UnknownIsDone, scenes![branches::damage_is_told]),
    (POSTGRES, Mutation::FenceOmitted, scenes![fences::a_hung_owner_of_locks_is_ended]),
    (MARIADB, Mutation::ErrorForgiven, scenes![branches::a_failed_statement_is_never_forgiven]),
    (MARIADB, Mutation::UnknownIsDone, scenes![branches::another_commits_while_the_owner_is_connected]),
    (MARIADB, Mutation::SessionReset, scenes![branches::a_branch_commits_after_its_vote]),
    (MARIADB, Mutation::RollbackTrusted, scenes![mariadb_only::what_comes_back_after_a_crash_is_found]),
    (
        MARIADB,
        Mutation::MarkOmitted,
        scenes![mariadb_only::a_branch_that_only_read_can_be_committed_by_others],
    ),
    (MARIADB, Mutation::LateErrorIgnored, scenes![mariadb_only::a_vote_that_fails_late_is_no]),
    (MARIADB, Mutation::PartingNotAwaited, scenes![mariadb_only::a_branch_is_ended_while_its_session_goes]),
    (MARIADB, Mutation::FenceOmitted, scenes![fences::a_hung_owner_of_locks_is_ended]),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut missed = Vec::new();
    for engine in [POSTGRES, MARIADB] {
        for (_, mutation, scenes) in PLANTED.iter().filter(|(other, ..)| *other == engine) {
            for (name, scene) in *scenes {
                // What a planted bug leaves behind ends with its database.
                let mut stage = Stage::build(engine).await?;
                plant(None);
                if let Err(error) = stage.play(*scene).await {
                    missed.push(format!("{name} fails without a planted bug: {error:#}"));
                }
                plant(Some(*mutation));
                stage.rounds = 3_000;
                match stage.play(*scene).await {
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
