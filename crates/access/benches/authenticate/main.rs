//! What asking costs, on one thread: `cargo bench -p jeton-access`.
//!
//! HTTP shows its token with every request, so the price of [`Access::authenticate`] is part of every answer. A token that
//! is not known must cost about what a known one does: compare the lines of one run.

use std::hint::black_box;
use std::time::Instant;

use jeton_access::{Access, Book, Grant, Limits, RANDOM_BYTES, Rate, Right, Rights, TableRule, Token};

const NOW: u64 = 1_800_000_000_000;
const ROUNDS: u32 = 200_000;
const REPEATS: usize = 9;

fn main() {
    for tokens in [1, 10_000] {
        let mut book = Book::new();
        let mut made = Vec::new();
        for number in 0..tokens {
            let token = book.add(grant(number), &random(number), NOW);
            made.push(token.expect("names and ids are different, and there is room").reveal());
        }
        let access = Access::from_book(&book);
        let known = &made[made.len() / 2];
        let unknown = Token::from_random(&[0xee; Token::RANDOM_BYTES]).reveal();
        let mut wrong = known.clone();
        let last = if wrong.pop() == Some('0') { '1' } else { '0' };
        wrong.push(last);
        let pass = access.authenticate(known, NOW).expect("it is in the book");

        println!("{tokens} tokens, ns per call (median and least of {REPEATS} runs)");
        measure("authenticate, known", || access.authenticate(black_box(known), NOW).is_ok());
        measure("authenticate, wrong secret", || access.authenticate(black_box(&wrong), NOW).is_err());
        measure("authenticate, unknown id", || access.authenticate(black_box(&unknown), NOW).is_err());
        measure("authenticate, no token", || access.authenticate(black_box("nonsense"), NOW).is_err());
        measure("pass.may, fourth rule", || pass.may(black_box("orders.eu"), Right::Add, NOW).is_ok());
        measure("pass.spend", || pass.spend(black_box(NOW), 1).is_ok());
    }
}

fn measure(what: &str, mut ask: impl FnMut() -> bool) {
    let mut nanos = [0.0; REPEATS];
    for run in &mut nanos {
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            assert!(black_box(ask()), "{what}");
        }
        *run = begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
    }
    nanos.sort_by(f64::total_cmp);
    println!("  {what:<28}{:>8.1}{:>8.1}", nanos[REPEATS / 2], nanos[0]);
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
    // Different is all they need to be here: a multiplication spreads the numbers over the first five bytes, the id.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    std::array::from_fn(|place| spread[place % 8])
}
