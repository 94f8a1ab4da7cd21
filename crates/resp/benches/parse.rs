//! Cost of the protocol per command: `cargo bench -p jeton-resp --bench parse`.
//!
//! Each case runs pipelines of fifty commands. The cases are interleaved, so that other load on the machine
//! affects all of them; under constant load the minimum is more reliable than the median. Numbers are
//! comparable only within one run.

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use jeton_resp::reply_writer::{Version, Writer};
use jeton_resp::request_parser::{self, Args, Progress};
use jeton_resp::{command, reply_parser};

/// Commands in a pipeline.
const PIPELINE: usize = 50;
/// Pipelines in a round: few, so that most rounds are not preempted.
const BATCH: usize = 100;
/// Rounds, of which the median and the minimum are printed.
const ROUNDS: usize = 801;

/// Name of a case, and the function that runs one pipeline.
type Case = (&'static str, Box<dyn FnMut()>);

fn main() {
    let mut cases: Vec<Case> = vec![
        ("server: parse JADD with an id", Box::new(parse_requests(arrays(), false))),
        ("server: the same, each pipeline in two chunks", Box::new(parse_requests(arrays(), true))),
        ("server: parse JADD as an inline command", Box::new(parse_requests(inline_commands(), false))),
        ("server: write a small integer", Box::new(write_replies(|out| out.integer(black_box(7))))),
        (
            "server: write a large integer",
            Box::new(write_replies(|out| out.integer(black_box(1_234_567_890_123)))),
        ),
        ("  rival: the same with write!", Box::new(write_with_format(1_234_567_890_123))),
        ("server: write a bulk string of 36 bytes", Box::new(write_replies(bulk))),
        ("server: write a map of 3 integers", Box::new(write_replies(map))),
        ("client: encode JADD with an id", Box::new(encode_commands())),
        ("client: parse an integer", Box::new(parse_replies(|out| out.integer(1_234_567)))),
        ("client: parse a bulk string of 36 bytes", Box::new(parse_replies(bulk))),
        ("client: parse a map of 3 integers", Box::new(parse_replies(map))),
    ];
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, pipeline), times) in cases.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..BATCH {
                pipeline();
            }
            times.push(start.elapsed().as_nanos() as f64 / (BATCH * PIPELINE) as f64);
        }
    }
    println!("| pipelines of {PIPELINE}, {ROUNDS} rounds | median ns each | minimum |\n|---|--:|--:|");
    for ((name, _), times) in cases.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("| {name} | {:.1} | {:.1} |", times[ROUNDS / 2], times[0]);
    }
}

/// Passes the arguments of each command to `take`: a counter, a delta and an operation id.
fn with_arguments(mut take: impl FnMut(&[&[u8]])) {
    for number in 0..PIPELINE {
        let counter = format!("counter-{number:08}");
        let id = format!("{number:08x}-0000-4000-8000-{number:012x}");
        take(&[b"JADD", counter.as_bytes(), b"1", b"ID", id.as_bytes()]);
    }
}

fn parse_all(parser: &mut request_parser::Parser, args: &mut Args, bytes: &[u8]) -> (usize, usize) {
    let (mut at, mut commands) = (0, 0);
    loop {
        match parser.next(black_box(&bytes[at..]), args) {
            Ok(Progress::Command { command, consumed }) => {
                black_box((command.name(), command.get(1), command.get(2), command.get(4)));
                at += consumed;
                commands += 1;
            }
            Ok(Progress::Incomplete { consumed }) => return (at + consumed, commands),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Parses a pipeline that arrives in one chunk, or in two that are cut inside an id.
fn parse_requests(bytes: Vec<u8>, cut: bool) -> impl FnMut() {
    let mut parser = request_parser::Parser::new(request_parser::Limits::default());
    let mut args = Args::default();
    let chunk = if cut { bytes.len() / 2 - 10 } else { bytes.len() };
    move || {
        let (at, first) = parse_all(&mut parser, &mut args, &bytes[..chunk]);
        let (_, second) = parse_all(&mut parser, &mut args, &bytes[at..]);
        assert_eq!(first + second, PIPELINE);
    }
}

fn arrays() -> Vec<u8> {
    let mut bytes = Vec::new();
    with_arguments(|arguments| command(&mut bytes, arguments));
    bytes
}

fn inline_commands() -> Vec<u8> {
    let mut bytes = Vec::new();
    with_arguments(|arguments| {
        bytes.extend(arguments.join(&b' '));
        bytes.extend(b"\r\n");
    });
    bytes
}

fn write_replies(write: impl Fn(&mut Writer<'_>)) -> impl FnMut() {
    let mut bytes = Vec::new();
    move || {
        bytes.clear();
        let mut out = Writer::new(&mut bytes, Version::Resp3);
        for _ in 0..PIPELINE {
            write(&mut out);
        }
        black_box(&bytes);
    }
}

fn write_with_format(value: i64) -> impl FnMut() {
    let mut bytes = Vec::new();
    move || {
        bytes.clear();
        for _ in 0..PIPELINE {
            let _ = write!(bytes, ":{}\r\n", black_box(value));
        }
        black_box(&bytes);
    }
}

fn bulk(out: &mut Writer<'_>) {
    out.bulk(black_box(&[b'x'; 36]));
}

fn map(out: &mut Writer<'_>) {
    out.map(3);
    for key in [&b"value"[..], b"position", b"era"] {
        out.bulk(key);
        out.integer(black_box(123_456));
    }
}

fn encode_commands() -> impl FnMut() {
    let mut bytes = Vec::new();
    let mut owned: Vec<Vec<Vec<u8>>> = Vec::new();
    with_arguments(|arguments| owned.push(arguments.iter().map(|argument| argument.to_vec()).collect()));
    move || {
        bytes.clear();
        for arguments in &owned {
            let [a, b, c, d, e] = &arguments[..] else { panic!("five arguments") };
            command(&mut bytes, black_box(&[a, b, c, d, e]));
        }
        black_box(&bytes);
    }
}

fn parse_replies(write: impl Fn(&mut Writer<'_>)) -> impl FnMut() {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes, Version::Resp3);
    (0..PIPELINE).for_each(|_| write(&mut out));
    let mut parser = reply_parser::Parser::new(reply_parser::Limits::default());
    move || {
        let mut at = 0;
        while let Ok(reply_parser::Progress::Value { value, consumed }) = parser.next(black_box(&bytes[at..]))
        {
            black_box(value);
            at += consumed;
        }
        assert_eq!(at, bytes.len());
    }
}
