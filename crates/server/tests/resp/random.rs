//! Sends random pipelines to Redis and to Jeton: the replies must be the same bytes.
//!
//! `JETON_RESP_SEED` repeats a run that failed.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::client::command;
use crate::redis::Both;
use crate::redis_parity::integer;

const COMMANDS: usize = 6000;
const PIPELINE_MAX: u64 = 40;

/// Deterministic random numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

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
        let mut grammar = Grammar { random: Random(seed), in_transaction: false, later: 0 };
        let mut done: Vec<String> = Vec::new();
        while done.len() < COMMANDS {
            let commands: Vec<_> =
                (0..=grammar.random.below(PIPELINE_MAX)).map(|_| grammar.command()).collect();
            let bytes: Vec<u8> = commands.iter().flat_map(|one| command(one)).collect();
            pair.each(|client| client.send(&bytes));
            for one in commands {
                let text: Vec<String> = one.iter().map(|word| word.escape_ascii().to_string()).collect();
                done.push(text.join(" "));
                let (redis, jeton) = (pair.redis.read_raw(), pair.jeton.read_raw());
                if !alike(&one[0], &redis, &jeton) {
                    let before = done[done.len().saturating_sub(40)..].join("\n");
                    let (redis, jeton) = (redis.escape_ascii(), jeton.escape_ascii());
                    panic!("seed {seed} in RESP{version}, after\n{before}\nredis: {redis}\njeton: {jeton}");
                }
            }
        }
    }
}

/// Equal bytes, or times that are close to each other.
fn alike(name: &[u8], redis: &[u8], jeton: &[u8]) -> bool {
    let slack = match name {
        b"TTL" | b"EXPIRETIME" => 2,
        b"PTTL" | b"PEXPIRETIME" => 2000,
        // The replies of a transaction are in one array.
        b"EXEC" => {
            let lines =
                |raw: &[u8]| String::from_utf8_lossy(raw).lines().map(str::to_owned).collect::<Vec<_>>();
            let (redis, jeton) = (lines(redis), lines(jeton));
            let mut pairs = redis.iter().zip(&jeton);
            return redis.len() == jeton.len()
                && pairs
                    .all(|(redis, jeton)| redis == jeton || near(redis.as_bytes(), jeton.as_bytes(), 2000));
        }
        _ => return redis == jeton,
    };
    redis == jeton || near(redis, jeton, slack)
}

fn near(redis: &[u8], jeton: &[u8], slack: u64) -> bool {
    match (integer(redis), integer(jeton)) {
        // Small numbers are not times.
        (Some(redis), Some(jeton)) => redis > 100 && jeton > 100 && redis.abs_diff(jeton) <= slack,
        _ => false,
    }
}

struct Grammar {
    random: Random,
    in_transaction: bool,
    /// Makes each time to live longer than the one before: equal ones would make `GT` and `LT` depend on
    /// timing.
    later: u64,
}

type Words = Vec<Vec<u8>>;

impl Grammar {
    fn key(&mut self) -> Vec<u8> {
        self.random.pick(&["{t}a", "{t}b", "{t}c", "{t}d", "{t}\0e"]).into()
    }

    fn value(&mut self) -> Vec<u8> {
        if self.random.one_in(2) {
            return self.number();
        }
        let texts: [&[u8]; 7] = [b"", b"abc", b"\x00\xff\r\n", b" 1", b"007", b"-0", b"9223372036854775808"];
        self.random.pick(&texts).into()
    }

    fn number(&mut self) -> Vec<u8> {
        match self.random.below(12) {
            0 => i64::MAX.to_string(),
            1 => i64::MIN.to_string(),
            2 => "x".into(),
            3 => (i64::MAX - 5).to_string(),
            4 => (i64::MIN + 5).to_string(),
            _ => (self.random.below(41) as i64 - 20).to_string(),
        }
        .into_bytes()
    }

    /// A time to live in the far future, or an invalid one.
    fn life(&mut self, unit: u64) -> Vec<u8> {
        self.later += 1;
        match self.random.below(10) {
            0 => b"-1".to_vec(),
            1 => b"0".to_vec(),
            2 => b"x".to_vec(),
            3 => b"9223372036854775807".to_vec(),
            _ => ((100_000 + self.later * 100) * unit).to_string().into_bytes(),
        }
    }

    /// An expiry time in the far future or the past.
    fn end(&mut self, unit: u64) -> Vec<u8> {
        match self.random.below(8) {
            0 => b"1".to_vec(),
            1 => b"-5".to_vec(),
            _ => ((4_000_000_000 + self.random.below(20)) * unit).to_string().into_bytes(),
        }
    }

    fn end_options(&mut self, words: &mut Words) {
        match self.random.below(8) {
            0 => words.extend([b"EX".to_vec(), self.life(1)]),
            1 => words.extend([b"PX".to_vec(), self.life(1000)]),
            2 => words.extend([b"EXAT".to_vec(), self.end(1)]),
            3 => words.extend([b"PXAT".to_vec(), self.end(1000)]),
            _ => {}
        }
    }

    fn command(&mut self) -> Words {
        let word = |text: &str| text.as_bytes().to_vec();
        match self.random.below(40) {
            0 if !self.in_transaction => {
                self.in_transaction = true;
                return vec![word("MULTI")];
            }
            1..=4 if self.in_transaction => {
                self.in_transaction = false;
                let end = if self.random.one_in(6) { "DISCARD" } else { "EXEC" };
                return vec![word(end)];
            }
            5 if self.random.one_in(5) => {
                let name = self.random.pick(&["GET", "FOO", "MULTI", "EXEC", "DISCARD"]);
                self.in_transaction = match name {
                    "MULTI" => true,
                    "EXEC" | "DISCARD" => false,
                    _ => self.in_transaction,
                };
                return vec![word(name)];
            }
            _ => {}
        }
        let mut words = Words::new();
        const NAMES: &str = "INCR DECR INCRBY DECRBY GET SET SETNX SETEX PSETEX GETSET GETDEL GETEX APPEND STRLEN \
            GETRANGE MGET MSET MSETNX DEL UNLINK EXISTS TOUCH TYPE TTL PTTL EXPIRETIME PEXPIRETIME EXPIRE PEXPIRE \
            EXPIREAT PEXPIREAT PERSIST PING ECHO INCR INCRBY GET SET SET";
        let names: Vec<&str> = NAMES.split(' ').collect();
        let name = self.random.pick(&names);
        words.push(word(name));
        if self.random.one_in(60) {
            // Usually too few arguments.
            return words;
        }
        match name {
            "PING" => return words,
            "ECHO" => words.push(self.value()),
            "MGET" | "DEL" | "UNLINK" | "EXISTS" | "TOUCH" => {
                (0..=self.random.below(4)).for_each(|_| words.push(self.key()));
            }
            "MSET" | "MSETNX" => {
                (0..=self.random.below(3)).for_each(|_| words.extend([self.key(), self.value()]))
            }
            _ => words.push(self.key()),
        }
        match name {
            "INCRBY" | "DECRBY" => words.push(self.number()),
            "SETNX" | "GETSET" | "APPEND" => words.push(self.value()),
            "SETEX" => words.extend([self.life(1), self.value()]),
            "PSETEX" => words.extend([self.life(1000), self.value()]),
            "GETRANGE" => words.extend([self.number(), self.number()]),
            "GETEX" if self.random.one_in(5) => words.push(word("PERSIST")),
            "GETEX" => self.end_options(&mut words),
            "SET" => {
                words.push(self.value());
                self.end_options(&mut words);
                for option in ["NX", "XX", "GET", "KEEPTTL"] {
                    if self.random.one_in(7) {
                        words.push(word(option));
                    }
                }
            }
            "EXPIRE" => words.push(self.life(1)),
            "PEXPIRE" => words.push(self.life(1000)),
            "EXPIREAT" => words.push(self.end(1)),
            "PEXPIREAT" => words.push(self.end(1000)),
            _ => {}
        }
        if name.contains("EXPIRE") && !name.ends_with("TIME") {
            for option in ["NX", "XX", "GT", "LT"] {
                if self.random.one_in(6) {
                    words.push(word(option));
                }
            }
        }
        if self.random.one_in(100) {
            // One too many; a key, so that commands that take any number of keys stay in their partition.
            words.push(self.key());
        }
        words
    }
}
