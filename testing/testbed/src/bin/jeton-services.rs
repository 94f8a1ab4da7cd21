//! `jeton-services cassandra [folder]`: runs a Cassandra cluster until Ctrl-C, for experiments by hand.
//! `jeton-services fetch`: fetches its programs into the cache.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use jeton_testbed::{CASSANDRA_NODES, Cassandra, Compilation, folder};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = match &arguments[..] {
        [service] if service == "fetch" => return Cassandra::prepare(),
        [service] if service == "cassandra" => None,
        [service, folder] if service == "cassandra" => Some(PathBuf::from(folder)),
        _ => bail!("usage: cassandra [folder], or fetch"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let temporary = folder()?;
    let folder = given.unwrap_or_else(|| temporary.path().to_owned());
    Cassandra::prepare()?;
    let started = Instant::now();
    let mut cluster = Cassandra::start(&folder, &[], Compilation::Quick)?;
    println!("Cassandra {}, {} s from start to ready", Cassandra::version(), started.elapsed().as_secs());
    for node in 0..CASSANDRA_NODES {
        let process = cluster.process(node).unwrap_or_default();
        println!("node {}: {}, process {process}", node + 1, cluster.address(node));
    }
    println!("URL: {}", cluster.url("jeton"));
    println!("files: {}", folder.display());
    println!("Ctrl-C stops it");
    runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            done = tokio::signal::ctrl_c() => done,
            _ = terminate.recv() => Ok(()),
        }
    })?;
    (0..CASSANDRA_NODES).for_each(|node| cluster.kill(node));
    Ok(())
}
