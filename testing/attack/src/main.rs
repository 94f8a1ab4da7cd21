//! Attacks a server with everything that a client can send, beside a well-behaved client.
//!
//! The server runs in a cgroup of 512 MiB with tokens. Attackers have no token, or one with few rights on the
//! tables `att*`, and run at low priority. At the end: the server is alive, its memory is within the limit,
//! the p99 of the well-behaved client is at most five times its p99 before the attacks, its counts are exact,
//! and nothing was changed that the attackers have no right to.

mod attacks;
mod cgroup;
mod good_client;
mod runner;
mod target;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use jeton_testkit::Rng;
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

use crate::attacks::ATTACKS;
use crate::good_client::{Measurements, Sums};
use crate::runner::Tally;
use crate::target::Target;

const MEMORY_MIB: u64 = 512;

/// Bar for the p99 of the well-behaved client during the attacks, relative to the one before.
const P99_RATIO_MAX: f64 = 5.0;

/// Threads of the well-behaved client.
const CLIENTS: u64 = 2;

/// Attack a server beside a well-behaved client
#[derive(Parser)]
struct Options {
    /// Duration of the attacks in minutes
    #[arg(default_value_t = 20.0)]
    minutes: f64,

    /// Seed of the order of the attacks and of their payloads
    #[arg(long, default_value_t = good_client::millis())]
    seed: u64,

    /// Run only the attacks whose name contains this text
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).context("cannot open more files")?;
    let folder = jeton_testbed::folder()?;
    let mut target = Target::start(folder.path(), MEMORY_MIB << 20)?;
    let version = target.cgroup.as_ref().map_or("no cgroup: the limit was not enforced", |one| one.version());
    println!(
        "Seed {}, {} minutes, server limited to {MEMORY_MIB} MiB ({version}).",
        options.seed, options.minutes
    );
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{cores} processors, shared by server, attackers (nice 19) and client; load before: {}.\n",
        load.split(' ').take(3).collect::<Vec<_>>().join(", ")
    );
    let measured = Measurements::new();
    let (tallies, sums) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (target, measured) = (&target, &measured);
                let mut rng = Rng::named(options.seed, &format!("client {number}"));
                scope.spawn(move || good_client::run(target, measured, &format!("good-{number}"), &mut rng))
            })
            .collect();
        let tallies = scope.spawn(|| attack(&target, &measured, &options)).join();
        measured.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let sums: Vec<Sums> = clients.into_iter().filter_map(|client| client.join().ok()).collect();
        (tallies, sums)
    });
    let Ok(tallies) = tallies else { bail!("the attackers failed") };
    print_table(&tallies, &measured);
    verdict(&mut target, &measured, &sums)
}

/// Runs the attacks in random order until the time is over.
fn attack(target: &Target, measured: &Measurements, options: &Options) -> Vec<Tally> {
    use std::sync::atomic::Ordering::Relaxed;
    let _keeps_its_priority = setpriority_process(None, 19);
    let quiet = Duration::from_secs_f64((options.minutes * 60.0 / 8.0).clamp(10.0, 60.0));
    std::thread::sleep(quiet);
    let mut tallies: Vec<Tally> = ATTACKS.iter().map(|_| Tally::default()).collect();
    let mut rng = Rng::named(options.seed, "attacks");
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let mut order = Vec::new();
    while Instant::now() < end {
        let Some(next) = order.pop() else {
            order = (0..ATTACKS.len()).filter(|at| ATTACKS[*at].name.contains(&options.only)).collect();
            rng.shuffle(&mut order);
            continue;
        };
        let attack: &attacks::Attack = &ATTACKS[next];
        measured.phase.store(next + 1, Relaxed);
        runner::run(attack, target, &mut rng, &mut tallies[next]);
        let resident = target.resident_peak() >> 20;
        eprintln!("{}: resident peak {resident} MiB", attack.name);
        if resident == 0 {
            eprintln!("the server is gone");
            break;
        }
    }
    measured.phase.store(ATTACKS.len() + 1, Relaxed);
    tallies
}

fn print_table(tallies: &[Tally], measured: &Measurements) {
    println!(
        "| attack | finding | runs | requests | connections | closed by the server | errors | p99 of the client, ms |"
    );
    println!("|---|---|--:|--:|--:|--:|---|--:|");
    for ((attack, tally), number) in ATTACKS.iter().zip(tallies).zip(1..) {
        let errors = tally.errors.iter().map(|(code, count)| format!("{code} {count}"));
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {:.1} |",
            attack.name,
            attack.finding,
            tally.runs,
            tally.requests,
            tally.connections,
            tally.closed,
            errors.collect::<Vec<_>>().join(", "),
            measured.quantiles(|phase| phase == number).1[1]
        );
    }
}

fn verdict(target: &mut Target, measured: &Measurements, sums: &[Sums]) -> Result<()> {
    let mut failures = Vec::new();
    let mut check = |holds: bool, what: String| {
        println!("- {} {what}", if holds { "holds:" } else { "FAILS:" });
        if !holds {
            failures.push(what);
        }
    };
    println!();
    let alive = !target.server.has_ended();
    check(alive, "the server is alive".into());
    let resident = target.resident_peak() >> 20;
    let (peak, kills) = target.cgroup.as_ref().map_or((None, 0), |one| (one.peak(), one.kills()));
    let peak = peak.map_or("unknown".into(), |bytes| format!("{} MiB", bytes >> 20));
    check(
        resident <= MEMORY_MIB && kills == 0,
        format!(
            "resident memory at most {resident} MiB; with page cache {peak}; killed by the kernel: {kills}"
        ),
    );
    let (before, [p50, quiet, max]) = measured.quantiles(|phase| phase == 0);
    println!("- client before: {before} operations, p50 {p50:.2} ms, p99 {quiet:.2} ms, maximum {max:.1} ms");
    let (during, [p50, p99, max]) = measured.quantiles(|phase| phase > 0);
    println!("- client during: {during} operations, p50 {p50:.2} ms, p99 {p99:.2} ms, maximum {max:.1} ms");
    let ratio = p99 / quiet;
    check(ratio <= P99_RATIO_MAX, format!("p99 is {ratio:.1} times the p99 before, at most {P99_RATIO_MAX}"));
    for one in sums {
        println!("- retries of a client with {} operations: {:?}", one.operations, one.retries);
    }
    if alive {
        let wrong = good_client::wrong_rows(target, sums)?;
        check(wrong.is_empty(), format!("counts are exact {}", wrong.join("; ")));
        let damage = target.damage()?;
        check(damage.is_empty(), format!("no attack changed what it may not {}", damage.join("; ")));
    }
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{}\n\nthe log of the server ends with:\n{}", failures.join("\n"), target.log_tail())
}
