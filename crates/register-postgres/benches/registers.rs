//! Registers in PostgreSQL compared with a plain `INSERT` on the same server, with one writer and with 64.
//! Prints; checks nothing.
//!
//! `cargo bench -p jeton-register-postgres`. The subjects alternate within one run: figures of different runs
//! do not compare.

use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_register::{Batch, LogId, Registers, Slot, WritePermit, WriteResult};
use jeton_register_postgres::{Options, PostgresRegisters, create_schema};
use jeton_testbed::{Postgres, folder, postgres_version};
use tokio_postgres::NoTls;

const TURNS: usize = 5;
const TURN: Duration = Duration::from_secs(2);
const VALUE: [u8; 200] = [7; 200];

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let place = folder()?;
    let postgres = Postgres::start(place.path(), &[])?;
    let url = postgres.url();
    block_on(create_schema(&url))?;
    println!("{}, registers of {} bytes, {TURNS} turns of {TURN:?}, median", postgres_version(), VALUE.len());
    for callers in [1, 64] {
        let mut subjects: [(&str, Vec<Turn>); 3] = [
            ("registers", vec![]),
            ("INSERT, one connection each", vec![]),
            ("INSERT, one pipelined connection", vec![]),
        ];
        for turn in 0..TURNS {
            subjects[0].1.push(registers(&url, callers, turn)?);
            subjects[1].1.push(plain(&url, callers, callers)?);
            subjects[2].1.push(plain(&url, callers, 1)?);
        }
        println!("{callers} callers, one register each at a time");
        for (name, mut turns) in subjects {
            turns.sort_by(|left, right| left.rate.total_cmp(&right.rate));
            let Turn { rate, p50, p99 } = turns[TURNS / 2];
            println!("  {name:34} {rate:8.0}/s   p50 {p50:6.2} ms   p99 {p99:6.2} ms");
        }
    }
    Ok(())
}

/// The result of one turn.
#[derive(Clone, Copy)]
struct Turn {
    rate: f64,
    p50: f64,
    p99: f64,
}

impl Turn {
    fn of(mut waits: Vec<Duration>, took: Duration) -> Self {
        waits.sort();
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        Self { rate: waits.len() as f64 / took.as_secs_f64(), p50: at(0.5), p99: at(0.99) }
    }
}

fn registers(url: &str, callers: usize, turn: usize) -> Result<Turn, Error> {
    let engine = block_on(PostgresRegisters::open(url, Options::default()))?;
    let begin = Instant::now();
    let waits = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..callers)
            .map(|caller| {
                let engine = &engine;
                scope.spawn(move || {
                    let session = (callers * 1000 + turn * 100_000_000 + caller) as u128;
                    let mut waits = Vec::new();
                    while begin.elapsed() < TURN {
                        let asked = Instant::now();
                        let mut batch = Batch::new();
                        batch.push(LogId::transaction(session), Slot(waits.len() as u64 * 64 + 1), &VALUE);
                        let written = block_on(engine.write(batch, WritePermit::unlimited()));
                        assert_eq!(written, Ok(vec![WriteResult::Fresh]));
                        waits.push(asked.elapsed());
                    }
                    waits
                })
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap_or_default()).collect()
    });
    Ok(Turn::of(waits, begin.elapsed()))
}

/// Inserts rows into a similar table, without results.
fn plain(url: &str, callers: usize, connections: usize) -> Result<Turn, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            clients.push(std::sync::Arc::new(client));
        }
        let table = "CREATE TABLE IF NOT EXISTS plain (a bigint, b bigint, value bytea, PRIMARY KEY (a, b)); TRUNCATE plain";
        clients[0].batch_execute(table).await?;
        let begin = Instant::now();
        let mut tasks = Vec::new();
        for caller in 0..callers {
            let client = std::sync::Arc::clone(&clients[caller % connections]);
            tasks.push(tokio::spawn(async move {
                let insert = client.prepare("INSERT INTO plain VALUES ($1, $2, $3)").await?;
                let mut waits = Vec::new();
                while begin.elapsed() < TURN {
                    let asked = Instant::now();
                    let row = (caller as i64, waits.len() as i64);
                    client.execute(&insert, &[&row.0, &row.1, &&VALUE[..]]).await?;
                    waits.push(asked.elapsed());
                }
                Ok::<_, tokio_postgres::Error>(waits)
            }));
        }
        let mut waits = Vec::new();
        for task in tasks {
            waits.extend(task.await??);
        }
        Ok(Turn::of(waits, begin.elapsed()))
    })
}
