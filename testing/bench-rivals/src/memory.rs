//! What a remembered id costs in memory: growth of the server's process while ids come that it has never seen.

use std::path::Path;

use anyhow::Result;

use crate::jeton::{DURABLE, Jeton};
use crate::redis::{Fsync, Redis};
use crate::report::{Threshold, Verdicts, grouped, load, spread};
use crate::server::{await_rest, resident_bytes};
use crate::target::Target;
use crate::throughput::{PIPELINE, attempt};
use crate::workload::Workload;

/// Additions before the first look, so that what is made once is not taken for memory of ids.
const WARM: u64 = 20_000;

/// Bytes of the process, and by the server's own account, for an id.
fn growth(contender: &mut Target, ids: u64, account: impl Fn() -> Result<u64>) -> Result<(f64, f64)> {
    // Few counters, so that what grows is ids.
    let workload = Workload { name: "1,000 counters", draws: (1..=1_000).collect() };
    let process = contender.process;
    let fleet = contender.fleet()?;
    fleet.stop_retries();
    fleet.fill(&workload, PIPELINE, WARM)?;
    await_rest(&[process]);
    let (before, counted) = (resident_bytes(process), account()?);
    let round = fleet.fill(&workload, PIPELINE, ids)?;
    await_rest(&[process]);
    let per_id = |after: u64, before: u64| (after as f64 - before as f64) / round.answered as f64;
    Ok((per_id(resident_bytes(process), before), per_id(account()?, counted)))
}

pub fn run(folder: &Path, ids: u64) {
    println!("\n## Memory for a remembered id, {} ids\n", grouped(ids as f64));
    println!("Before: {}. Each server alone, started for this.\n", load());
    println!("| contender | growth of the process, bytes per id | by its own account |\n|---|--:|--:|");
    let mut verdicts = Verdicts::default();
    let redis = |contender: fn(&Redis) -> Result<Target>| -> Result<f64> {
        // How often it syncs makes no difference to its memory, and this is faster.
        let redis = Redis::start(folder, Fsync::EverySecond)?;
        let mut contender = contender(&redis)?;
        let (resident, counted) = growth(&mut contender, ids, || redis.used_memory())?;
        println!("| {} | {resident:.1} | {counted:.1} |", contender.name);
        drop(redis);
        // The next starts empty.
        std::fs::remove_dir_all(folder.join("redis-everysec"))?;
        Ok(resident)
    };
    let text = attempt("Redis", redis(Redis::recipe));
    let bytes = attempt("Redis", redis(Redis::recipe_with_raw_ids));
    let ours = attempt(
        "Jeton",
        Jeton::start(folder).and_then(|jeton| {
            let mut contender = jeton.contender(DURABLE)?;
            let (resident, _) = growth(&mut contender, ids, || Ok(0))?;
            println!("| {} | {resident:.1} | |", contender.name);
            Ok(resident)
        }),
    );
    for (name, theirs, bar) in [
        ("memory for an id, the Lua recipe's to ours", text, Some(Threshold::AtLeast(15.0))),
        ("the same with ids of 16 bytes", bytes, None),
    ] {
        verdicts.judge(name, spread(ours.zip(theirs).map(|(ours, theirs)| theirs / ours)), bar);
    }
    verdicts.print();
}
