//! Sends the same commands to Redis and to Jeton: the replies must be the same bytes.
//!
//! The cases are text files with one command per line:
//!
//! | line | meaning |
//! |---|---|
//! | `== title` | deletes all keys and opens a new connection |
//! | `SET a "b c"` | a command, quoted as an inline command |
//! | `~5 TTL a` | a number that may differ by at most 5 |
//! | `! reason; SET a b` | the replies must differ, for this reason |
//! | `% text` | sends the bytes of the text in double quotes; compares one reply |
//! | `%% text` | the same; compares all bytes until the connection is closed |
//! | `a*70000` in a command | the byte repeated 70000 times |

use std::fmt::Write as _;

use jeton_resp::request_parser::{Args, Limits, Parser, Progress};

use crate::client::command;
use crate::redis::{Both, Pair};

const CASES: &[(&str, &str)] = &[
    ("strings", include_str!("cases/strings.txt")),
    ("expiry", include_str!("cases/expiry.txt")),
    ("keys", include_str!("cases/keys.txt")),
    ("transactions", include_str!("cases/transactions.txt")),
    ("connection", include_str!("cases/connection.txt")),
    ("protocol", include_str!("cases/protocol.txt")),
];

#[test]
fn replies_match_redis() {
    let both = Both::start();
    let mut wrong = String::new();
    let mut compared = 0;
    for version in [2, 3] {
        for (name, text) in CASES {
            let mut pair = both.pair(version);
            for (number, line) in text.lines().enumerate() {
                if line.trim().is_empty() || line.starts_with('#') {
                    continue;
                }
                if line.starts_with("==") {
                    both.flush();
                    pair = both.pair(version);
                    continue;
                }
                compared += 1;
                if let Err(difference) = compare(&mut pair, line) {
                    writeln!(wrong, "{name}.txt:{} in RESP{version}: {line}\n{difference}", number + 1)
                        .unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(compared > 1000, "only {compared} commands were compared");
}

fn compare(pair: &mut Pair, line: &str) -> Result<(), String> {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (mut tolerance, mut differ) = (0, false);
    let [redis, jeton] = match kind {
        "%%" => {
            pair.each(|client| client.send(&unescape(rest)));
            pair.each(|client| client.end());
            [pair.redis.read_to_end(), pair.jeton.read_to_end()]
        }
        "%" => pair.run(&unescape(rest)),
        "!" => {
            differ = true;
            let (_reason, request) = rest.split_once("; ").expect("a reason and a command");
            pair.run(&command(&split(request)))
        }
        _ if kind.starts_with('~') => {
            tolerance = kind[1..].parse().expect("a number");
            pair.run(&command(&split(rest)))
        }
        _ => pair.run(&command(&split(line))),
    };
    if differ != (redis == jeton || near(&redis, &jeton, tolerance)) {
        return Ok(());
    }
    Err(format!("    redis: {}\n    jeton: {}", redis.escape_ascii(), jeton.escape_ascii()))
}

/// Whether both are integer replies that differ by at most `tolerance`.
pub fn near(redis: &[u8], jeton: &[u8], tolerance: u64) -> bool {
    match (integer(redis), integer(jeton)) {
        (Some(redis), Some(jeton)) => redis.abs_diff(jeton) <= tolerance,
        _ => false,
    }
}

/// The number of an integer reply.
pub fn integer(raw: &[u8]) -> Option<i64> {
    std::str::from_utf8(raw.strip_prefix(b":")?).ok()?.trim_end().parse().ok()
}

/// Splits a line into words as the server does with an inline command.
pub fn split(line: &str) -> Vec<Vec<u8>> {
    let (input, mut args) = (format!("{line}\n"), Args::default());
    match Parser::new(Limits::default()).next(input.as_bytes(), &mut args) {
        Ok(Progress::Command { command, .. }) => command.iter().map(repeated).collect(),
        other => panic!("{line}: {other:?}"),
    }
}

/// `a*5` is `aaaaa`; everything else is itself.
fn repeated(word: &[u8]) -> Vec<u8> {
    match word {
        [byte, b'*', times @ ..] if !times.is_empty() && times.iter().all(u8::is_ascii_digit) => {
            vec![*byte; std::str::from_utf8(times).unwrap().parse().unwrap()]
        }
        _ => word.into(),
    }
}

fn unescape(text: &str) -> Vec<u8> {
    split(&format!("\"{text}\"")).concat()
}
