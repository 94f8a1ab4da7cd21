//! The client: sends, retries, duplicates, kills, and compares.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jeton_core::OpId;
use jeton_testkit::Rng;

use crate::oracle::{Known, Oracle};

/// Rows to count in: few enough that each is hot.
const ROWS: u64 = 400;

/// Maximum number of requests in flight.
pub const WINDOW: usize = 256;

/// One in this many requests is a duplicate of an earlier one: 5 %.
const DUPLICATE_ONE_IN: u64 = 20;

/// Upper bound for any response, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Victim {
    process: Child,
    input: ChildStdin,
    responses: Receiver<String>,
    pub in_flight: usize,
}

impl Victim {
    pub fn start(folder: &Path, shards: u64, scenario: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["child".as_ref(), folder.as_os_str(), shards.to_string().as_ref(), scenario.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let (sender, responses) = channel();
        std::thread::spawn(move || {
            // A line that the kill cut off has no end, and is no response.
            let mut output = output;
            let mut line = String::new();
            while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && line.ends_with('\n') {
                if sender.send(line.trim_end().to_owned()).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let mut victim = Self { process, input, responses, in_flight: 0 };
        let ready = victim.receive();
        assert!(ready.starts_with("ready"), "{ready}");
        victim
    }

    pub fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the child reads");
        self.in_flight += 1;
    }

    pub fn receive(&mut self) -> String {
        let line = self.responses.recv_timeout(TIMEOUT).expect("the child responds");
        self.in_flight = self.in_flight.saturating_sub(1);
        line
    }

    /// Sends a request when no other is in flight, and returns its response.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.receive()
    }

    /// Sends requests, many at a time, and passes each response to `take`.
    pub fn exchange(&mut self, requests: impl Iterator<Item = String>, mut take: impl FnMut(&str)) {
        let mut requests = requests.fuse();
        loop {
            while self.in_flight < WINDOW
                && let Some(request) = requests.next()
            {
                self.send(&request);
            }
            if self.in_flight == 0 {
                return;
            }
            take(&self.receive());
        }
    }

    pub fn kill(mut self) -> Vec<String> {
        self.process.kill().expect("killed");
        self.process.wait().expect("gone");
        // What it printed before the kill was acknowledged.
        self.responses.iter().collect()
    }
}

fn request(number: u64, known: &Known) -> String {
    format!("add {number} row-{} {} {}", known.row, known.delta, known.id)
}

/// Records a response; the operation is sent again if it was refused.
fn take(oracle: &mut Oracle, line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = words[0].parse().expect("a number");
    match words[1..] {
        [kind @ ("fresh" | "replayed"), "true", value, slot, _] => {
            let result = (value.parse().expect("a value"), slot.parse().expect("a slot"));
            oracle.responded(number, kind, result);
            None
        }
        ["busy"] => Some(number),
        _ => panic!("operation {:?}: {line}", oracle.operations[number as usize]),
    }
}

/// Milliseconds since 1970.
pub fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// A new id of now.
pub fn uuid(rng: &mut Rng) -> String {
    format!("uuid7:{}", OpId::uuid7_from(millis(), u128::from_be_bytes(rng.bytes())))
}

fn new_operation(oracle: &mut Oracle, rng: &mut Rng) -> u64 {
    let number = oracle.operations.len() as u64;
    let id = match rng.below(10) {
        0 => format!("opaque:order-{number}"),
        // A sequence of its own for each row, as a client that owns its rows would have.
        1 => format!("sequenced:client-{}/1/{}", number % ROWS, number / ROWS + 1),
        _ => uuid(rng),
    };
    let row = if id.starts_with("sequenced") { number % ROWS } else { rng.below(ROWS) };
    oracle.operations.push(Known { row, delta: 1 + rng.below(9) as i64, id, result: None });
    number
}

/// Sends all unanswered operations until each has a response.
fn settle(victim: &mut Victim, oracle: &mut Oracle) {
    let mut unsent = oracle.pending();
    while victim.in_flight > 0 || !unsent.is_empty() {
        while victim.in_flight < WINDOW
            && let Some(number) = unsent.pop()
        {
            victim.send(&request(number, &oracle.operations[number as usize]));
        }
        let line = victim.receive();
        unsent.extend(take(oracle, &line));
    }
    assert_eq!(oracle.pending(), [] as [u64; 0]);
}

/// Compares every row with the oracle.
fn compare(victim: &mut Victim, oracle: &Oracle, round: u64) {
    let counts = oracle.counts();
    for row in 0..ROWS {
        victim.send(&format!("get {row} row-{row}"));
        let expected = counts.get(&row).copied().unwrap_or_default();
        assert_eq!(victim.receive(), format!("{row} value {expected}"), "round {round}");
    }
}

/// Runs load until this many responses have arrived: new operations and duplicates of earlier ones.
fn load(victim: &mut Victim, oracle: &mut Oracle, rng: &mut Rng, responses: u64) {
    for _ in 0..responses {
        while victim.in_flight < WINDOW {
            let before = oracle.operations.len() as u64;
            let duplicate = before > 0 && rng.below(DUPLICATE_ONE_IN) == 0;
            // Mostly of the latest, sometimes of any.
            let number = match (duplicate, rng.below(4)) {
                (true, 0) => rng.below(before),
                (true, _) => before - 1 - rng.below(before.min(300)),
                (false, _) => new_operation(oracle, rng),
            };
            // A sequence number is recorded within its window only; older ones are rejected by design.
            let known = &oracle.operations[number as usize];
            if duplicate && known.id.starts_with("sequenced") && before - number > 200 * ROWS {
                continue;
            }
            victim.send(&request(number, known));
        }
        let line = victim.receive();
        if let Some(number) = take(oracle, &line) {
            victim.send(&request(number, &oracle.operations[number as usize]));
        }
    }
}

pub fn run(rounds: u64, seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut oracle = Oracle::default();
    let mut rng = Rng::new(seed);
    for round in 0..=rounds {
        let mut victim = Victim::start(folder.path(), 1 + rng.below(3), "exact");
        settle(&mut victim, &mut oracle);
        compare(&mut victim, &oracle, round);
        if round == rounds {
            break;
        }
        load(&mut victim, &mut oracle, &mut rng, round_length(round, seed));
        for line in victim.kill() {
            take(&mut oracle, &line);
        }
    }
    println!("{} operations, {rounds} kills, every count correct", oracle.operations.len());
}

/// Short rounds hit the start, long ones hit checkpoints, merges and reused segments.
fn round_length(round: u64, seed: u64) -> u64 {
    let mut rng = Rng::new(seed ^ round.wrapping_mul(0x1234_5678_9abc_def1));
    match rng.below(4) {
        0 => rng.below(100),
        1 => rng.below(2_000),
        _ => 2_000 + rng.below(12_000),
    }
}
