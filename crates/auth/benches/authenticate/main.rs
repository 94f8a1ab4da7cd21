//! Cost of authentication and of checks, on one thread: `cargo bench -p jeton-auth`.
//!
//! HTTP requests carry their token, so [`Access::authenticate`] is part of every request. An unknown token
//! must cost about as much as a known one: compare the lines of one run.

use std::hint::black_box;
use std::time::Instant;

use jeton_auth::{Access, Grant, Limits, RANDOM_BYTES, Rate, Right, Rights, TableRule, Token, TokenStore};

const NOW: u64 = 1_800_000_000_000;
const ROUNDS: u32 = 10_000;
const REPEATS: usize = 99;

fn main() {
    for tokens in [1, 10_000] {
        let mut store = TokenStore::new();
        let mut made = Vec::new();
        for number in 0..tokens {
            let token = store.add(grant(number), &random(number), NOW);
            made.push(token.expect("names and ids are unique").reveal());
        }
        let access = Access::from_store(&store);
        let known = &made[made.len() / 2];
        let unknown = Token::from_random(&[0xee; Token::RANDOM_BYTES]).reveal();
        let mut wrong = known.clone();
        let last = if wrong.pop() == Some('0') { '1' } else { '0' };
        wrong.push(last);
        let context = access.authenticate(known, NOW).expect("the token is in the store");

        println!("{tokens} tokens, ns per call (median and minimum of {REPEATS} runs)");
        measure(&mut [
            ("authenticate, known", &mut || access.authenticate(black_box(known), NOW).is_ok()),
            ("authenticate, wrong secret", &mut || access.authenticate(black_box(&wrong), NOW).is_err()),
            ("authenticate, unknown id", &mut || access.authenticate(black_box(&unknown), NOW).is_err()),
            ("authenticate, malformed", &mut || access.authenticate(black_box("nonsense"), NOW).is_err()),
            ("AuthContext::may, fourth rule", &mut || {
                context.may(black_box("orders.eu"), Right::Add, NOW).is_ok()
            }),
            ("AuthContext::spend", &mut || context.spend(black_box(NOW), 1).is_ok()),
        ]);
    }
}

type Case<'a> = (&'a str, &'a mut dyn FnMut() -> bool);

/// Interleaves the cases, so that other load on the machine affects all of them.
fn measure(cases: &mut [Case<'_>]) {
    let mut nanos = vec![Vec::new(); cases.len()];
    for _ in 0..REPEATS {
        for ((what, call), nanos) in cases.iter_mut().zip(&mut nanos) {
            let begin = Instant::now();
            for _ in 0..ROUNDS {
                assert!(black_box(call()), "{what}");
            }
            nanos.push(begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
        }
    }
    for ((what, _), mut nanos) in cases.iter().zip(nanos) {
        nanos.sort_by(f64::total_cmp);
        println!("  {what:<28}{:>8.1}{:>8.1}", nanos[REPEATS / 2], nanos[0]);
    }
}

fn grant(number: u64) -> Grant {
    let rule = |pattern: &str| TableRule {
        pattern: pattern.parse().expect("a pattern"),
        rights: Rights::NONE.with(Right::Add),
    };
    let operations = Some(Rate { per_second: 10_000_000, burst: 1_000_000_000 });
    Grant {
        tables: ["clicks", "views*", "billing", "orders.*"].map(rule).to_vec(),
        limits: Limits { operations, ..Limits::default() },
        ..Grant::new(format!("token-{number}"))
    }
}

fn random(number: u64) -> [u8; RANDOM_BYTES] {
    // The multiplication makes the first five bytes, the id, unique.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    std::array::from_fn(|place| spread[place % 8])
}
