//! Compares the Bloom clock with the vector clock: `cargo xtask bench clock`.
//!
//! Prints Markdown. Contenders alternate in short rounds, so that noise affects all of them. Times are CPU
//! time of the measuring thread. A ratio is the median of the ratios of the rounds, with the quartiles in
//! parentheses.

#[path = "../../crates/clock/tests/common/format.rs"]
mod format;
#[path = "filter/machine.rs"]
mod machine;

use std::hint::black_box;

use bloom_clock::{
    BloomClock, Causality, Clock, ClockParams, DeltaEncoder, Identity, Stamp, VectorClock, VectorStamp,
};
use machine::{machine_and_load, quartiles, thread_cpu_time};

/// Rounds of each comparison, after one round of warm-up.
const ROUNDS: usize = 31;
/// Processes of the vector clock.
const PROCESSES: usize = 1_000;
/// Counters of the Bloom clocks.
const COUNTERS: [usize; 5] = [64, 128, 256, 512, 1024];

/// Name, operations per round, and the operation.
type Contender<'a> = (String, u32, Box<dyn FnMut(u32) + 'a>);

fn main() {
    println!("{}", machine_and_load());
    println!("Each time is the median of {ROUNDS} alternating rounds, with the quartiles in parentheses.");
    let execution = Execution::new();
    let ratios = table("Compare, all counters are read", covered());
    println!(
        "\nm = 64 against the vector clock: {:.1} times as fast, the target is 8: {}.",
        ratios[0],
        if ratios[0] >= 8.0 { "met" } else { "MISSED" }
    );
    table("Compare, the first counter decides", not_covered());
    execution.print_share();
    table("Compare, random pairs of an execution of 1,000 processes", execution.pairs());
    execution.print_bytes();
    let vector = || VectorClock::begin(1, PROCESSES);
    table("Tick", contenders([50_000, 50_000], |_, counters| tick(bloom(counters, 1)), tick(vector())));
    table("Receive", execution.receives());
    println!("\nAt the end: {}.", machine_and_load());
}

/// A Bloom clock of every size, and the vector clock. `bloom` gets the index of the size and the counters.
fn contenders<'a, B: FnMut(u32) + 'a>(
    [bloom_operations, vector_operations]: [u32; 2],
    bloom: impl Fn(usize, usize) -> B,
    vector: impl FnMut(u32) + 'a,
) -> Vec<Contender<'a>> {
    let mut contenders: Vec<Contender<'a>> = Vec::new();
    for (size, counters) in COUNTERS.into_iter().enumerate() {
        let name = format!("Bloom clock, m = {counters}");
        contenders.push((name, bloom_operations, Box::new(bloom(size, counters))));
    }
    contenders.push((format!("vector clock, n = {PROCESSES}"), vector_operations, Box::new(vector)));
    contenders
}

/// Measures the contenders and compares each with the last one, the vector clock. Returns the ratios.
fn table(title: &str, mut contenders: Vec<Contender<'_>>) -> Vec<f64> {
    let mut times = vec![Vec::new(); contenders.len()];
    for round in 0..=ROUNDS {
        // The order rotates, so that no contender always runs after the same other one.
        for turn in 0..contenders.len() {
            let at = (round + turn) % times.len();
            let (_, operations, operation) = &mut contenders[at];
            let start = thread_cpu_time();
            (0..*operations).for_each(&mut *operation);
            let time = (thread_cpu_time() - start).as_nanos() as f64 / f64::from(*operations);
            if round > 0 {
                times[at].push(time);
            }
        }
    }
    println!("\n| {title} | ns | time of the vector clock / time |\n|---|--:|--:|");
    let vector = &times[times.len() - 1];
    let mut medians = Vec::new();
    for ((name, _, _), times) in contenders.iter().zip(&times) {
        let [low, time, high] = quartiles(times.iter().copied());
        let [ratio_low, ratio, ratio_high] = quartiles(vector.iter().zip(times).map(|(v, own)| v / own));
        println!(
            "| {name} | {time:.1} ({low:.1} to {high:.1}) | {ratio:.1} ({ratio_low:.1} to {ratio_high:.1}) |"
        );
        medians.push(ratio);
    }
    medians
}

fn params(counters: usize) -> ClockParams {
    ClockParams::new(counters).expect("valid parameters")
}

fn bloom(counters: usize, process: usize) -> BloomClock {
    BloomClock::begin(params(counters), Identity::from_number_never_used_before(process as u64))
}

fn tick<C: Clock>(mut clock: C) -> impl FnMut(u32) {
    move |_| _ = black_box(clock.tick())
}

fn compare<C: Clock>(later: C::Stamp, earlier: C::Stamp, expected: Causality) -> impl FnMut(u32) {
    assert_eq!(C::after(&later, &earlier), expected);
    move |_| _ = black_box(C::after(black_box(&later), black_box(&earlier)))
}

/// A stamp of varied counters, the one at `raised` one higher.
fn stamp(counters: usize, raised: Option<usize>) -> Stamp {
    let number = |at: usize| at as u32 * 7 % 90 + 1 + u32::from(Some(at) == raised);
    let numbers: Vec<u32> = (0..counters).map(number).collect();
    format::stamp(0, &numbers, &params(counters))
}

/// No counter exceeds that of the later stamp, and only the last one differs.
fn covered<'a>() -> Vec<Contender<'a>> {
    let mut last = VectorClock::begin(PROCESSES - 1, PROCESSES);
    for process in 0..PROCESSES - 1 {
        let mut other = VectorClock::begin(process, PROCESSES);
        (0..process % 90).for_each(|_| _ = black_box(other.tick()));
        last.receive(other.now()).expect("a stamp of this system");
    }
    let earlier = last.now().clone();
    let bloom = |_, counters: usize| {
        let (later, earlier) = (stamp(counters, Some(counters - 1)), stamp(counters, None));
        compare::<BloomClock>(later, earlier, Causality::Possibly)
    };
    let vector = compare::<VectorClock>(last.tick().clone(), earlier, Causality::Possibly);
    contenders([20_000, 5_000], bloom, vector)
}

/// The first counter of the earlier stamp exceeds that of the later one.
fn not_covered<'a>() -> Vec<Contender<'a>> {
    let first_event = |process| VectorClock::begin(process, PROCESSES).tick().clone();
    let bloom = |_, counters: usize| {
        let (later, earlier) = (stamp(counters, Some(counters - 1)), stamp(counters, Some(0)));
        compare::<BloomClock>(later, earlier, Causality::CertainlyNot)
    };
    let (later, earlier) = (first_event(PROCESSES - 1), first_event(0));
    contenders([50_000; 2], bloom, compare::<VectorClock>(later, earlier, Causality::CertainlyNot))
}

/// Stamps of an execution in which every event receives the message of a recent one, for each clock.
struct Execution {
    blooms: Vec<Vec<Stamp>>,
    /// All stamps of the first process.
    of_one: Vec<Vec<Stamp>>,
    vectors: Vec<VectorStamp>,
    /// Indices of two events.
    pairs: Vec<(usize, usize)>,
}

/// A linear congruential generator.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

impl Execution {
    /// Maximum delay of a message, in events.
    const RECENT: usize = 900;
    /// Number of stamps that are kept.
    const KEPT: usize = 1_000;
    /// Interval of kept stamps, so that some pairs are close and some are far apart.
    const EVERY: usize = 100;

    fn new() -> Self {
        let mut seed = 1;
        // The process, and how many events ago its message was sent.
        let step = |_| (random(&mut seed) % PROCESSES, random(&mut seed) % Self::RECENT);
        let steps: Vec<(usize, usize)> = (0..Self::KEPT * Self::EVERY).map(step).collect();
        let run = |counters| Self::run(&steps, |process| bloom(counters, process));
        let (blooms, of_one) = COUNTERS.map(run).into_iter().unzip();
        let (vectors, _) = Self::run(&steps, |process| VectorClock::begin(process, PROCESSES));
        let pair = |_| (random(&mut seed) % Self::KEPT, random(&mut seed) % Self::KEPT);
        Self { blooms, of_one, vectors, pairs: (0..4096).map(pair).collect() }
    }

    /// The kept stamps, and all stamps of the first process.
    fn run<C: Clock>(steps: &[(usize, usize)], begin: impl Fn(usize) -> C) -> (Vec<C::Stamp>, Vec<C::Stamp>) {
        let mut clocks: Vec<C> = (0..PROCESSES).map(begin).collect();
        let (mut recent, mut kept, mut of_one) = (std::collections::VecDeque::new(), Vec::new(), Vec::new());
        for (at, (process, back)) in steps.iter().enumerate() {
            let clock = &mut clocks[*process];
            let stamp = match recent.get(*back) {
                Some(sent) => clock.receive(sent).expect("a stamp of this system"),
                None => clock.tick(),
            };
            if at % Self::EVERY == 0 {
                kept.push(stamp.clone());
            }
            if *process == 0 {
                of_one.push(stamp.clone());
            }
            recent.push_front(stamp.clone());
            recent.truncate(Self::RECENT);
        }
        (kept, of_one)
    }

    /// Prints the bytes of a stamp in memory, encoded alone, and encoded in a session.
    fn print_bytes(&self) {
        println!("\n| Bytes of a stamp of that execution | in memory | alone | in a session |");
        println!("|---|--:|--:|--:|");
        for ((counters, stamps), of_one) in COUNTERS.iter().zip(&self.blooms).zip(&self.of_one) {
            let (mut encoder, mut alone, mut session) = (DeltaEncoder::default(), Vec::new(), Vec::new());
            stamps.iter().for_each(|stamp| stamp.write(&mut alone));
            of_one.iter().for_each(|stamp| encoder.write(stamp, &mut session));
            let (alone, session) = (alone.len() / stamps.len(), session.len() / of_one.len());
            println!("| Bloom clock, m = {counters} | {} | {alone} | {session} |", 4 * counters);
        }
        println!("| vector clock, n = {PROCESSES} | {} | | |", 8 * PROCESSES);
    }

    /// Prints the share of causal pairs.
    fn print_share(&self) {
        let causal = |(later, earlier): &&(usize, usize)| {
            self.vectors[*later].after(&self.vectors[*earlier]) == Causality::Possibly
        };
        let causal = self.pairs.iter().filter(causal).count() as f64;
        println!(
            "\nOf the pairs of the execution {:.0} % are causal.",
            100.0 * causal / self.pairs.len() as f64
        );
    }

    fn pairs(&self) -> Vec<Contender<'_>> {
        let bloom = |size: usize, _| self.compare_pairs::<BloomClock>(&self.blooms[size]);
        contenders([20_000, 5_000], bloom, self.compare_pairs::<VectorClock>(&self.vectors))
    }

    fn compare_pairs<'a, C: Clock>(&'a self, stamps: &'a [C::Stamp]) -> impl FnMut(u32) + 'a {
        move |number| {
            let (later, earlier) = self.pairs[number as usize % self.pairs.len()];
            _ = black_box(C::after(&stamps[later], &stamps[earlier]));
        }
    }

    fn receives(&self) -> Vec<Contender<'_>> {
        fn receive<'a, C: Clock + 'a>(mut clock: C, stamps: &'a [C::Stamp]) -> impl FnMut(u32) + 'a {
            move |number| _ = black_box(clock.receive(&stamps[number as usize % 16]).is_ok())
        }
        let bloom = |size: usize, counters| receive(bloom(counters, PROCESSES), &self.blooms[size]);
        contenders([20_000, 5_000], bloom, receive(VectorClock::begin(0, PROCESSES), &self.vectors))
    }
}
