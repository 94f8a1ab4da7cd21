//! The filter against its rivals, as ratios from one run: `cargo xtask bench filter`.
//!
//! Prints a Markdown table. `--quick` leaves out the runs with fifty million ids; names of
//! sections (see `SECTIONS`) leave out the others.

mod apbf;
mod exact;
mod forgetful;
mod measure;
mod paper_layout;

use fastbloom::{AtomicBloomFilter, BloomFilter};
use forgetful_filter::{Fingerprint, ForgetfulFilter};

use measure::{Sample, compare, id, time, time_each};

#[global_allocator]
static ALLOCATOR: exact::Counting = exact::Counting;

/// Rounds of each comparison.
const ROUNDS: usize = 21;
/// Operations in a round.
const BATCH: u64 = 200_000;
/// Ids that nobody inserts start here.
const FOREIGN: u64 = 1 << 40;

/// A part of the table: its name on the command line, and what prints it.
type Section = (&'static str, fn(quick: bool));

const SECTIONS: [Section; 7] = [
    ("accuracy", |_| [1e-2, 1e-3, 1e-4].into_iter().for_each(accuracy)),
    ("memory", |_| {
        [(1e-3, 23.5), (1e-4, 31.5)].into_iter().for_each(|(target, bar)| bits_per_id(target, bar))
    }),
    ("fastbloom", |quick| {
        let sizes: &[u64] = if quick { &[1_000_000] } else { &[1_000_000, 50_000_000] };
        sizes.iter().for_each(|ids| against_fastbloom(*ids));
    }),
    ("paper", |_| against_separate()),
    ("apbf", |_| against_age_partitioned()),
    ("exact", |_| against_exact()),
    ("threads", |_| two_threads()),
];

fn main() {
    // Cargo adds `--bench`; what does not begin with a dash names sections.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if let Some(unknown) = named.iter().find(|name| SECTIONS.iter().all(|(known, _)| known != *name)) {
        let known: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no section {unknown}; there are: {}", known.join(", "));
        std::process::exit(2);
    }
    println!("machine: {}; {}", measure::machine(), measure::load());
    println!("each time is the median of {ROUNDS} rounds of {BATCH} operations taken by turns;");
    println!("a ratio is the median of the rounds' ratios, with the quartiles behind it\n");
    println!("| what | ours | rival | ratio (quartiles) | bar | |");
    println!("|---|--:|--:|--:|--:|---|");
    for (name, print) in SECTIONS {
        if named.is_empty() || named.iter().any(|wanted| *wanted == name) {
            print(quick);
        }
    }
    println!("\n{}", measure::load());
}

/// The first ids of successive batches.
struct Batches(u64);

impl Batches {
    fn next(&mut self) -> u64 {
        self.0 += BATCH;
        self.0 - BATCH
    }
}

/// Foreign ids, hashed: another batch for each round, so that no round finds the lines of another in the cache.
fn hashed(round: usize) -> Vec<Fingerprint> {
    let first = FOREIGN + round as u64 * BATCH;
    (first..first + BATCH).map(|number| forgetful::key().fingerprint(&id(number))).collect()
}

fn row(what: &str, ours: String, rival: String, ratio: String, bar: &str, met: bool) {
    let verdict = if bar.is_empty() {
        ""
    } else if met {
        "met"
    } else {
        "MISSED"
    };
    println!("| {what} | {ours} | {rival} | {ratio} | {bar} | {verdict} |");
}

fn timed(what: &str, sample: &Sample, bar_max: Option<f64>) {
    row(
        what,
        format!("{:.1} ns", sample.ours),
        format!("{:.1} ns", sample.theirs),
        format!("{:.2}x ({:.2}–{:.2})", sample.ratio, sample.ratio_low, sample.ratio_high),
        &bar_max.map_or(String::new(), |max| format!("≤ {max}x")),
        bar_max.is_none_or(|max| sample.ratio <= max),
    );
}

/// The measured false-positive rate of a filter sized for its load, at its worst instant.
fn accuracy(target: f64) {
    const IDS: u64 = 1_000_000;
    const PROBES: u64 = 20_000_000;
    let filter = forgetful::steady(IDS, target);
    let now = forgetful::worst_instant(IDS);
    let found = (0..PROBES).filter(|n| filter.contains(&id(FOREIGN + n), now)).count();
    let measured = found as f64 / PROBES as f64;
    let estimate = filter.status().false_positive_rate;
    row(
        &format!("false-positive rate, sized for {target:e}"),
        format!("{measured:.2e}"),
        format!("own estimate {estimate:.2e}"),
        format!("{:.3} of the target", measured / target),
        "≤ 1.1",
        measured <= target * 1.1,
    );
}

fn bits_per_id(target: f64, bar: f64) {
    const IDS: u64 = 1_000_000;
    let filter = forgetful::steady(IDS, target);
    let bits = filter.status().bytes as f64 * 8.0 / IDS as f64;
    let dated = forgetful::steady_dated(IDS, target).status().bytes as f64 * 8.0 / IDS as f64;
    row(
        &format!("bits per remembered id at {target:e}, worst instant"),
        format!("{bits:.2}"),
        format!("dated ids: {dated:.2}"),
        String::new(),
        &format!("≤ {bar}"),
        bits <= bar,
    );
}

/// A Bloom filter that never forgets, holding the same ids at the same rate.
fn against_fastbloom(ids: u64) {
    const TARGET: f64 = 1e-3;
    let millions = ids / 1_000_000;
    let filter = forgetful::steady(ids, TARGET);
    let dated = forgetful::steady_dated(ids, TARGET);
    let mut bloom = BloomFilter::with_false_pos(TARGET).seed(&7).expected_items(ids as usize);
    (0..ids).for_each(|number| {
        bloom.insert(&id(number));
    });

    let full = forgetful::full(ids);
    let now = forgetful::worst_instant(ids);
    let start = |round: usize| FOREIGN + round as u64 * BATCH;
    let theirs = |round| time(BATCH, |n| bloom.contains(&id(start(round) + n)));
    let sample =
        compare(ROUNDS, |round| time(BATCH, |n| filter.contains(&id(start(round) + n), now)), theirs);
    timed(&format!("negative lookup, {millions} M ids, against fastbloom"), &sample, Some(1.6));
    let sample =
        compare(ROUNDS, |round| time(BATCH, |n| dated.contains(&id(start(round) + n), now, now)), theirs);
    timed(&format!("negative lookup of a dated id, {millions} M ids, against fastbloom"), &sample, None);
    let sample = compare(
        ROUNDS,
        |round| time_each(&hashed(round), |hash| filter.contains_fingerprint(hash, now)),
        |round| time_each(&hashed(round), |hash| bloom.contains_hash(hash.get())),
    );
    timed(
        &format!("negative lookup of an id hashed before, {millions} M ids, against fastbloom"),
        &sample,
        None,
    );
    let start = |round: usize| (round as u64 * BATCH) % (ids - BATCH) + (full - ids);
    let sample = compare(
        ROUNDS,
        |round| time(BATCH, |n| filter.contains(&id(start(round) + n), now)),
        |round| time(BATCH, |n| bloom.contains(&id(start(round) + n))),
    );
    timed(&format!("positive lookup, {millions} M ids, against fastbloom"), &sample, None);

    // Ours goes on at its steady rate, refreshes and sweeps included; fastbloom is filled anew.
    bloom.clear();
    let mut batches = Batches(full);
    let sample = compare(
        ROUNDS,
        |_| {
            let first = batches.next();
            time(BATCH, |n| filter.insert(&id(first + n), forgetful::arrival(first + n, ids)))
        },
        |round| time(BATCH, |n| bloom.insert(&id(round as u64 * BATCH + n))),
    );
    timed(&format!("insert, {millions} M ids, against fastbloom"), &sample, Some(2.5));
    let mut batches = Batches(full);
    let sample = compare(
        ROUNDS,
        |_| {
            let first = batches.next();
            time(BATCH, |n| {
                let now = forgetful::arrival(first + n, ids);
                dated.insert(&id(first + n), now, now)
            })
        },
        |round| time(BATCH, |n| bloom.insert(&id(round as u64 * BATCH + n))),
    );
    timed(&format!("insert of a dated id, {millions} M ids, against fastbloom"), &sample, None);
    drop((filter, dated, bloom));

    let filter = forgetful::steady(ids, TARGET);
    let bloom = AtomicBloomFilter::with_false_pos(TARGET).seed(&7).expected_items(ids as usize);
    (0..ids).for_each(|number| {
        bloom.insert(&id(number));
    });
    let start = |round: usize| FOREIGN + round as u64 * BATCH;
    let sample = compare(
        ROUNDS,
        |round| time(BATCH, |n| filter.contains(&id(start(round) + n), now)),
        |round| time(BATCH, |n| bloom.contains(&id(start(round) + n))),
    );
    timed(
        &format!("negative lookup, {millions} M ids, concurrent, against fastbloom's atomic"),
        &sample,
        None,
    );
    bloom.clear();
    let mut batches = Batches(full);
    let sample = compare(
        ROUNDS,
        |_| {
            let first = batches.next();
            time(BATCH, |n| filter.insert(&id(first + n), forgetful::arrival(first + n, ids)))
        },
        |round| time(BATCH, |n| bloom.insert(&id(round as u64 * BATCH + n))),
    );
    timed(&format!("insert, {millions} M ids, concurrent, against fastbloom's atomic"), &sample, None);
}

/// The layout of the paper: eight filters one after the other, about 100 MB.
fn against_separate() {
    const IDS: u64 = 25_000_000;
    const TARGET: f64 = 1e-3;
    let filter = forgetful::steady(IDS, TARGET);
    let (full, now) = (forgetful::full(IDS), forgetful::worst_instant(IDS));
    // 33.7 bits per id at 1e-3 with eight filters and k = 10 (each id lives in two of them).
    let mut separate =
        paper_layout::PaperLayout::new(forgetful::key(), 8, (IDS as f64 * 33.7 / 8.0) as u64, 10);
    for number in 0..full {
        if number % (full / 8) == 0 && number > 0 {
            separate.refresh();
        }
        separate.insert(&id(number));
    }
    const PROBES: u64 = 2_000_000;
    let found = (0..PROBES).filter(|n| separate.contains(&id(FOREIGN + n))).count();
    println!("| false-positive rate of the paper's layout | | {:.2e} | | | |", found as f64 / PROBES as f64);
    let faster = |what: &str, sample: &Sample, bar: &str| {
        row(
            &format!(
                "{what} against the paper's layout ({} MB; ours {} MB)",
                separate.bytes() / 1_000_000,
                filter.status().bytes / 1_000_000
            ),
            format!("{:.1} ns", sample.theirs),
            format!("{:.1} ns", sample.ours),
            format!("{:.2}x faster ({:.2}–{:.2})", sample.ratio, sample.ratio_low, sample.ratio_high),
            bar,
            sample.ratio >= 4.0,
        );
    };
    let start = |round: usize| FOREIGN + round as u64 * BATCH;
    let sample = compare(
        ROUNDS,
        |round| time_each(&hashed(round), |hash| separate.contains_fingerprint(hash)),
        |round| time_each(&hashed(round), |hash| filter.contains_fingerprint(hash, now)),
    );
    faster("negative lookup of an id hashed before", &sample, "≥ 4x");
    let sample = compare(
        ROUNDS,
        |round| time(BATCH, |n| separate.contains(&id(start(round) + n))),
        |round| time(BATCH, |n| filter.contains(&id(start(round) + n), now)),
    );
    faster("negative lookup, hash included,", &sample, "");
}

/// The best published filter for a window, by count instead of time.
fn against_age_partitioned() {
    const TARGET: f64 = 1e-3;
    for ids in [1_000_000, 25_000_000] {
        let filter = forgetful::steady(ids, TARGET);
        let (full, now) = (forgetful::full(ids), forgetful::worst_instant(ids));
        // The parameters that its paper gives for 1e-3 with the fewest bits among those with short lookups.
        let mut rival = apbf::AgePartitioned::new(forgetful::key(), ids, 14, 40);
        (0..full).for_each(|number| rival.insert(&id(number)));
        const PROBES: u64 = 2_000_000;
        let found = (0..PROBES).filter(|n| rival.contains(&id(FOREIGN + n))).count();
        row(
            &format!("bits per id, {} M ids, against an age-partitioned filter (14, 40)", ids / 1_000_000),
            format!("{:.2}", filter.status().bytes as f64 * 8.0 / ids as f64),
            format!("{:.2}", rival.bytes() as f64 * 8.0 / ids as f64),
            format!("{:.2}x", filter.status().bytes as f64 / rival.bytes() as f64),
            "",
            true,
        );
        println!("| its measured false-positive rate | | {:.2e} | | | |", found as f64 / PROBES as f64);
        let start = |round: usize| FOREIGN + round as u64 * BATCH;
        let sample = compare(
            ROUNDS,
            |round| time(BATCH, |n| filter.contains(&id(start(round) + n), now)),
            |round| time(BATCH, |n| rival.contains(&id(start(round) + n))),
        );
        timed("its negative lookup", &sample, None);
        let (mut a, mut b) = (Batches(full), Batches(full));
        let sample = compare(
            ROUNDS,
            |_| {
                let first = a.next();
                time(BATCH, |n| filter.insert(&id(first + n), forgetful::arrival(first + n, ids)))
            },
            |_| {
                let first = b.next();
                time(BATCH, |n| rival.insert(&id(first + n)))
            },
        );
        timed("its insert", &sample, None);
    }
}

/// What an exact answer costs in memory.
fn against_exact() {
    const IDS: u64 = 1_000_000;
    let before = exact::held();
    let filter = forgetful::steady(IDS, 1e-3);
    let ours_bytes = exact::held() - before;
    let before = exact::held();
    let mut map = exact::Exact::default();
    let window = forgetful::WINDOW.as_nanos() as u64;
    for number in 0..forgetful::full(IDS) {
        let now = forgetful::arrival(number, IDS).as_nanos();
        map.insert(id(number), now + window, now);
    }
    let exact_bytes = exact::held() - before;
    assert!(map.len() as u64 >= IDS && filter.status().ids >= IDS);
    let ratio = ours_bytes as f64 / exact_bytes as f64;
    row(
        "memory for 1 M ids against a hash map of 16-byte ids with expiry",
        format!("{:.1} MB", ours_bytes as f64 / 1e6),
        format!("{:.1} MB", exact_bytes as f64 / 1e6),
        format!("1/{:.1}", 1.0 / ratio),
        "≤ 1/10",
        ratio <= 0.1,
    );
}

/// Inserts per second of two threads against one, wall time; and, as what the machine can give, of two threads that
/// share nothing but the machine.
fn two_threads() {
    for ids in [1_000_000, 25_000_000] {
        let filters: [ForgetfulFilter; 2] = std::array::from_fn(|_| {
            forgetful::settings(ids, 1e-3).build(forgetful::key()).expect("the settings are valid")
        });
        let mut next = 0;
        let mut rounds: Vec<(f64, f64, f64)> = (0..12)
            .map(|_| {
                let one = insert_rate(&[&filters[0]], ids, &mut next);
                let shared = insert_rate(&[&filters[0], &filters[0]], ids, &mut next);
                (one, shared, insert_rate(&[&filters[0], &filters[1]], ids, &mut next))
            })
            .skip(2)
            .collect();
        let millions = ids / 1_000_000;
        let print = |what: &str, two: fn(&(f64, f64, f64)) -> f64, bar: &str, rounds: &mut Vec<_>| {
            let ratio = |round: &(f64, f64, f64)| two(round) / round.0;
            rounds.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            let at = |part: f64| &rounds[(part * (rounds.len() - 1) as f64) as usize];
            row(
                &format!("{what}, {millions} M ids"),
                format!("{:.1} M/s", two(at(0.5)) / 1e6),
                format!("{:.1} M/s", at(0.5).0 / 1e6),
                format!("{:.2}x ({:.2}–{:.2})", ratio(at(0.5)), ratio(at(0.25)), ratio(at(0.75))),
                bar,
                ratio(at(0.5)) >= 1.6,
            );
        };
        print("two threads inserting against one", |round| round.1, "≥ 1.6x", &mut rounds);
        print("the same with a filter for each: the machine's limit", |round| round.2, "", &mut rounds);
    }
}

/// Inserts per second of as many threads as filters are given, at the steady rate of `ids` per window.
fn insert_rate(filters: &[&ForgetfulFilter], ids: u64, next: &mut u64) -> f64 {
    const THREAD_IDS: u64 = 2_000_000;
    let (first, threads) = (*next, filters.len() as u64);
    *next += threads * THREAD_IDS;
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for (thread, filter) in filters.iter().enumerate() {
            scope.spawn(move || {
                for n in 0..THREAD_IDS {
                    let number = first + n * threads + thread as u64;
                    filter.insert(&id(number), forgetful::arrival(number, ids));
                }
            });
        }
    });
    (threads * THREAD_IDS) as f64 / start.elapsed().as_secs_f64()
}
