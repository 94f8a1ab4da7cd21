//! Additions per second and what they cost, everybody interleaved; and whether the counts are right afterwards.

use std::path::Path;

use anyhow::Result;

use crate::echo;
use crate::jeton::{DURABLE, Jeton, RELAXED};
use crate::postgres::{BEST, Postgres, Recipe};
use crate::redis::{Fsync, Redis};
use crate::report::{Spread, Threshold, Verdicts, grouped, load, spread};
use crate::target::{CONNECTIONS, Measured, RoundPlan, Target, by_turns};
use crate::workload::Workload;

/// How many additions a connection sends at a time when it does not wait for each.
pub const PIPELINE: usize = 50;

/// What a contender is here for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Ours,
    Recipe,
    Plain,
    Many,
    Few,
    Single,
    Echo,
}

/// A contender with its role; the servers live as long as these.
type Field = Vec<(Role, Target)>;

/// What succeeded; what did not is said and left out.
pub fn attempt<T>(what: &str, result: Result<T>) -> Option<T> {
    result.map_err(|error| println!("Not measured: {what}: {error:#}.\n")).ok()
}

/// The bars on ratios of rates, by workload.
type Bars = fn(Role, &Workload) -> Option<Threshold>;

/// Durable additions, many at a time and one at a time.
pub fn durable(folder: &Path, pace: RoundPlan) {
    println!("\n## Durable additions, {CONNECTIONS} connections\n");
    println!(
        "Before: {}. {} rounds of {:?} each, interleaved; median (quartiles); every twentieth addition is sent again.\n",
        load(),
        pace.rounds,
        pace.duration
    );
    let jeton = attempt("Jeton", Jeton::start(folder));
    let redis = attempt("Redis", Redis::start(folder, Fsync::Always));
    let postgres = attempt("PostgreSQL", Postgres::start(folder));
    let echo = attempt("the echo server", echo::start(folder));
    let mut field: Field = Vec::new();
    if let Some(jeton) = &jeton {
        field.extend(attempt("Jeton", jeton.contender(DURABLE)).map(|ours| (Role::Ours, ours)));
    }
    if let Some(redis) = &redis {
        field.extend(attempt("Redis", redis.recipe()).map(|recipe| (Role::Recipe, recipe)));
        field.push((Role::Plain, redis.plain()));
    }
    if let Some(postgres) = &postgres {
        for (role, recipe) in [(Role::Many, BEST), (Role::Single, Recipe::Single)] {
            field
                .extend(attempt("PostgreSQL", postgres.contender(recipe)).map(|contender| (role, contender)));
        }
        field.extend(attempt("PostgreSQL", postgres.few()).map(|few| (Role::Few, few)));
    }
    let (echo, contender) = echo.unzip();
    field.extend(contender.map(|contender| (Role::Echo, contender)));

    let mut verdicts = Verdicts::default();
    for workload in Workload::all() {
        compare(
            &mut field,
            &[Role::Ours, Role::Recipe, Role::Plain, Role::Many, Role::Few],
            &workload,
            PIPELINE,
            pace,
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
            pace,
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

/// Additions that are answered before they are durable, many at a time.
pub fn relaxed(folder: &Path, pace: RoundPlan) {
    println!("\n## Additions of relaxed durability, {CONNECTIONS} connections\n");
    println!(
        "Before: {}. {} rounds of {:?} each, interleaved; median (quartiles).\n",
        load(),
        pace.rounds,
        pace.duration
    );
    let jeton = attempt("Jeton", Jeton::start(folder));
    let redis = attempt("Redis", Redis::start(folder, Fsync::EverySecond));
    let mut field: Field = Vec::new();
    if let Some(jeton) = &jeton {
        field.extend(attempt("Jeton", jeton.contender(RELAXED)).map(|ours| (Role::Ours, ours)));
    }
    if let Some(redis) = &redis {
        field.extend(attempt("Redis", redis.recipe()).map(|recipe| (Role::Recipe, recipe)));
        field.push((Role::Plain, redis.plain()));
    }
    let mut verdicts = Verdicts::default();
    for workload in Workload::all() {
        let roles = [Role::Ours, Role::Recipe, Role::Plain];
        compare(&mut field, &roles, &workload, PIPELINE, pace, &mut verdicts, |role, _| {
            (role == Role::Plain).then_some(Threshold::AtLeast(1.5))
        });
    }
    counts(&field, &mut verdicts);
    verdicts.print();
    drop((jeton, redis));
}

/// Measures those of some roles interleaved, prints what they did, and judges ours against the others.
fn compare(
    field: &mut Field,
    roles: &[Role],
    workload: &Workload,
    pipeline: usize,
    pace: RoundPlan,
    verdicts: &mut Verdicts,
    bars: Bars,
) {
    let mut chosen: Vec<(Role, &mut Target)> = field
        .iter_mut()
        .filter(|(role, _)| roles.contains(role))
        .map(|(role, contender)| (*role, contender))
        .collect();
    let roles: Vec<Role> = chosen.iter().map(|(role, _)| *role).collect();
    let mut contenders: Vec<&mut Target> = chosen.iter_mut().map(|(_, contender)| &mut **contender).collect();
    let table = by_turns(&mut contenders, workload, pipeline, pace);
    let how = if pipeline == 1 { "one at a time".to_owned() } else { format!("pipelined by {pipeline}") };
    println!("{}, {how}:\n", workload.name);
    print_table(&contenders, &table);

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
        let what = format!("{}, {how}: to {}", workload.name, contenders[at].name);
        verdicts.judge(&what, ratio(at, |measured| measured.round.rate()), bars(*role, workload));
    }
    if pipeline > 1 {
        let micros = spread(each(ours, Measured::server_micros).into_iter().flatten());
        let what = format!("{}, {how}: processor of our server for an addition, µs", workload.name);
        // The bar is on durable additions, where the rival that is exact takes part.
        verdicts.judge(&what, micros, roles.contains(&Role::Many).then_some(Threshold::AtMost(1.2)));
    } else if let Some(echo) = column(Role::Echo) {
        let what = format!("{}, {how}: processor of our server to that of a bare echo", workload.name);
        verdicts.judge(&what, ratio(echo, Measured::server_micros), Some(Threshold::AtMost(1.25)));
    }
}

/// What each contender did, a line each.
pub fn print_table(contenders: &[&mut Target], table: &[Vec<Option<Measured>>]) {
    println!(
        "| contender | additions per second | server, µs of processor | load generator, µs | p50, ms | p99, ms |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    for (at, contender) in contenders.iter().enumerate() {
        if let Some(failure) = &contender.failure {
            println!("| {} | failed: {failure} | | | | |", contender.name);
            continue;
        }
        let column =
            |value: fn(&Measured) -> f64| spread(table.iter().filter_map(|row| row[at].as_ref().map(value)));
        println!(
            "| {} | {} | {} | {:.2} | {:.2} | {:.2} |",
            contender.name,
            column(|measured| measured.round.rate()),
            column(Measured::server_micros),
            column(Measured::own_micros).median,
            column(|measured| measured.round.p50).median,
            column(|measured| measured.round.p99).median,
        );
    }
    println!();
}

/// Compares what the counters hold with what was acknowledged.
fn counts(field: &Field, verdicts: &mut Verdicts) {
    println!("Counts after all of it:\n");
    println!(
        "| contender | distinct additions acknowledged | sent again | refused, then sent again | sum of the counters | error |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    for (role, contender) in field {
        let (Some(fleet), Some(sum)) = (contender.opened(), contender.sum()) else { continue };
        let ledger = fleet.ledger;
        let refusals = match &fleet.refusal {
            Some(words) => format!("{} ({words})", grouped(ledger.refused as f64)),
            None => "0".into(),
        };
        let error = sum.as_ref().map_or(f64::NAN, |sum| *sum as f64 - ledger.distinct as f64);
        let shown = sum.map_or_else(|error| format!("{error:#}"), |sum| grouped(sum as f64));
        println!(
            "| {} | {} | {} | {refusals} | {shown} | {} |",
            contender.name,
            grouped(ledger.distinct as f64),
            grouped(ledger.again as f64),
            grouped(error),
        );
        if *role == Role::Ours {
            verdicts.judge("error of our counts", spread([error.abs()]), Some(Threshold::AtMost(0.0)));
        }
    }
    if !field.iter().any(|(role, _)| *role == Role::Ours) {
        verdicts.judge("error of our counts", spread([]), Some(Threshold::AtMost(0.0)));
    }
}
