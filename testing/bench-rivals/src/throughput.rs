//! Additions per second and their processor time, in interleaved rounds, and a check of the counters at the
//! end.

use std::path::Path;

use anyhow::Result;

use crate::echo;
use crate::jeton::{DURABLE, Jeton, RELAXED};
use crate::memory;
use crate::postgres::{BEST, Postgres, Recipe};
use crate::redis::{Fsync, Redis};
use crate::report::{Spread, Threshold, Verdicts, grouped, load, spread};
use crate::target::{CONNECTIONS, Measured, RoundPlan, Target, interleave};
use crate::workload::Workload;

/// Additions of a pipelined request.
pub const PIPELINE: usize = 50;

/// What a target is compared as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Ours,
    Baseline,
    Recipe,
    Plain,
    Many,
    Few,
    Single,
    Echo,
}

/// Targets with their roles. Their servers must outlive them.
type Field = Vec<(Role, Target)>;

/// The result, or `None` after an error, which is printed.
pub fn attempt<T>(what: &str, result: Result<T>) -> Option<T> {
    result.map_err(|error| println!("Not measured: {what}: {error:#}.\n")).ok()
}

/// Thresholds for ratios of rates, by workload.
type Thresholds = fn(Role, &Workload) -> Option<Threshold>;

/// Prints the heading of a part and the plan of its rounds.
fn print_heading(what: &str, plan: RoundPlan, more: &str) {
    println!("\n## {what}, {CONNECTIONS} connections\n");
    let RoundPlan { rounds, duration } = plan;
    println!(
        "Before: {}. {rounds} rounds of {duration:?} each, interleaved; median (quartiles){more}.\n",
        load()
    );
}

/// Jeton and both variants of Redis.
fn field(jeton: Option<&Jeton>, table: &'static str, redis: Option<&Redis>) -> Field {
    let mut field = Field::new();
    if let Some(jeton) = jeton {
        field.extend(attempt("Jeton", jeton.target(table)).map(|ours| (Role::Ours, ours)));
    }
    if let Some(redis) = redis {
        field.extend(attempt("Redis", redis.recipe()).map(|recipe| (Role::Recipe, recipe)));
        field.push((Role::Plain, redis.plain()));
    }
    field
}

/// Durable additions, pipelined and one at a time.
pub fn durable(folder: &Path, plan: RoundPlan) {
    print_heading("Durable additions", plan, "; every twentieth addition is sent again");
    let jeton = attempt("Jeton", Jeton::start(folder));
    let redis = attempt("Redis", Redis::start(folder, Fsync::Always));
    let postgres = attempt("PostgreSQL", Postgres::start(folder));
    let echo = attempt("the echo server", echo::start(folder));
    let mut field = field(jeton.as_ref(), DURABLE, redis.as_ref());
    if let Some(postgres) = &postgres {
        for (role, recipe) in [(Role::Many, BEST), (Role::Single, Recipe::Single)] {
            field.extend(attempt("PostgreSQL", postgres.target(recipe)).map(|target| (role, target)));
        }
        field.extend(attempt("PostgreSQL", postgres.few()).map(|few| (Role::Few, few)));
    }
    let (echo, target) = echo.unzip();
    field.extend(target.map(|target| (Role::Echo, target)));

    let mut verdicts = Verdicts::default();
    for workload in Workload::all() {
        compare(
            &mut field,
            &[Role::Ours, Role::Recipe, Role::Plain, Role::Many, Role::Few],
            &workload,
            PIPELINE,
            plan,
            &mut verdicts,
            |role, _| match role {
                Role::Recipe => Some(Threshold::AtLeast(6.0)),
                Role::Plain => Some(Threshold::AtLeast(2.5)),
                Role::Many | Role::Few => Some(Threshold::AtLeast(8.0)),
                _ => None,
            },
        );
        compare(
            &mut field,
            &[Role::Ours, Role::Recipe, Role::Plain, Role::Single, Role::Echo],
            &workload,
            1,
            plan,
            &mut verdicts,
            |role, workload| match (role, workload.draws.len()) {
                (Role::Recipe, _) => Some(Threshold::AtLeast(1.3)),
                (Role::Single, 1) => Some(Threshold::AtLeast(15.0)),
                (Role::Single, _) if workload.name.starts_with("uniform") => Some(Threshold::AtLeast(4.0)),
                _ => None,
            },
        );
    }
    counts(&field, &mut verdicts);
    verdicts.print();
    drop((jeton, redis, postgres, echo));
}

/// Pipelined additions that are acknowledged before they are durable.
pub fn relaxed(folder: &Path, plan: RoundPlan) {
    print_heading("Additions of relaxed durability", plan, "");
    let jeton = attempt("Jeton", Jeton::start(folder));
    let redis = attempt("Redis", Redis::start(folder, Fsync::EverySecond));
    let mut field = field(jeton.as_ref(), RELAXED, redis.as_ref());
    let mut verdicts = Verdicts::default();
    for workload in Workload::all() {
        let roles = [Role::Ours, Role::Recipe, Role::Plain];
        compare(&mut field, &roles, &workload, PIPELINE, plan, &mut verdicts, |role, _| {
            (role == Role::Plain).then_some(Threshold::AtLeast(1.5))
        });
    }
    counts(&field, &mut verdicts);
    verdicts.print();
    drop((jeton, redis));
}

/// Durable and relaxed additions, and memory, of this version and of another one.
pub fn baseline(folder: &Path, plan: RoundPlan, ids: u64) -> Result<()> {
    print_heading("This version and the baseline", plan, "");
    let (jeton, other) = (Jeton::start(folder)?, Jeton::start_baseline(folder)?);
    let mut verdicts = Verdicts::default();
    for table in [DURABLE, RELAXED] {
        let mut theirs = other.target(table)?;
        theirs.name = format!("{}, baseline", theirs.name);
        let mut field = vec![(Role::Ours, jeton.target(table)?), (Role::Baseline, theirs)];
        for (workload, pipeline) in Workload::all().iter().flat_map(|all| [(all, PIPELINE), (all, 1)]) {
            let roles = [Role::Ours, Role::Baseline];
            compare(&mut field, &roles, workload, pipeline, plan, &mut verdicts, |role, _| {
                (role == Role::Baseline).then_some(Threshold::AtLeast(0.97))
            });
        }
        counts(&field, &mut verdicts);
    }
    drop((jeton, other));
    for part in ["jeton", "baseline"] {
        std::fs::remove_dir_all(folder.join(part))?;
    }
    println!("| memory, {} ids, then the baseline | bytes per id | |\n|---|--:|--:|", grouped(ids as f64));
    let ours = memory::of(Jeton::start(folder)?, ids)?;
    let theirs = memory::of(Jeton::start_baseline(folder)?, ids)?;
    verdicts.judge("memory per id", spread([ours / theirs]), Some(Threshold::AtMost(1.0 / 0.97)));
    verdicts.print();
    Ok(())
}

/// Measures the targets of some roles in interleaved rounds, prints the results, and compares Jeton with the
/// others.
fn compare(
    field: &mut Field,
    roles: &[Role],
    workload: &Workload,
    pipeline: usize,
    plan: RoundPlan,
    verdicts: &mut Verdicts,
    thresholds: Thresholds,
) {
    let mut chosen: Vec<(Role, &mut Target)> = field
        .iter_mut()
        .filter(|(role, _)| roles.contains(role))
        .map(|(role, target)| (*role, target))
        .collect();
    let roles: Vec<Role> = chosen.iter().map(|(role, _)| *role).collect();
    let mut targets: Vec<&mut Target> = chosen.iter_mut().map(|(_, target)| &mut **target).collect();
    let table = interleave(&mut targets, workload, pipeline, plan);
    let how = if pipeline == 1 { "one at a time".to_owned() } else { format!("pipelined by {pipeline}") };
    println!("{}, {how}:\n", workload.name);
    print_table(&targets, &table);

    let column = |role: Role| roles.iter().position(|other| *other == role);
    let ours = column(Role::Ours);
    let each = |at: Option<usize>, value: fn(&Measured) -> f64| -> Vec<Option<f64>> {
        table.iter().map(|row| at.and_then(|at| row[at].as_ref().map(value))).collect()
    };
    let ratio = |at: usize, value: fn(&Measured) -> f64| -> Spread {
        let pairs = each(ours, value).into_iter().zip(each(Some(at), value));
        spread(pairs.filter_map(|(ours, theirs)| Some(ours? / theirs?)))
    };
    for (at, role) in roles.iter().enumerate().filter(|(_, role)| !matches!(role, Role::Ours | Role::Echo)) {
        let what = format!("{}, {how}: to {}", workload.name, targets[at].name);
        verdicts.judge(&what, ratio(at, |measured| measured.round.rate()), thresholds(*role, workload));
    }
    if pipeline > 1 {
        let micros = spread(each(ours, Measured::server_micros).into_iter().flatten());
        let what = format!("{}, {how}: processor time of Jeton per addition, µs", workload.name);
        // The threshold is for durable additions, with PostgreSQL in the comparison.
        verdicts.judge(&what, micros, roles.contains(&Role::Many).then_some(Threshold::AtMost(1.2)));
    } else if let Some(echo) = column(Role::Echo) {
        let what = format!("{}, {how}: processor time of Jeton to that of an echo server", workload.name);
        verdicts.judge(&what, ratio(echo, Measured::server_micros), Some(Threshold::AtMost(1.25)));
    }
}

/// Prints one row for each target.
pub fn print_table(targets: &[&mut Target], table: &[Vec<Option<Measured>>]) {
    println!("| target | additions per second | server, µs | load generator, µs | p50, ms | p99, ms |");
    println!("|---|--:|--:|--:|--:|--:|");
    for (at, target) in targets.iter().enumerate() {
        if let Some(failure) = &target.failure {
            println!("| {} | failed: {failure} | | | | |", target.name);
            continue;
        }
        let column =
            |value: fn(&Measured) -> f64| spread(table.iter().filter_map(|row| row[at].as_ref().map(value)));
        println!(
            "| {} | {} | {} | {:.2} | {:.2} | {:.2} |",
            target.name,
            column(|measured| measured.round.rate()),
            column(Measured::server_micros),
            column(Measured::own_micros).median,
            column(|measured| measured.round.p50).median,
            column(|measured| measured.round.p99).median,
        );
    }
    println!();
}

/// Compares the counters with the acknowledged additions.
fn counts(field: &Field, verdicts: &mut Verdicts) {
    println!("Counters at the end:\n");
    println!(
        "| target | distinct additions acknowledged | sent again | refused and sent again | sum of the counters | error |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    for (role, target) in field {
        let (Some(pool), Some(sum)) = (target.opened(), target.sum()) else { continue };
        let sent = pool.sent;
        let refusals = match &pool.refusal {
            Some(words) => format!("{} ({words})", grouped(sent.refused as f64)),
            None => "0".into(),
        };
        let error = sum.as_ref().map_or(f64::NAN, |sum| *sum as f64 - sent.distinct as f64);
        let shown = sum.map_or_else(|error| format!("{error:#}"), |sum| grouped(sum as f64));
        println!(
            "| {} | {} | {} | {refusals} | {shown} | {} |",
            target.name,
            grouped(sent.distinct as f64),
            grouped(sent.again as f64),
            grouped(error),
        );
        if *role == Role::Ours {
            verdicts.judge(
                "error of the counters of Jeton",
                spread([error.abs()]),
                Some(Threshold::AtMost(0.0)),
            );
        }
    }
    if !field.iter().any(|(role, _)| *role == Role::Ours) {
        verdicts.judge("error of the counters of Jeton", spread([]), Some(Threshold::AtMost(0.0)));
    }
}
