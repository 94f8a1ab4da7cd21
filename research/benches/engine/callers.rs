//! Callers that send a request, wait for the response, and repeat: the same for every contender.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests in flight.
pub const CALLERS: u64 = 256;

pub const COUNTERS: u64 = 100_000;

/// A program that makes additions durable.
pub trait Contender: Send + Sync + 'static {
    /// Adds 1 to a counter under a new id; resolves when it is durable.
    fn add(&self, counter: u64, number: u64) -> impl Future<Output = ()> + Send;
}

/// A runtime for the callers, as in a server.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime can be started")
}

/// A pseudo-random number.
pub fn scatter(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Additions per second of all callers, each of which repeats at once.
pub fn throughput<C: Contender>(
    runtime: &tokio::runtime::Runtime,
    contender: &Arc<C>,
    numbers: &Arc<AtomicU64>,
    counters: u64,
    duration: Duration,
) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (contender, numbers) = (contender.clone(), numbers.clone());
            let (stop, done) = (stop.clone(), done.clone());
            runtime.spawn(async move {
                let mut mine = 0;
                while !stop.load(Ordering::Relaxed) {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    contender.add(scatter(number) % counters, number).await;
                    mine += 1;
                }
                done.fetch_add(mine, Ordering::Relaxed);
            })
        })
        .collect();
    std::thread::sleep(duration);
    stop.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        for caller in callers {
            caller.await.expect("a caller does not panic");
        }
    });
    done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}

/// Interval at which due requests are sent. The timers of the runtime are ten times as coarse, and would send
/// all requests of a millisecond together.
const PACE: Duration = Duration::from_micros(100);

/// Sorted latencies of additions at a given rate, spread evenly over time and over the callers. A caller that
/// still waits for a response skips its next request.
pub fn latencies<C: Contender>(
    runtime: &tokio::runtime::Runtime,
    contender: &Arc<C>,
    numbers: &Arc<AtomicU64>,
    per_second: f64,
    duration: Duration,
) -> Vec<Duration> {
    let (starts, callers): (Vec<_>, Vec<_>) = (0..CALLERS)
        .map(|_| {
            let (start, mut started) = tokio::sync::mpsc::channel::<()>(1);
            let (contender, numbers) = (contender.clone(), numbers.clone());
            let caller = runtime.spawn(async move {
                let mut latencies = Vec::new();
                while started.recv().await.is_some() {
                    let sent = Instant::now();
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    contender.add(scatter(number) % COUNTERS, number).await;
                    latencies.push(sent.elapsed());
                }
                latencies
            });
            (start, caller)
        })
        .unzip();
    let begin = Instant::now();
    let mut sent = 0_u64;
    while begin.elapsed() < duration {
        let due = (begin.elapsed().as_secs_f64() * per_second) as u64;
        for number in sent..due {
            let _still_waiting = starts[(number % CALLERS) as usize].try_send(());
        }
        sent = due;
        std::thread::sleep(PACE);
    }
    drop(starts);
    let mut all = Vec::new();
    runtime.block_on(async {
        for caller in callers {
            all.extend(caller.await.expect("a caller does not panic"));
        }
    });
    all.sort_unstable();
    all
}
