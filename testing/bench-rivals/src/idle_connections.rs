//! The effect of many idle and some slow connections on the latency of a moderate load.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::jeton::{DURABLE, Jeton};
use crate::redis::{Fsync, Redis};
use crate::report::{Threshold, Verdicts, grouped, load, spread};
use crate::resp::request;
use crate::server::await_idle;
use crate::target::{CONNECTIONS, RoundPlan, Target};
use crate::throughput::attempt;
use crate::workload::Workload;

const IDLE: usize = 2_000;
const SLOW: usize = 200;
/// A slow connection sends a byte this often.
const BYTE: Duration = Duration::from_millis(100);

/// Idle and slow connections.
struct OtherConnections {
    idle: Vec<TcpStream>,
    stop: Arc<AtomicBool>,
    slow: Option<JoinHandle<usize>>,
}

impl OtherConnections {
    /// Opens the connections. The slow ones send a read request.
    fn open(address: SocketAddr, request: Vec<u8>) -> Result<Self> {
        let open = |number: usize| -> Result<TcpStream> {
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
                .with_context(|| format!("connection {number}"))?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let idle = (0..IDLE).map(open).collect::<Result<Vec<_>>>()?;
        let mut slow = (IDLE..IDLE + SLOW).map(open).collect::<Result<Vec<_>>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let slow = std::thread::spawn(move || {
            let (begin, mut sent) = (Instant::now(), 0_u32);
            while !stopped.load(Ordering::Relaxed) {
                let byte = [request[sent as usize % request.len()]];
                slow.retain_mut(|stream| matches!(stream.write(&byte), Ok(1)) && is_open(stream));
                sent += 1;
                std::thread::sleep((begin + BYTE * sent).saturating_duration_since(Instant::now()));
            }
            slow.len()
        });
        Ok(Self { idle, stop, slow: Some(slow) })
    }

    /// Stops. Returns how many idle and slow connections were still open.
    fn close(mut self) -> (usize, usize) {
        self.stop.store(true, Ordering::Relaxed);
        let slow = self.slow.take().and_then(|slow| slow.join().ok()).unwrap_or(0);
        (self.idle.iter_mut().filter_map(|stream| is_open(stream).then_some(())).count(), slow)
    }
}

impl Drop for OtherConnections {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Whether the server has not closed a connection. Received bytes are dropped.
fn is_open(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 256];
    match stream.read(&mut buffer) {
        Ok(len) => len > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

pub fn run(folder: &Path, plan: RoundPlan) {
    println!("\n## {} idle and {SLOW} slow connections\n", grouped(IDLE as f64));
    println!(
        "Before: {}. {CONNECTIONS} connections, one addition at a time, uniform over 100k, at half of the maximum rate of \
         the target; {} rounds of {:?} with and without the others, interleaved.\n",
        load(),
        plan.rounds,
        plan.duration
    );
    let mut verdicts = Verdicts::default();
    let jeton = attempt("Jeton", Jeton::start(folder));
    let redis = attempt("Redis", Redis::start(folder, Fsync::Always));
    let workload = Workload::uniform();
    println!(
        "| target | additions per second | p50 without, ms | with | p99 without, ms | with | idle and slow still open |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let name = "p99 with the other connections to p99 without";
    let ours = jeton.as_ref().and_then(|jeton| attempt("Jeton", jeton.target(DURABLE)));
    let ratio = ours.map(|mut ours| {
        measure(&mut ours, &request(&["JGET", &format!("{DURABLE}/0000001")]), &workload, plan)
    });
    verdicts.judge(
        &format!("Jeton: {name}"),
        spread(ratio.unwrap_or_default()),
        Some(Threshold::AtMost(2.0)),
    );
    if let Some(mut recipe) = redis.as_ref().and_then(|redis| attempt("Redis", redis.recipe())) {
        let read = request(&["GET", "exact/0000001"]);
        let ratio = measure(&mut recipe, &read, &workload, plan);
        verdicts.judge(&format!("{}: {name}", recipe.name), spread(ratio), None);
    }
    verdicts.print();
}

/// The ratios of the rounds.
fn measure(target: &mut Target, request: &[u8], workload: &Workload, plan: RoundPlan) -> Vec<f64> {
    let process = target.process;
    // The first round creates files and fills caches.
    let most = (0..2).filter_map(|_| target.measure(|pool| pool.run(workload, 1, plan.duration))).last();
    let Some(most) = most else { return Vec::new() };
    let rate = most.round.rate() / 2.0;
    let mut rows = Vec::new();
    let mut left = (0, 0);
    for round in 0..plan.rounds {
        await_idle(&[process]);
        let alone = target.measure(|pool| pool.run_at_rate(workload, rate, plan.duration));
        let address = target.address;
        let Some(others) = attempt(&target.name, OtherConnections::open(address, request.to_vec())) else {
            break;
        };
        await_idle(&[process]);
        let with_others = target.measure(|pool| pool.run_at_rate(workload, rate, plan.duration));
        left = others.close();
        let (Some(alone), Some(with_others)) = (alone, with_others) else { break };
        eprintln!(
            "{}, round {round}: p99 {:.2} alone, {:.2} with the others",
            target.name, alone.round.p99, with_others.round.p99
        );
        rows.push((alone.round, with_others.round));
    }
    let column = |value: fn(&(crate::load::Round, crate::load::Round)) -> f64| spread(rows.iter().map(value));
    println!(
        "| {} | {} | {} | {} | {} | {} | {} and {} |",
        target.name,
        grouped(rate),
        column(|row| row.0.p50),
        column(|row| row.1.p50),
        column(|row| row.0.p99),
        column(|row| row.1.p99),
        left.0,
        left.1
    );
    rows.iter().map(|(alone, with_others)| with_others.p99 / alone.p99).collect()
}
