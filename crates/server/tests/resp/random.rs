//! Sends random pipelines to Redis and to Jeton: the replies must be the same bytes.
//!
//! `JETON_RESP_SEED` repeats a run that failed.

use std::time::{SystemTime, UNIX_EPOCH};

use jeton_testkit::Rng;

use crate::client::command;
use crate::redis::Both;
use crate::redis_parity::{integer, near, split};

const COMMANDS: usize = 6000;
const PIPELINE_MAX: u64 = 40;

#[test]
fn random_commands_match_redis() {
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let seeds = match std::env::var("JETON_RESP_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => vec![7, today],
    };
    let both = Both::start();
    for (seed, version) in seeds.into_iter().flat_map(|seed| [(seed, 2), (seed, 3)]) {
        println!("JETON_RESP_SEED={seed} in RESP{version}");
        both.flush();
        let mut pair = both.pair(version);
        let mut grammar = Grammar { rng: Rng::new(seed), in_transaction: false, later: 0 };
        let mut done: Vec<String> = Vec::new();
        while done.len() < COMMANDS {
            let lines: Vec<_> = (0..=grammar.rng.below(PIPELINE_MAX)).map(|_| grammar.command()).collect();
            let bytes: Vec<u8> = lines.iter().flat_map(|line| command(&split(line))).collect();
            pair.each(|client| client.send(&bytes));
            for line in lines {
                let (redis, jeton) = (pair.redis.read_raw(), pair.jeton.read_raw());
                let is_alike = alike(&line, &redis, &jeton);
                done.push(line);
                if !is_alike {
                    let before = done[done.len().saturating_sub(40)..].join("\n");
                    let (redis, jeton) = (redis.escape_ascii(), jeton.escape_ascii());
                    panic!("seed {seed} in RESP{version}, after\n{before}\nredis: {redis}\njeton: {jeton}");
                }
            }
        }
    }
}

/// Equal bytes, or times that are close to each other.
fn alike(line: &str, redis: &[u8], jeton: &[u8]) -> bool {
    // Small numbers are not times.
    let is_time = |raw: &[u8]| integer(raw).is_some_and(|number| number > 100);
    let close = |redis: &[u8], jeton: &[u8], tolerance| {
        redis == jeton || is_time(redis) && is_time(jeton) && near(redis, jeton, tolerance)
    };
    match line.split(' ').next() {
        Some("TTL" | "EXPIRETIME") => close(redis, jeton, 2),
        Some("PTTL" | "PEXPIRETIME") => close(redis, jeton, 2000),
        // The replies of a transaction are in one array.
        Some("EXEC") => {
            let lines = |raw: &[u8]| raw.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
            let (redis, jeton) = (lines(redis), lines(jeton));
            redis.len() == jeton.len()
                && redis.iter().zip(&jeton).all(|(redis, jeton)| close(redis, jeton, 2000))
        }
        _ => redis == jeton,
    }
}

/// Generates commands in the form of the case files.
struct Grammar {
    rng: Rng,
    in_transaction: bool,
    /// Makes each time to live longer than the one before: equal ones would make `GT` and `LT` depend on
    /// timing.
    later: u64,
}

impl Grammar {
    fn one_in(&mut self, times: u64) -> bool {
        self.rng.below(times) == 0
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.rng.index(from.len())]
    }

    fn key(&mut self) -> &'static str {
        self.pick(&["{t}a", "{t}b", "{t}c", "{t}d", r#""{t}\x00e""#])
    }

    fn value(&mut self) -> String {
        if self.one_in(2) {
            return self.number();
        }
        let texts = [r#""""#, "abc", r#""\x00\xff\r\n""#, r#"" 1""#, "007", "-0", "9223372036854775808"];
        self.pick(&texts).into()
    }

    fn number(&mut self) -> String {
        match self.rng.below(12) {
            0 => i64::MAX.to_string(),
            1 => i64::MIN.to_string(),
            2 => "x".into(),
            3 => (i64::MAX - 5).to_string(),
            4 => (i64::MIN + 5).to_string(),
            _ => (self.rng.below(41) as i64 - 20).to_string(),
        }
    }

    /// A time to live in the far future, or an invalid one.
    fn life(&mut self, unit: u64) -> String {
        self.later += 1;
        if self.rng.below(10) < 4 {
            return self.pick(&["-1", "0", "x", "9223372036854775807"]).into();
        }
        ((100_000 + self.later * 100) * unit).to_string()
    }

    /// An expiry time in the far future or the past.
    fn end(&mut self, unit: u64) -> String {
        if self.one_in(4) {
            return self.pick(&["1", "-5"]).into();
        }
        ((4_000_000_000 + self.rng.below(20)) * unit).to_string()
    }

    fn end_option(&mut self) -> String {
        match self.rng.below(8) {
            0 => format!(" EX {}", self.life(1)),
            1 => format!(" PX {}", self.life(1000)),
            2 => format!(" EXAT {}", self.end(1)),
            3 => format!(" PXAT {}", self.end(1000)),
            _ => String::new(),
        }
    }

    /// Each option with a probability of 1 / `times`.
    fn options(&mut self, from: &[&str], times: u64) -> String {
        from.iter().filter(|_| self.one_in(times)).map(|option| format!(" {option}")).collect()
    }

    fn command(&mut self) -> String {
        match self.rng.below(40) {
            0 if !self.in_transaction => {
                self.in_transaction = true;
                return "MULTI".into();
            }
            1..=4 if self.in_transaction => {
                self.in_transaction = false;
                return if self.one_in(6) { "DISCARD".into() } else { "EXEC".into() };
            }
            5 if self.one_in(5) => {
                let name = self.pick(&["GET", "FOO", "MULTI", "EXEC", "DISCARD"]);
                self.in_transaction = match name {
                    "MULTI" => true,
                    "EXEC" | "DISCARD" => false,
                    _ => self.in_transaction,
                };
                return name.into();
            }
            _ => {}
        }
        const NAMES: &str = "INCR DECR INCRBY DECRBY GET SET SETNX SETEX PSETEX GETSET GETDEL GETEX APPEND STRLEN \
            GETRANGE MGET MSET MSETNX DEL UNLINK EXISTS TOUCH TYPE TTL PTTL EXPIRETIME PEXPIRETIME EXPIRE PEXPIRE \
            EXPIREAT PEXPIREAT PERSIST PING ECHO INCR INCRBY GET SET SET";
        let name = self.pick(&NAMES.split(' ').collect::<Vec<_>>());
        if self.one_in(60) {
            // Usually too few arguments.
            return name.into();
        }
        let key = self.key();
        let expire_options = ["NX", "XX", "GT", "LT"];
        let mut line = match name {
            "PING" => return name.into(),
            "ECHO" => format!("{name} {}", self.value()),
            "MGET" | "DEL" | "UNLINK" | "EXISTS" | "TOUCH" => {
                (0..=self.rng.below(4)).fold(name.to_owned(), |line, _| line + " " + self.key())
            }
            "MSET" | "MSETNX" => (0..=self.rng.below(3))
                .fold(name.to_owned(), |line, _| format!("{line} {} {}", self.key(), self.value())),
            "INCRBY" | "DECRBY" => format!("{name} {key} {}", self.number()),
            "SETNX" | "GETSET" | "APPEND" => format!("{name} {key} {}", self.value()),
            "SETEX" => format!("{name} {key} {} {}", self.life(1), self.value()),
            "PSETEX" => format!("{name} {key} {} {}", self.life(1000), self.value()),
            "GETRANGE" => format!("{name} {key} {} {}", self.number(), self.number()),
            "GETEX" if self.one_in(5) => format!("{name} {key} PERSIST"),
            "GETEX" => format!("{name} {key}{}", self.end_option()),
            "SET" => {
                let (value, end) = (self.value(), self.end_option());
                format!("{name} {key} {value}{end}{}", self.options(&["NX", "XX", "GET", "KEEPTTL"], 7))
            }
            "EXPIRE" => format!("{name} {key} {}{}", self.life(1), self.options(&expire_options, 6)),
            "PEXPIRE" => format!("{name} {key} {}{}", self.life(1000), self.options(&expire_options, 6)),
            "EXPIREAT" => format!("{name} {key} {}{}", self.end(1), self.options(&expire_options, 6)),
            "PEXPIREAT" => format!("{name} {key} {}{}", self.end(1000), self.options(&expire_options, 6)),
            _ => format!("{name} {key}"),
        };
        if self.one_in(100) {
            // One too many; a key, so that commands that take any number of keys stay in their partition.
            line = line + " " + self.key();
        }
        line
    }
}
