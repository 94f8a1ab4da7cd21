//! The Bloom clock beside a vector clock, from one run: `cargo xtask bench clock`.
//!
//! Prints Markdown. Contenders take turns in short rounds, so that noise meets them alike; time is the processor time of the measuring thread, so
//! that waiting for a core does not count. A ratio is the median of the rounds' ratios, with the quartiles behind it.

use std::hint::black_box;
use std::time::Duration;

use bloom_clock::{
    BloomClock, Causality, Clock, ClockParams, DeltaEncoder, Identity, Stamp, TickKey, VectorClock,
    VectorStamp,
};

/// Rounds of each comparison; one more warms up.
const ROUNDS: usize = 31;
/// Processes of the vector clock.
const PROCESSES: usize = 1_000;
/// Counters of the Bloom clocks.
const COUNTERS: [usize; 5] = [64, 128, 256, 512, 1024];

/// A name, how many operations a round has, and one operation.
type Contender<'a> = (String, u32, Box<dyn FnMut(u32) + 'a>);

fn main() {
    println!("machine: {}; {}", machine(), load());
    println!("Each time is the median of {ROUNDS} rounds taken by turns, with the quartiles behind it.");
    let execution = Execution::new();
    covered();
    table("Compare, the first counter says no", refused());
    execution.print_share();
    table("Compare, random pairs of an execution of 1,000 processes", execution.pairs());
    execution.print_bytes();
    table("Tick", ticks());
    table("Receive", execution.receives());
    println!("\nAt the end: {}.", load());
}

/// Measures all by turns. The last is the vector clock, if there is one, and is compared with.
fn table(title: &str, mut contenders: Vec<Contender<'_>>) -> Vec<f64> {
    let mut times = vec![Vec::new(); contenders.len()];
    for round in 0..=ROUNDS {
        // Who goes first changes, so that nobody always meets the same one's caches.
        for turn in 0..contenders.len() {
            let at = (round + turn) % times.len();
            let (_, operations, operation) = &mut contenders[at];
            let start = thread_time();
            (0..*operations).for_each(&mut *operation);
            let time = (thread_time() - start).as_nanos() as f64 / f64::from(*operations);
            if round > 0 {
                times[at].push(time);
            }
        }
    }
    println!("\n| {title} | ns | vector clock's time to it |\n|---|--:|--:|");
    let mut medians = Vec::new();
    for (at, (name, _, _)) in contenders.iter().enumerate() {
        let rival = (at + 1 < times.len()).then(|| &times[times.len() - 1]);
        let ratios = rival.map(|rival| rival.iter().zip(&times[at]).map(|(theirs, ours)| theirs / ours));
        let ratios = ratios.map(|ratios| spread(ratios.collect()));
        medians.push(ratios.map_or(1.0, |ratios| ratios[1]));
        let [low, time, high] = spread(times[at].clone());
        let ratio =
            ratios.map_or(String::new(), |[low, ratio, high]| format!("{ratio:.1} ({low:.1} to {high:.1})"));
        println!("| {name} | {time:.1} ({low:.1} to {high:.1}) | {ratio} |");
    }
    medians
}

/// The quartiles.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn identity(number: usize) -> Identity {
    Identity::from_number_never_used_before(number as u64)
}

fn params(counters: usize) -> ClockParams {
    ClockParams::new(counters).expect("valid parameters")
}

/// Two clocks after so many events of their own: nothing of either is above the other but where they ticked.
fn bloom(counters: usize, number: usize, events: usize) -> BloomClock {
    let mut clock = BloomClock::begin(params(counters), identity(number));
    (0..events).for_each(|_| _ = black_box(clock.tick()));
    clock
}

/// Every counter must be looked at: nothing is above, and only the last differs.
fn covered() {
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for counters in COUNTERS {
        let numbers: Vec<u32> = (0..counters as u32).map(|at| at * 7 % 90 + 1).collect();
        let (earlier, later) = (stamp(&numbers), stamp(&raised(&numbers)));
        assert_eq!(later.after(&earlier), Causality::Possibly);
        let compare = move |_| _ = black_box(black_box(&later).after(black_box(&earlier)));
        contenders.push((format!("Bloom clock, m = {counters}"), 20_000, Box::new(compare)));
    }
    let (earlier, later) = vectors();
    assert_eq!(later.after(&earlier), Causality::Possibly);
    let compare = move |_| _ = black_box(black_box(&later).after(black_box(&earlier)));
    contenders.push((format!("vector clock, n = {PROCESSES}"), 5_000, Box::new(compare)));
    let ratios = table("Compare, all must be looked at", contenders);
    println!(
        "\nm = 64 against the vector clock: {:.1} times as fast, the bar is 8: {}.",
        ratios[0],
        if ratios[0] >= 8.0 { "met" } else { "MISSED" }
    );
}

/// The last counter one higher.
fn raised(numbers: &[u32]) -> Vec<u32> {
    let mut raised = numbers.to_vec();
    if let Some(last) = raised.last_mut() {
        *last += 1;
    }
    raised
}

/// Two stamps of the vector clock, of which the second has one more event of the last process.
fn vectors() -> (VectorStamp, VectorStamp) {
    let mut last = VectorClock::begin(PROCESSES - 1, PROCESSES);
    for process in 0..PROCESSES - 1 {
        let mut other = VectorClock::begin(process, PROCESSES);
        (0..process % 90).for_each(|_| _ = black_box(other.tick()));
        last.receive(other.now()).expect("of this system");
    }
    (last.now().clone(), last.tick().clone())
}

/// The first counter of the other is above.
fn refused<'a>() -> Vec<Contender<'a>> {
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for counters in COUNTERS {
        let numbers: Vec<u32> = (0..counters as u32).map(|at| at * 7 % 90 + 1).collect();
        let mut above = numbers.clone();
        above[0] += 1;
        let (earlier, later) = (stamp(&above), stamp(&raised(&numbers)));
        assert_eq!(later.after(&earlier), Causality::CertainlyNot);
        let compare = move |_| _ = black_box(black_box(&later).after(black_box(&earlier)));
        contenders.push((format!("Bloom clock, m = {counters}"), 50_000, Box::new(compare)));
    }
    let (mut first, mut last) =
        (VectorClock::begin(0, PROCESSES), VectorClock::begin(PROCESSES - 1, PROCESSES));
    let (earlier, later) = (first.tick().clone(), last.tick().clone());
    let compare = move |_| _ = black_box(black_box(&later).after(black_box(&earlier)));
    contenders.push((format!("vector clock, n = {PROCESSES}"), 50_000, Box::new(compare)));
    contenders
}

/// Stamps of an execution in which every event receives the message of a recent one, as each clock has them.
struct Execution {
    blooms: Vec<Vec<Stamp>>,
    /// All stamps of the first process.
    of_one: Vec<Vec<Stamp>>,
    vectors: Vec<VectorStamp>,
    /// Indices of two events.
    pairs: Vec<(usize, usize)>,
}

/// A number that looks like chance.
fn chance(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

impl Execution {
    /// How long a message is under way at most, in events.
    const RECENT: usize = 900;
    /// Stamps that are kept.
    const KEPT: usize = 1_000;

    /// Of so many events one stamp is kept, so that far ones are among them and near ones too.
    const EVERY: usize = 100;

    fn new() -> Self {
        let events = Self::KEPT * Self::EVERY;
        let mut seed = 1;
        // The process, and how many events ago what it receives was sent.
        let step = |_| (chance(&mut seed) % PROCESSES, chance(&mut seed) % Self::RECENT);
        let steps: Vec<(usize, usize)> = (0..events).map(step).collect();
        let runs = COUNTERS.map(|counters| {
            Self::run(&steps, |process| {
                BloomClock::begin(params(counters).key(TickKey::Process), identity(process))
            })
        });
        let [vectors, _] = Self::run(&steps, |process| VectorClock::begin(process, PROCESSES));
        let pair = |_| (chance(&mut seed) % Self::KEPT, chance(&mut seed) % Self::KEPT);
        let [blooms, of_one] = [0, 1].map(|which| runs.iter().map(|run| run[which].clone()).collect());
        Self { blooms, of_one, vectors, pairs: (0..4096).map(pair).collect() }
    }

    fn run<C: Clock>(steps: &[(usize, usize)], begin: impl Fn(usize) -> C) -> [Vec<C::Stamp>; 2] {
        let mut clocks: Vec<C> = (0..PROCESSES).map(begin).collect();
        let (mut recent, mut kept, mut of_one) = (std::collections::VecDeque::new(), Vec::new(), Vec::new());
        for (at, (process, back)) in steps.iter().enumerate() {
            let clock = &mut clocks[*process];
            let stamp = match recent.get(*back) {
                Some(sent) => clock.receive(sent).expect("of this system"),
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
        [kept, of_one]
    }

    fn pair(&self, number: u32) -> (usize, usize) {
        self.pairs[number as usize % self.pairs.len()]
    }

    /// How long stamps are: in memory, alone, and one after the other of one process.
    fn print_bytes(&self) {
        println!(
            "\n| Bytes of a stamp of that execution | in memory | alone | in a session |\n|---|--:|--:|--:|"
        );
        for ((counters, stamps), of_one) in COUNTERS.iter().zip(&self.blooms).zip(&self.of_one) {
            let mut alone = Vec::new();
            stamps.iter().for_each(|stamp| stamp.write(&mut alone));
            let (mut writing, mut session) = (DeltaEncoder::default(), Vec::new());
            of_one.iter().for_each(|stamp| writing.write(stamp, &mut session));
            let (alone, session) = (alone.len() / stamps.len(), session.len() / of_one.len());
            println!("| Bloom clock, m = {counters} | {} | {alone} | {session} |", 4 * counters);
        }
        println!("| vector clock, n = {PROCESSES} | {} | | |", 8 * PROCESSES);
    }

    /// How many of the pairs are caused.
    fn print_share(&self) {
        let caused = |(later, earlier): &&(usize, usize)| {
            self.vectors[*later].after(&self.vectors[*earlier]) == Causality::Possibly
        };
        let caused = self.pairs.iter().filter(caused).count();
        println!(
            "\nOf the pairs of the execution {:.0} % are caused.",
            100.0 * caused as f64 / self.pairs.len() as f64
        );
    }

    fn pairs(&self) -> Vec<Contender<'_>> {
        let mut contenders: Vec<Contender<'_>> = Vec::new();
        for (counters, stamps) in COUNTERS.iter().zip(&self.blooms) {
            let compare = |number| {
                let (later, earlier) = self.pair(number);
                _ = black_box(stamps[later].after(&stamps[earlier]));
            };
            contenders.push((format!("Bloom clock, m = {counters}"), 20_000, Box::new(compare)));
        }
        let compare = |number| {
            let (later, earlier) = self.pair(number);
            _ = black_box(self.vectors[later].after(&self.vectors[earlier]));
        };
        contenders.push((format!("vector clock, n = {PROCESSES}"), 5_000, Box::new(compare)));
        contenders
    }

    fn receives(&self) -> Vec<Contender<'_>> {
        let mut contenders: Vec<Contender<'_>> = Vec::new();
        for (counters, stamps) in COUNTERS.iter().zip(&self.blooms) {
            let mut clock = BloomClock::begin(params(*counters), identity(PROCESSES));
            let receive = move |number| _ = black_box(clock.receive(&stamps[number as usize % 16]).is_ok());
            contenders.push((format!("Bloom clock, m = {counters}"), 20_000, Box::new(receive)));
        }
        let mut clock = VectorClock::begin(0, PROCESSES);
        let receive = move |number| _ = black_box(clock.receive(&self.vectors[number as usize % 16]).is_ok());
        contenders.push((format!("vector clock, n = {PROCESSES}"), 5_000, Box::new(receive)));
        contenders
    }
}

fn ticks<'a>() -> Vec<Contender<'a>> {
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for counters in COUNTERS {
        let mut clock = bloom(counters, 1, 0);
        let tick = move |_| _ = black_box(clock.tick());
        contenders.push((format!("Bloom clock, m = {counters}"), 50_000, Box::new(tick)));
    }
    let mut clock = VectorClock::begin(1, PROCESSES);
    let tick = move |_| _ = black_box(clock.tick());
    contenders.push((format!("vector clock, n = {PROCESSES}"), 50_000, Box::new(tick)));
    contenders
}

/// A stamp with these counters.
fn stamp(numbers: &[u32]) -> Stamp {
    let mut bytes = vec![1];
    let base = numbers.iter().copied().min().unwrap_or(0);
    for number in
        [numbers.len() as u32, 0, base].into_iter().chain(numbers.iter().map(|number| number - base))
    {
        let mut rest = number;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    Stamp::read(&bytes, &params(numbers.len())).expect("a stamp")
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The system's own words for how busy it is.
fn load() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let average = read("/proc/loadavg").split_whitespace().next().unwrap_or("?").to_string();
    let pressure = read("/proc/pressure/cpu");
    let waiting = pressure.split_whitespace().find_map(|word| word.strip_prefix("avg10=")).unwrap_or("?");
    format!("load {average}, processor pressure {waiting} %")
}

fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(" unknown");
    format!("{cpus} × {}", model.trim_start_matches([' ', '\t', ':']))
}
