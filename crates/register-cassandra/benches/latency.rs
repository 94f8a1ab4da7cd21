//! The latency of conditional appends to a stripe, on three nodes of this machine: Paxos v1 and v2 by the
//! statements of the engine, and the engine itself. Prints a table in Markdown.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::time::{Duration, Instant};

use jeton_register::conformance::block_on;
use jeton_register::{Batch, LogId, Registers, Slot, WritePermit, WriteResult};
use jeton_register_cassandra::{CassandraRegisters, Options, create_schema};
use jeton_testbed::{Cassandra, Compilation};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::batch::{Batch as CqlBatch, BatchType};
use scylla::statement::{Consistency, SerialConsistency};

const UPDATE: &str = "UPDATE jeton.register SET version = ?, last = ?, trimmed = 0
    WHERE space = 4 AND log = ? AND slot = 0 IF version = ? AND last = ?";
const INSERT: &str = "INSERT INTO jeton.register (space, log, slot, value) VALUES (4, ?, ?, ?)";

fn main() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "Cassandra {}, three nodes on one machine of {cores} cores, 512 MB heap each, `commitlog_sync: batch`.",
        Cassandra::version()
    );
    println!("Load average at the start: {}", load.trim());
    println!("\n| appends by | frame | stripes | appends | p50 ms | p99 ms | appends a second |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for variant in ["v2", "v1"] {
        let folder = jeton_testbed::folder().unwrap();
        let cluster =
            Cassandra::start(folder.path(), &[("paxos_variant", variant)], Compilation::Full).unwrap();
        block_on(create_schema(&cluster.url("jeton"), 3)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(statements(&cluster, variant));
        if variant == "v2" {
            let engine =
                block_on(CassandraRegisters::open(&cluster.url("jeton"), Options::default())).unwrap();
            for (bytes, stripes) in [(1 << 10, 1), (128 << 10, 1), (1 << 10, 8), (128 << 10, 8)] {
                appends(&engine, bytes, stripes);
            }
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("\nLoad average at the end: {}", load.trim());
}

fn count(bytes: usize) -> u64 {
    if bytes > 1 << 10 { 150 } else { 400 }
}

fn row(by: &str, bytes: usize, stripes: usize, mut times: Vec<Duration>, total: Duration) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    let rate = times.len() as f64 / total.as_secs_f64();
    println!(
        "| {by} | {} KiB | {stripes} | {} | {:.1} | {:.1} | {rate:.0} |",
        bytes >> 10,
        times.len(),
        at(50),
        at(99)
    );
}

/// Appends by the statements, on one connection.
async fn statements(cluster: &Cassandra, variant: &str) {
    let session: Session = SessionBuilder::new().known_node_addr(cluster.address(0)).build().await.unwrap();
    let mut batch = CqlBatch::new(BatchType::Logged);
    batch.append_statement(session.prepare(UPDATE).await.unwrap());
    batch.append_statement(session.prepare(INSERT).await.unwrap());
    batch.set_consistency(Consistency::Quorum);
    batch.set_serial_consistency(Some(SerialConsistency::Serial));
    for bytes in [1 << 10, 128 << 10] {
        let log = (bytes as u128 | 1 << 100).to_be_bytes().to_vec();
        let value = vec![7u8; bytes];
        let mut times = Vec::new();
        let mut begin = Instant::now();
        // The first appends are not counted.
        let skipped = 30;
        for slot in 1..=(count(bytes) + skipped) as i64 {
            if slot == skipped as i64 + 1 {
                (times, begin) = (Vec::new(), Instant::now());
            }
            let before = (slot > 1).then_some(slot - 1);
            let started = Instant::now();
            let values = ((slot, slot, &log, before, before), (&log, slot, &value));
            let result = session.batch(&batch, values).await.unwrap().into_rows_result().unwrap();
            assert_eq!(result.rows_num(), 1);
            times.push(started.elapsed());
        }
        row(&format!("statements, Paxos {variant}"), bytes, 1, times, begin.elapsed());
    }
}

/// Appends by the engine, one in flight for each stripe.
fn appends(engine: &CassandraRegisters, bytes: usize, stripes: usize) {
    let value = vec![7u8; bytes];
    let started = Instant::now();
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..stripes)
            .map(|stripe| {
                let value = &value;
                scope.spawn(move || {
                    let log = LogId::stripe((bytes >> 10) as u16 * 100 + (stripes * 10 + stripe) as u16);
                    let mut times = Vec::new();
                    for slot in 1..=count(bytes) / stripes as u64 * 2 {
                        let mut batch = Batch::new();
                        batch.push(log, Slot(slot), value);
                        let started = Instant::now();
                        let written = block_on(engine.write(batch, WritePermit::unlimited())).unwrap();
                        assert_eq!(written, [WriteResult::Fresh]);
                        times.push(started.elapsed());
                    }
                    times
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    row("engine, Paxos v2", bytes, stripes, times, started.elapsed());
}
