//! Memory per remembered id: growth of the server's process while new ids arrive.

use std::path::Path;

use anyhow::Result;

use crate::jeton::{DURABLE, Jeton};
use crate::redis::{Fsync, Redis};
use crate::report::{Threshold, Verdicts, grouped, load, spread};
use crate::server::{await_idle, resident_bytes};
use crate::target::Target;
use crate::throughput::{PIPELINE, attempt};
use crate::workload::Workload;

/// Additions before the first measurement: one-time allocations do not count as memory of ids.
const WARM: u64 = 20_000;

/// Bytes per id: of the process, and as reported by the server.
fn growth(target: &mut Target, ids: u64, account: impl Fn() -> Result<u64>) -> Result<(f64, f64)> {
    // Few counters: the growth is memory of ids.
    let workload = Workload { name: "1,000 counters", draws: (1..=1_000).collect() };
    let process = target.process;
    let pool = target.pool()?;
    pool.stop_retries();
    pool.fill(&workload, PIPELINE, WARM)?;
    await_idle(&[process]);
    let (before, counted) = (resident_bytes(process), account()?);
    let round = pool.fill(&workload, PIPELINE, ids)?;
    await_idle(&[process]);
    let per_id = |after: u64, before: u64| (after as f64 - before as f64) / round.answered as f64;
    Ok((per_id(resident_bytes(process), before), per_id(account()?, counted)))
}

/// Growth of a Jeton server per id, in bytes.
pub fn of(jeton: Jeton, ids: u64) -> Result<f64> {
    let mut target = jeton.target(DURABLE)?;
    let (resident, _) = growth(&mut target, ids, || Ok(0))?;
    println!("| {} | {resident:.1} | |", target.name);
    Ok(resident)
}

pub fn run(folder: &Path, ids: u64) {
    println!("\n## Memory per remembered id, {} ids\n", grouped(ids as f64));
    println!("Before: {}. One server at a time.\n", load());
    println!("| target | growth of the process, bytes per id | as reported by the server |\n|---|--:|--:|");
    let mut verdicts = Verdicts::default();
    let redis = |target: fn(&Redis) -> Result<Target>| -> Result<f64> {
        // The sync interval does not change the memory.
        let redis = Redis::start(folder, Fsync::EverySecond)?;
        let mut target = target(&redis)?;
        let (resident, counted) = growth(&mut target, ids, || redis.used_memory())?;
        println!("| {} | {resident:.1} | {counted:.1} |", target.name);
        drop(redis);
        // The next server starts empty.
        std::fs::remove_dir_all(folder.join("redis-everysec"))?;
        Ok(resident)
    };
    let text = attempt("Redis", redis(Redis::recipe));
    let bytes = attempt("Redis", redis(Redis::recipe_with_raw_ids));
    let ours = attempt("Jeton", Jeton::start(folder).and_then(|jeton| of(jeton, ids)));
    for (name, theirs, bar) in [
        ("memory per id, Lua recipe to Jeton", text, Some(Threshold::AtLeast(15.0))),
        ("the same with ids of 16 bytes", bytes, None),
    ] {
        verdicts.judge(name, spread(ours.zip(theirs).map(|(ours, theirs)| theirs / ours)), bar);
    }
    verdicts.print();
}
