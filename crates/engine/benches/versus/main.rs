//! What the engine costs, side by side with what it is built on and what one would otherwise use.

mod bare;
mod callers;
mod group;
mod ours;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use callers::{COUNTERS, Contender, runtime, throughput};
use jeton_engine::Options;

fn main() {
    let rounds: usize = std::env::var("ROUNDS").ok().and_then(|v| v.parse().ok()).unwrap_or(5);
    let secs: f64 = std::env::var("SECS").ok().and_then(|v| v.parse().ok()).unwrap_or(2.0);
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let runtime = runtime();
    let numbers = Arc::new(AtomicU64::new(1));
    let exact = Arc::new(ours::Ours::open(&folder.path().join("exact"), ours::Memory::Exact, COUNTERS, Options::default()));
    let prob = Arc::new(ours::Ours::open(&folder.path().join("prob"), ours::Memory::Probabilistic, COUNTERS, Options::default()));
    let plain = Arc::new(ours::Ours::open(&folder.path().join("plain"), ours::Memory::Nothing, COUNTERS, Options::default()));
    let bare = Arc::new(bare::BareLog::open(&folder.path().join("bare")));
    let group = Arc::new(group::FjallGroup::open(&folder.path().join("fjall")));
    let d = Duration::from_secs_f64(secs);
    for round in 0..=rounds {
        let e = throughput(&runtime, &exact, &numbers, COUNTERS, d);
        let p = throughput(&runtime, &plain, &numbers, COUNTERS, d);
        let q = throughput(&runtime, &prob, &numbers, COUNTERS, d);
        let b = throughput(&runtime, &bare, &numbers, COUNTERS, d);
        let g = throughput(&runtime, &group, &numbers, COUNTERS, d);
        println!("{round}: exact {e:.0} plain {p:.0} prob {q:.0} bare {b:.0} fjall {g:.0}  | exact/fjall {:.2} exact/bare {:.2} exact/plain {:.2}", e/g, e/b, e/p);
    }
    println!("{:?}", exact.engine.stats());
}
