//! Compares the filter with other filters: `cargo xtask bench filter`.
//!
//! Prints a Markdown table. `--quick` skips the runs with fifty million ids; section names (see `SECTIONS`)
//! select sections.

mod apbf;
mod exact;
mod forgetful;
mod machine;
mod measure;
mod paper_layout;

use fastbloom::{AtomicBloomFilter, BloomFilter};
use forgetful_filter::{Fingerprint, ForgetfulFilter};

use machine::{machine_and_load, quartiles};
use measure::{Sample, compare, id, time};

#[global_allocator]
static ALLOCATOR: exact::Counting = exact::Counting;

/// Rounds of each comparison.
const ROUNDS: usize = 21;
/// Operations in a round.
const BATCH: u64 = 200_000;
/// Ids from here on are not inserted.
const FOREIGN: u64 = 1 << 40;

/// Name on the command line, and the function that prints the section.
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
    ("paper", |_| against_paper_layout()),
    ("apbf", |_| [1_000_000, 25_000_000].into_iter().for_each(against_age_partitioned)),
    ("exact", |_| against_exact()),
    ("threads", |_| [1_000_000, 25_000_000].into_iter().for_each(two_threads)),
];

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if let Some(unknown) = named.iter().find(|name| SECTIONS.iter().all(|(known, _)| known != *name)) {
        eprintln!("there is no section {unknown}; there are: {}", SECTIONS.map(|(name, _)| name).join(", "));
        std::process::exit(2);
    }
    println!("{}", machine_and_load());
    println!("each time is the median of {ROUNDS} alternating rounds of {BATCH} operations;");
    println!("a ratio is the median of the ratios of the rounds, with the quartiles in parentheses\n");
    println!("| what | filter | other | ratio (quartiles) | target | |");
    println!("|---|--:|--:|--:|--:|---|");
    for (name, print) in SECTIONS {
        if named.is_empty() || named.iter().any(|selected| *selected == name) {
            print(quick);
        }
    }
    println!("\n{}", machine_and_load());
}

fn row(what: &str, ours: String, other: String, ratio: String, bar: &str, met: bool) {
    let verdict = match (bar, met) {
        ("", _) => "",
        (_, true) => "met",
        (_, false) => "MISSED",
    };
    println!("| {what} | {ours} | {other} | {ratio} | {bar} | {verdict} |");
}

/// Compares two operations and prints a row.
fn versus(
    what: &str,
    bar_max: Option<f64>,
    ours: impl FnMut(usize) -> f64,
    theirs: impl FnMut(usize) -> f64,
) {
    let Sample { ours, theirs, ratio: [low, ratio, high] } = compare(ROUNDS, ours, theirs);
    let bar = bar_max.map_or(String::new(), |max| format!("≤ {max}x"));
    let met = bar_max.is_none_or(|max| ratio <= max);
    let ratio = format!("{ratio:.2}x ({low:.2}–{high:.2})");
    row(what, format!("{ours:.1} ns"), format!("{theirs:.1} ns"), ratio, &bar, met);
}

/// Rounds of lookups of foreign ids: another batch in each round, so that no round finds cached lines.
fn foreign<T>(mut lookup: impl FnMut(&[u8]) -> T) -> impl FnMut(usize) -> f64 {
    move |round| time(0..BATCH as usize, |n| lookup(&id(FOREIGN + (round as u64 * BATCH) + n as u64)))
}

/// As [`foreign`], with ids that are hashed before.
fn hashed<T>(mut lookup: impl FnMut(Fingerprint) -> T) -> impl FnMut(usize) -> f64 {
    move |round| {
        let first = FOREIGN + round as u64 * BATCH;
        let hash = |number| forgetful::key().fingerprint(&id(number));
        let fingerprints: Vec<Fingerprint> = (first..first + BATCH).map(hash).collect();
        time(fingerprints.iter(), |fingerprint| lookup(*fingerprint))
    }
}

/// Rounds of inserts of consecutive ids.
fn inserts<T>(mut next: u64, mut insert: impl FnMut(u64) -> T) -> impl FnMut(usize) -> f64 {
    move |_| {
        next += BATCH;
        time(0..BATCH as usize, |n| insert(next - BATCH + n as u64))
    }
}

/// The share of foreign ids that a lookup finds.
fn false_positive_rate(probes: u64, contains: impl Fn(&[u8]) -> bool) -> f64 {
    (0..probes).filter(|n| contains(&id(FOREIGN + n))).count() as f64 / probes as f64
}

/// The measured false-positive rate of a filter sized for its load, at its worst instant.
fn accuracy(target: f64) {
    const IDS: u64 = 1_000_000;
    let filter = forgetful::steady(IDS, target);
    let now = forgetful::worst_instant(IDS);
    let measured = false_positive_rate(20_000_000, |id| filter.contains(id, now));
    row(
        &format!("false-positive rate, sized for {target:e}"),
        format!("{measured:.2e}"),
        format!("own estimate {:.2e}", filter.status().false_positive_rate),
        format!("{:.3} of the target", measured / target),
        "≤ 1.1",
        measured <= target * 1.1,
    );
}

fn bits_per_id(target: f64, bar: f64) {
    const IDS: u64 = 1_000_000;
    let bits = |bytes: usize| bytes as f64 * 8.0 / IDS as f64;
    let arrival = bits(forgetful::steady(IDS, target).bytes());
    row(
        &format!("bits per remembered id at {target:e}, worst instant"),
        format!("{arrival:.2}"),
        format!("dated ids: {:.2}", bits(forgetful::steady_dated(IDS, target).bytes())),
        String::new(),
        &format!("≤ {bar}"),
        arrival <= bar,
    );
}

/// A Bloom filter that never forgets, with the same ids at the same rate.
fn against_fastbloom(ids: u64) {
    const TARGET: f64 = 1e-3;
    let name = |what: &str| format!("{what}, {} M ids, against fastbloom", ids / 1_000_000);
    let filter = forgetful::steady(ids, TARGET);
    let dated = forgetful::steady_dated(ids, TARGET);
    let mut bloom = BloomFilter::with_false_pos(TARGET).seed(&7).expected_items(ids as usize);
    (0..ids).for_each(|number| _ = bloom.insert(&id(number)));

    let full = forgetful::full(ids);
    let now = forgetful::worst_instant(ids);
    let theirs = || foreign(|id| bloom.contains(id));
    versus(&name("negative lookup"), Some(1.6), foreign(|id| filter.contains(id, now)), theirs());
    versus(
        &name("negative lookup of a dated id"),
        None,
        foreign(|id| dated.contains(id, now, now)),
        theirs(),
    );
    versus(
        &name("negative lookup of an id hashed before"),
        None,
        hashed(|hash| filter.contains_fingerprint(hash, now)),
        hashed(|hash| bloom.contains_hash(hash.get())),
    );
    let known = |round: usize| {
        let first = (round as u64 * BATCH) % (ids - BATCH) + (full - ids);
        (0..BATCH as usize).map(move |n| id(first + n as u64))
    };
    versus(
        &name("positive lookup"),
        None,
        |round| time(known(round), |id| filter.contains(&id, now)),
        |round| time(known(round), |id| bloom.contains(&id[..])),
    );

    // The filter continues at its steady rate, with refreshes and sweeps; fastbloom is filled again.
    bloom.clear();
    let arrival = |number| forgetful::arrival(number, ids);
    versus(
        &name("insert"),
        Some(2.5),
        inserts(full, |number| filter.insert(&id(number), arrival(number))),
        inserts(0, |number| bloom.insert(&id(number)[..])),
    );
    versus(
        &name("insert of a dated id"),
        None,
        inserts(full, |number| {
            let now = arrival(number);
            dated.insert(&id(number), now, now)
        }),
        inserts(0, |number| bloom.insert(&id(number)[..])),
    );
    drop((filter, dated, bloom));

    let name = |what: &str| format!("{}'s atomic filter", name(what));
    let filter = forgetful::steady(ids, TARGET);
    let bloom = AtomicBloomFilter::with_false_pos(TARGET).seed(&7).expected_items(ids as usize);
    (0..ids).for_each(|number| _ = bloom.insert(&id(number)[..]));
    let (ours, theirs) = (foreign(|id| filter.contains(id, now)), foreign(|id| bloom.contains(id)));
    versus(&name("negative lookup"), None, ours, theirs);
    bloom.clear();
    versus(
        &name("insert"),
        None,
        inserts(full, |number| filter.insert(&id(number), arrival(number))),
        inserts(0, |number| bloom.insert(&id(number)[..])),
    );
}

/// The layout of the paper: eight filters one after the other, about 100 MB.
fn against_paper_layout() {
    const IDS: u64 = 25_000_000;
    let filter = forgetful::steady(IDS, 1e-3);
    let (full, now) = (forgetful::full(IDS), forgetful::worst_instant(IDS));
    // 33.7 bits per id at 1e-3 with eight filters and k = 10 (each id is in two of them).
    let bits = (IDS as f64 * 33.7 / 8.0) as u64;
    let mut paper = paper_layout::PaperLayout::new(forgetful::key(), 8, bits, 10);
    for number in 0..full {
        if number % (full / 8) == 0 && number > 0 {
            paper.refresh();
        }
        paper.insert(&id(number));
    }
    let rate = false_positive_rate(2_000_000, |id| paper.contains(id));
    println!("| false-positive rate of the paper's layout | | {rate:.2e} | | | |");
    let megabytes = |bytes| bytes / 1_000_000;
    let sizes = format!("{} MB; filter {} MB", megabytes(paper.bytes()), megabytes(filter.bytes()));
    let faster = |what: &str, bar: &str, Sample { ours, theirs, ratio: [low, ratio, high] }: Sample| {
        row(
            &format!("{what} against the paper's layout ({sizes})"),
            format!("{theirs:.1} ns"),
            format!("{ours:.1} ns"),
            format!("{ratio:.2}x faster ({low:.2}–{high:.2})"),
            bar,
            ratio >= 4.0,
        );
    };
    let theirs = hashed(|hash| paper.contains_fingerprint(hash));
    let ours = hashed(|hash| filter.contains_fingerprint(hash, now));
    faster("negative lookup of an id hashed before", "≥ 4x", compare(ROUNDS, theirs, ours));
    let (theirs, ours) = (foreign(|id| paper.contains(id)), foreign(|id| filter.contains(id, now)));
    faster("negative lookup, hash included,", "", compare(ROUNDS, theirs, ours));
}

/// The best published filter for a window, by count instead of time.
fn against_age_partitioned(ids: u64) {
    let filter = forgetful::steady(ids, 1e-3);
    let (full, now) = (forgetful::full(ids), forgetful::worst_instant(ids));
    // Of the parameters in its paper for 1e-3 with short lookups, those with the fewest bits.
    let mut other = apbf::AgePartitioned::new(forgetful::key(), ids, 14, 40);
    (0..full).for_each(|number| other.insert(&id(number)));
    row(
        &format!("bits per id, {} M ids, against an age-partitioned filter (14, 40)", ids / 1_000_000),
        format!("{:.2}", filter.bytes() as f64 * 8.0 / ids as f64),
        format!("{:.2}", other.bytes() as f64 * 8.0 / ids as f64),
        format!("{:.2}x", filter.bytes() as f64 / other.bytes() as f64),
        "",
        true,
    );
    let rate = false_positive_rate(2_000_000, |id| other.contains(id));
    println!("| its measured false-positive rate | | {rate:.2e} | | | |");
    let (ours, theirs) = (foreign(|id| filter.contains(id, now)), foreign(|id| other.contains(id)));
    versus("its negative lookup", None, ours, theirs);
    let ours = inserts(full, |number| filter.insert(&id(number), forgetful::arrival(number, ids)));
    versus("its insert", None, ours, inserts(full, |number| other.insert(&id(number))));
}

/// The memory of an exact table.
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

/// Inserts per second of two threads against one, by wall time; and of two threads with a filter each, which
/// is the limit of the machine.
fn two_threads(ids: u64) {
    let filters: [ForgetfulFilter; 2] = std::array::from_fn(|_| {
        forgetful::settings(ids, 1e-3).build(forgetful::key()).expect("the settings are valid")
    });
    let mut next = 0;
    let mut rates = |threads: [&[&ForgetfulFilter]; 3]| threads.map(|f| insert_rate(f, ids, &mut next));
    let [one, other] = &filters;
    let rounds: Vec<[f64; 3]> =
        (0..12).map(|_| rates([&[one], &[one, one], &[one, other]])).skip(2).collect();
    let median = |which: usize| quartiles(rounds.iter().map(|round| round[which]))[1] / 1e6;
    for (which, what, bar) in [
        (1, "two threads inserting against one", "≥ 1.6x"),
        (2, "the same with a filter for each: the machine's limit", ""),
    ] {
        let [low, ratio, high] = quartiles(rounds.iter().map(|round| round[which] / round[0]));
        row(
            &format!("{what}, {} M ids", ids / 1_000_000),
            format!("{:.1} M/s", median(which)),
            format!("{:.1} M/s", median(0)),
            format!("{ratio:.2}x ({low:.2}–{high:.2})"),
            bar,
            ratio >= 1.6,
        );
    }
}

/// Inserts per second of one thread per filter, at the steady rate of `ids` per window.
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
