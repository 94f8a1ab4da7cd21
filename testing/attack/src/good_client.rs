//! The well-behaved client: it adds with ids over RESP and HTTP, retries until it has a result, and measures
//! each operation until then.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use jeton_resp::reply_parser::Value;
use jeton_testkit::Rng;

use crate::target::{Client, Target};

const ROWS: usize = 32;

/// Pause between two operations.
const PAUSE: Duration = Duration::from_millis(4);

/// Time after which an operation is given up. Its outcome is unknown.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Latencies of operations by phase, in microseconds.
pub struct Measurements {
    pub phase: AtomicUsize,
    pub stop: AtomicBool,
    latencies: Mutex<BTreeMap<usize, Vec<u32>>>,
}

/// What the client knows about the sums of its rows.
#[derive(Default)]
pub struct Sums {
    acknowledged: [i64; ROWS],
    unknown: i64,
    pub operations: u64,
    /// Attempts that were repeated, by cause.
    pub retries: BTreeMap<String, u64>,
}

impl Measurements {
    pub fn new() -> Self {
        let (phase, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { phase, stop, latencies: Mutex::default() }
    }

    fn add(&self, latency: Duration) {
        let micros = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        let mut all = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(self.phase.load(Ordering::Relaxed)).or_default().push(micros);
    }

    /// The number of operations in these phases, and their p50, p99 and maximum in milliseconds.
    pub fn quantiles(&self, phases: impl Fn(usize) -> bool) -> (usize, [f64; 3]) {
        let all = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = all.iter().filter(|(phase, _)| phases(**phase));
        let mut sorted: Vec<u32> = chosen.flat_map(|(_, found)| found).copied().collect();
        sorted.sort_unstable();
        let at = |part: f64| {
            let last = sorted.len().saturating_sub(1);
            sorted.get((last as f64 * part) as usize).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
        };
        (sorted.len(), [at(0.5), at(0.99), at(1.0)])
    }
}

pub fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// An id of the format `uuid7`.
pub fn uuid7(rng: &mut Rng) -> String {
    let hex = format!("{:032x}", rng.uuid7(millis()));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Connections of the client, opened when needed.
struct Connections<'a> {
    target: &'a Target,
    resp: Option<Client>,
    http: Option<TcpStream>,
}

impl Connections<'_> {
    /// Sends an addition once. An error means that it must be repeated.
    fn add(&mut self, over_http: bool, row: usize, delta: i64, id: &str) -> Result<()> {
        if over_http {
            return self.add_over_http(row, delta, id).inspect_err(|_| self.http = None);
        }
        if self.resp.is_none() {
            self.resp = Some(self.target.client("good")?);
        }
        let Some(client) = &mut self.resp else { unreachable!("it is connected") };
        let (key, delta) = (format!("good/r{row}"), delta.to_string());
        match client.ask(&[b"JADD", key.as_bytes(), delta.as_bytes(), b"ID", id.as_bytes()]) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.resp = None;
                Err(error)
            }
        }
    }

    fn add_over_http(&mut self, row: usize, delta: i64, id: &str) -> Result<()> {
        if self.http.is_none() {
            let stream = TcpStream::connect_timeout(&self.target.http, Duration::from_secs(5))?;
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            stream.set_nodelay(true)?;
            self.http = Some(stream);
        }
        let Some(stream) = &mut self.http else { unreachable!("it is connected") };
        let (path, token) = (format!("/v1/tables/good/counters/r{row}:add"), self.target.token("good"));
        let body = format!("{{\"delta\":{delta},\"id\":\"{id}\"}}");
        let head = "Content-Type: application/json\r\n";
        stream.write_all(&self.target.request("POST", &path, token, head, body.as_bytes()))?;
        let (mut reply, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let read = stream.read(&mut buffer)?;
            ensure!(read > 0, "the server closed the connection");
            reply.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&reply);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.to_ascii_lowercase();
            let length = length.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if length.is_none_or(|length: usize| body.len() >= length) {
                let status = head.lines().next().unwrap_or_default();
                if status.starts_with("HTTP/1.1 200") {
                    return Ok(());
                }
                bail!("{status}");
            }
        }
    }
}

/// Adds until it is stopped. Every fifth operation is sent over HTTP, every seventh has a sequenced id.
pub fn run(target: &Target, measured: &Measurements, name: &str, rng: &mut Rng) -> Sums {
    let mut connections = Connections { target, resp: None, http: None };
    let (mut sums, epoch) = (Sums::default(), millis());
    while !measured.stop.load(Ordering::Relaxed) {
        let (row, delta) = (rng.index(ROWS), 1 + rng.below(9) as i64);
        sums.operations += 1;
        let id = match sums.operations % 7 {
            0 => format!("sequenced:{name}/{epoch}/{}", sums.operations),
            _ => format!("uuid7:{}", uuid7(rng)),
        };
        let over_http = sums.operations % 5 == 0;
        let started = Instant::now();
        loop {
            match connections.add(over_http, row, delta, &id) {
                Ok(()) => {
                    sums.acknowledged[row] += delta;
                    break;
                }
                Err(_) if started.elapsed() > TIMEOUT => {
                    sums.unknown += delta;
                    break;
                }
                Err(why) => {
                    let why = why.to_string();
                    let cause = why.split(['(', ';', ':']).next().unwrap_or_default().trim();
                    *sums.retries.entry(cause.to_owned()).or_default() += 1;
                    std::thread::sleep(PAUSE);
                }
            }
        }
        measured.add(started.elapsed());
        std::thread::sleep(PAUSE);
    }
    sums
}

/// Rows whose value does not follow from what the clients know.
pub fn wrong_rows(target: &Target, clients: &[Sums]) -> Result<Vec<String>> {
    let (mut reader, mut wrong) = (target.client("good")?, Vec::new());
    let unknown: i64 = clients.iter().map(|sums| sums.unknown).sum();
    for row in 0..ROWS {
        let acknowledged: i64 = clients.iter().map(|sums| sums.acknowledged[row]).sum();
        let value = match reader.ask(&[b"JGET", format!("good/r{row}").as_bytes()])? {
            Value::Integer(value) => value,
            Value::Null => 0,
            other => bail!("the value of row {row} is {other:?}"),
        };
        if value < acknowledged || value > acknowledged + unknown {
            wrong.push(format!("row {row} is {value}, acknowledged {acknowledged}, unknown {unknown}"));
        }
    }
    Ok(wrong)
}
