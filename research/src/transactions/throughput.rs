//! `etx-throughput`: transfers per second by protocol, for few and many clients.

use jeton_testkit::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::databases::Databases;
use super::latency::percent;
use super::protocol::{Protocol, ProtocolRunner};
use super::setup::{Participant, SetupOptions};
use super::statistics::{Estimate, mean, rate_ratio};
use super::transfer::{ACCOUNTS, Transfer};
use super::{cpu_usage, targets};
use crate::Setting;
use crate::chart::{Axis, Chart, Colour, Line, Marker, Panel, Series};
use crate::csv::{Cell, Table};
use crate::outcome::{Finding, Outcome};
use crate::progress::Meter;

pub(crate) const TITLE: &str =
    "e-Transactions: transfers a second beside two-phase commit, for 1, 8 and 64 clients";

const PROTOCOLS: &[Protocol] = &[
    Protocol::Baseline,
    Protocol::PresumedAbort,
    Protocol::EtxMemory,
    Protocol::EtxEmbedded,
    Protocol::EtxRaft,
    Protocol::EtxLastAgent,
    Protocol::PostgresPlain,
    Protocol::EtxPostgres,
    Protocol::MariaDbPlain,
    Protocol::EtxMariaDb,
];

const CLIENTS: &[usize] = &[1, 8, 64];
const CLIENTS_MAX: usize = 64;

/// Rounds in which every protocol has a turn, and the length of a turn, of a full and of a quick run.
const LONG: (usize, Duration) = (10, Duration::from_millis(1_000));
const QUICK: (usize, Duration) = (3, Duration::from_millis(400));

/// Warm-up at the start of a turn.
const WARM_UP: Duration = Duration::from_millis(150);

/// The result of one protocol with a number of clients.
pub(crate) struct Row {
    pub(crate) clients: usize,
    pub(crate) protocol: Protocol,
    /// Transfers per second.
    pub(crate) rate: Estimate,
    /// Relative to two-phase commit, or to the plain transaction in one database.
    pub(crate) ratio: Estimate,
    /// Processor microseconds per transfer: of all processes, and of this process.
    pub(crate) processors: (f64, f64),
    pub(crate) load: (f64, f64),
}

pub(crate) fn run(setting: &Setting, meter: &mut Meter<'_>) -> Result<Outcome> {
    let databases = Databases::open(setting, false)?;
    let pair = databases.pairs().first().context("no databases")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let (rounds, turn) = if setting.quick { QUICK } else { LONG };
    meter.expect(CLIENTS.len() * rounds * PROTOCOLS.len());
    let participants = runtime.block_on(async {
        pair.prepare().await?;
        let folder = databases.folder();
        let options = SetupOptions { pair, folder, clients: CLIENTS_MAX, cluster: 1, timed: false };
        options.start(PROTOCOLS).await
    })?;
    // Two-phase commit has its connections; the adapters open theirs on demand.
    for Participant { protocol, runner } in &participants {
        let warming = take_turn(runner, CLIENTS_MAX, WARM_UP, 0);
        runtime.block_on(warming).with_context(|| protocol.name())?;
    }
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let work = measure(&participants, *clients, rounds, turn, || meter.step());
        rows.extend(runtime.block_on(work)?);
    }
    runtime.shutdown_background();
    let outcome = Outcome::new(table(&rows), chart(&rows), finding(&rows));
    Ok(Outcome { text: text(&rows, rounds, turn), ..outcome })
}

async fn measure(
    participants: &[Participant],
    clients: usize,
    rounds: usize,
    turn: Duration,
    mut step: impl FnMut(),
) -> Result<Vec<Row>> {
    let mut rng = Rng::new(clients as u64);
    let mut order: Vec<usize> = (0..participants.len()).collect();
    let mut rates = vec![Vec::with_capacity(rounds); participants.len()];
    let mut processors = vec![(0.0, 0.0); participants.len()];
    let before = cpu_usage::average();
    for round in 0..rounds {
        rng.shuffle(&mut order);
        for place in &order {
            let seed = (round * participants.len() + place) as u64;
            let participant = &participants[*place];
            let turn = take_turn(&participant.runner, clients, turn, seed).await;
            let Turn { rate, processors: (all, own) } = turn.with_context(|| participant.protocol.name())?;
            rates[*place].push(rate);
            processors[*place].0 += all / rounds as f64;
            processors[*place].1 += own / rounds as f64;
            step();
        }
    }
    let load = (before, cpu_usage::average());
    let of = |protocol: Protocol| {
        let place = participants.iter().position(|participant| participant.protocol == protocol);
        place.map(|place| rates[place].as_slice()).unwrap_or_default()
    };
    let row = |(place, participant): (usize, &Participant)| {
        let Participant { protocol, .. } = *participant;
        let reference = reference_of(protocol);
        Row {
            clients,
            protocol,
            rate: mean(&rates[place]),
            ratio: rate_ratio(&rates[place], of(reference)),
            processors: processors[place],
            load,
        }
    };
    Ok(participants.iter().enumerate().map(row).collect())
}

/// The protocol for comparison.
pub(crate) fn reference_of(protocol: Protocol) -> Protocol {
    match protocol.baseline() {
        Protocol::Baseline => Protocol::PresumedAbort,
        plain => plain,
    }
}

/// The result of a turn.
struct Turn {
    /// Transfers per second.
    rate: f64,
    /// As in [`Row`].
    processors: (f64, f64),
}

/// Runs the clients in a closed loop.
async fn take_turn(
    runner: &Arc<dyn ProtocolRunner>,
    clients: usize,
    turn: Duration,
    seed: u64,
) -> Result<Turn> {
    let (counting, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let working: Vec<_> = (0..clients)
        .map(|client| {
            let (runner, counting, stop) = (Arc::clone(runner), Arc::clone(&counting), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut rng = Rng::new(seed << 16 | client as u64);
                let mut done = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let (from, to) = (rng.below(ACCOUNTS) as i64, rng.below(ACCOUNTS) as i64);
                    runner.transact(client, Transfer { from, to, sql_ms: 0 }).await?;
                    // Transfers that end after the turn do not count.
                    let counts = counting.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed);
                    done += u64::from(counts);
                }
                anyhow::Ok(done)
            })
        })
        .collect();
    tokio::time::sleep(WARM_UP).await;
    let (started, before) = (Instant::now(), cpu_usage::CpuSeconds::now());
    counting.store(true, Ordering::Relaxed);
    tokio::time::sleep(turn).await;
    stop.store(true, Ordering::Relaxed);
    let (took, worked) = (started.elapsed(), cpu_usage::CpuSeconds::now().since(before));
    let mut done = 0;
    for client in working {
        done += client.await.context("a client broke off")??;
    }
    let each = |seconds: f64| seconds * 1e6 / (done as f64).max(1.0);
    Ok(Turn { rate: done as f64 / took.as_secs_f64(), processors: (each(worked.machine), each(worked.own)) })
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "clients",
        "databases",
        "protocol",
        "transfers_per_second",
        "low_90",
        "high_90",
        "ratio_to",
        "ratio",
        "ratio_low_90",
        "ratio_high_90",
        "processor_us",
        "own_processor_us",
        "load_before",
        "load_after",
    ]);
    for Row { clients, protocol, rate, ratio, processors, load } in rows {
        let mut cells = vec![
            Cell::Count(*clients as u64),
            Cell::Count(protocol.databases()),
            Cell::Text(protocol.csv_name()),
        ];
        cells.extend([rate.value, rate.low, rate.high].map(|rate| Cell::Number(rate, 1)));
        cells.push(Cell::Text(reference_of(*protocol).csv_name()));
        cells.extend([ratio.value, ratio.low, ratio.high].map(|ratio| Cell::Number(ratio, 4)));
        cells.extend([processors.0, processors.1].map(|time| Cell::Number(time, 0)));
        cells.extend([load.0, load.1].map(|load| Cell::Number(load, 2)));
        table.push(cells);
    }
    table
}

fn text(rows: &[Row], rounds: usize, turn: Duration) -> Vec<String> {
    let mut lines = Vec::new();
    for group in rows.chunk_by(|one, other| one.clients == other.clients) {
        let Some(Row { clients, load, .. }) = group.first() else { continue };
        lines.push(format!(
            "{clients} clients: {rounds} rounds, {turn:?} each turn, load {:.2} to {:.2}; transfers a second, 90 % intervals; µs of processors for each, and how many of them in the application server",
            load.0, load.1
        ));
        for Row { protocol, rate, ratio, processors, .. } in group {
            let half = rate.high - rate.value;
            lines.push(format!(
                "{:<31}{:>9.0} ± {half:<6.0}{:.3} ({:.3} to {:.3}) of {:<24}{:>6.0} µs, {:.0}",
                protocol.name(),
                rate.value,
                ratio.value,
                ratio.low,
                ratio.high,
                reference_of(*protocol).name(),
                processors.0,
                processors.1
            ));
        }
        lines.push(String::new());
    }
    lines.extend(targets::throughput(rows));
    lines
}

fn chart(rows: &[Row]) -> Chart {
    let series = |databases: u64| -> Vec<Series> {
        let protocols = PROTOCOLS.iter().filter(|protocol| protocol.databases() == databases);
        protocols.map(|protocol| line(rows, *protocol)).collect()
    };
    let panel = |heading, series: Vec<Series>| {
        let highs = series.iter().flat_map(|series| series.bars.iter().map(|(_, _, high)| *high));
        let top = highs.fold(1.0, f64::max) * 1.1;
        Panel { heading, y: Axis::linear("transfers a second", 0.0, top), series, height: 260.0 }
    };
    Chart {
        title: TITLE,
        x: Axis::log("clients", 0.8, 80.0).with_ticks(&[1.0, 8.0, 64.0]),
        panels: vec![panel("Two databases", series(2)), panel("One database", series(1))],
    }
}

fn line(rows: &[Row], protocol: Protocol) -> Series {
    let (colour, style) = match protocol {
        Protocol::Baseline => (Colour::Grey, Line::Dotted),
        Protocol::PresumedAbort | Protocol::PostgresPlain => (Colour::Black, Line::Dashed),
        Protocol::MariaDbPlain => (Colour::Grey, Line::Dashed),
        Protocol::EtxMemory => (Colour::Sky, Line::Solid),
        Protocol::EtxEmbedded | Protocol::EtxPostgres => (Colour::Blue, Line::Solid),
        Protocol::EtxRaft => (Colour::Green, Line::Solid),
        _ => (Colour::Vermilion, Line::Solid),
    };
    let mut series = Series::new(protocol.name(), colour, style, Marker::Disc);
    for Row { clients, rate, .. } in rows.iter().filter(|row| row.protocol == protocol) {
        let x = *clients as f64;
        series.points.push((x, rate.value));
        series.bars.push((x, rate.low, rate.high));
    }
    series
}

fn finding(rows: &[Row]) -> Finding {
    let most: Vec<String> = rows
        .iter()
        .filter(|row| row.clients == CLIENTS_MAX && row.protocol.is_etx())
        .map(|Row { protocol, rate, ratio, .. }| {
            let reference = reference_of(*protocol).name();
            format!(
                "{} {:.0} a second ({} to {reference})",
                protocol.name(),
                rate.value,
                percent(ratio.value)
            )
        })
        .collect();
    Finding {
        paper_says: "nothing: the paper measures one client".into(),
        we_measure: format!("{CLIENTS_MAX} clients: {}", most.join(", ")),
        why_they_differ: "with many clients all logs use group commit, so processor time limits the rate: e-Transactions execute statements \
                          for their commit markers, which two-phase commit does not have"
            .into(),
    }
}
