//! Clusters that share a database.

use anyhow::{Result, ensure};
use jeton_etx::{Cluster, CoordinatorId, Outcome, ResourceError, Xid};
use jeton_participants::Settings;

use super::fixture::{CLUSTER, Engine, Fixture, NUMBER, attempt, settings};
use crate::expect_vote;

fn of(number: u32, deployment: u32) -> Settings {
    Settings { cluster: Cluster { number, deployment }, ..settings() }
}

pub async fn cluster_number_belongs_to_one_deployment(fixture: &mut Fixture) -> Result<()> {
    let number = 4_000_000_001;
    for _ in 0..2 {
        fixture.claim(of(number, u32::MAX)).await?;
    }
    fixture.claim(of(number + 1, 5)).await?;
    let refused = fixture.claim(of(number, 5)).await;
    let Err(why @ ResourceError::Setup { .. }) = &refused else { anyhow::bail!("{refused:?}") };
    ensure!(why.to_string().contains("is deployment 4294967295 here, and this one is 5"), "{why}");
    // Of concurrent claims one succeeds.
    let claims = (0..8).map(|deployment| fixture.claim(of(number + 2, deployment)));
    let claims = futures_util::future::join_all(claims).await;
    ensure!(claims.iter().filter(|claim| claim.is_ok()).count() == 1, "{claims:?}");
    fixture.raw(&format!("DELETE FROM etx_deployment WHERE cluster >= {number}")).await?;
    fixture.claim(of(number, 5)).await?;
    Ok(())
}

pub async fn branches_of_other_clusters_are_not_listed(fixture: &mut Fixture) -> Result<()> {
    let (account, branch) = fixture.prepared_deposit().await?;
    let ours = Cluster::from(CLUSTER);
    for cluster in [Cluster { deployment: 1, ..ours }, Cluster { number: CLUSTER + 1, ..ours }] {
        let others = fixture.server(false, Settings { cluster, ..settings() })?;
        ensure!(others.prepared().await?.is_empty(), "{cluster:?}");
    }
    ensure!(fixture.other.prepared().await?.len() == 1);
    branch.decide(Outcome::Commit).await?;
    fixture.expect_balance(account, 1).await
}

pub async fn tables_of_an_earlier_version_are_renamed(fixture: &mut Fixture) -> Result<()> {
    let (_, branch) = fixture.prepared_deposit().await?;
    let xid = branch.name();
    branch.decide(Outcome::Commit).await?;
    let below = match fixture.engine {
        Engine::Postgres => "below",
        Engine::MariaDb { .. } => "HEX(below)",
    };
    let limit = format!("SELECT {below} FROM etx_retention WHERE cluster = {CLUSTER}");
    // Below all sessions of the scenarios, and not the value of a new table.
    fixture.other.forget(1).await?;
    let before = fixture.raw(&limit).await?;
    fixture.raw("ALTER TABLE etx_commit_marker RENAME TO etx_mark").await?;
    fixture.raw("ALTER TABLE etx_retention RENAME TO etx_forgotten").await?;
    let checks = (0..4).map(|_| fixture.ensure_schema());
    for checked in futures_util::future::join_all(checks).await {
        checked?;
    }
    let rows = fixture.raw(&format!("SELECT 1 FROM etx_commit_marker WHERE gid = '{}'", xid.gid())).await?;
    ensure!(rows.len() == 1, "the commit marker is lost: {rows:?}");
    let after = fixture.raw(&limit).await?;
    ensure!(after == before, "the retention limit was {before:?} and is {after:?}");

    fixture.raw("CREATE TABLE etx_mark (gid int)").await?;
    let refused = fixture.ensure_schema().await;
    fixture.raw("DROP TABLE etx_mark").await?;
    let Err(why @ ResourceError::Setup { .. }) = &refused else { anyhow::bail!("{refused:?}") };
    ensure!(why.to_string().contains("etx_mark and etx_commit_marker both exist"), "{why}");
    Ok(())
}

/// `jeton init` does not know the deployment yet, and its privilege check may be interrupted.
pub async fn interrupted_privilege_check_is_cleaned_up(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    let coordinator = CoordinatorId::TRIAL;
    let mut branch = fixture.own.begin(jeton_etx::AttemptId { coordinator, ..attempt() }).await?;
    fixture.deposit(&mut branch, account).await?;
    expect_vote!(branch, jeton_etx::Vote::Yes);
    let name: Xid = branch.name();
    drop(branch);
    let others = fixture.server(false, of(CLUSTER, 9))?;
    let listed = others.prepared().await?;
    ensure!(listed.iter().map(|listed| listed.name).eq([name]), "{listed:?}");
    for settings in [of(CLUSTER + 1, 9), Settings { number: NUMBER + 1, ..of(CLUSTER, 9) }] {
        ensure!(fixture.server(false, settings.clone())?.prepared().await?.is_empty(), "{settings:?}");
    }
    others.decide(&name, Outcome::Abort).await?;
    fixture.expect_balance(account, 0).await
}
