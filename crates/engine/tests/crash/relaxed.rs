//! Relaxed tables: the acknowledged operations that a kill loses were acknowledged within one interval before
//! the last acknowledgement.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jeton_core::OpId;
use jeton_engine::Options;
use jeton_testkit::Rng;

use crate::driver::{Victim, WINDOW};

struct Acknowledged {
    number: u64,
    id: OpId,
    /// The time of the decision by the store clock. The acknowledgement follows in the same step.
    millis: u64,
}

fn row(number: u64) -> u64 {
    number % 64
}

/// Adds until this many responses have arrived, then kills the process.
fn load(mut victim: Victim, rng: &mut Rng, responses: u64) -> Vec<Acknowledged> {
    let mut ids = Vec::new();
    let mut lines = Vec::new();
    while (lines.len() as u64) < responses {
        while victim.in_flight < WINDOW {
            let millis = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
            let id = OpId::uuid7_from(millis, u128::from_be_bytes(rng.bytes()));
            let number = ids.len() as u64;
            victim.send(&format!("add {number} row-{} 1 uuid7:{id}", row(number)));
            ids.push(id);
        }
        lines.push(victim.receive());
    }
    lines.extend(victim.kill());
    let acknowledged = |line: &String| {
        let words: Vec<&str> = line.split(' ').collect();
        let number: u64 = words[0].parse().expect("a number");
        let id = ids[number as usize].clone();
        match words[1..] {
            ["fresh", "true", _, _, millis] => {
                Some(Acknowledged { number, id, millis: millis.parse().expect("milliseconds") })
            }
            ["busy"] => None,
            _ => panic!("{line}"),
        }
    };
    lines.iter().filter_map(acknowledged).collect()
}

/// Asks for each operation; returns how many are lost.
fn count_lost(victim: &mut Victim, acknowledged: &[Acknowledged], span: Duration) -> u64 {
    let latest = acknowledged.iter().map(|one| one.millis).max().unwrap_or(0);
    let mut lost = 0;
    for some in acknowledged.chunks(WINDOW) {
        for (one, place) in some.iter().zip(0..) {
            victim.send(&format!("known {place} row-{} uuid7:{}", row(one.number), one.id));
        }
        for one in some {
            let line = victim.receive();
            if line.ends_with("lost") {
                lost += 1;
                let before = Duration::from_millis(latest - one.millis);
                assert!(before <= span, "lost, and acknowledged {before:?} before the last: {:?}", one.id);
            }
        }
    }
    lost
}

pub fn run(rounds: u64, seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::new(seed);
    // In whole milliseconds of the store clock, which gains an eighth.
    let interval = Options::default().relaxed_interval;
    let span = interval + interval / 8 + Duration::from_millis(1);
    let (mut all, mut lost) = (0, 0);
    let mut acknowledged = Vec::new();
    for round in 0..=rounds {
        let mut victim = Victim::start(folder.path(), 1 + rng.below(3), "relaxed");
        lost += count_lost(&mut victim, &acknowledged, span);
        if round < rounds {
            let responses = 500 + rng.below(5_000);
            acknowledged = load(victim, &mut rng, responses);
            all += acknowledged.len();
        }
    }
    println!("relaxed: {rounds} kills lost {lost} of {all} acknowledged operations, all within {span:?}");
}
