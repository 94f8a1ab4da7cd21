//! Compares the recipes of PostgreSQL for pipelined additions, because Jeton is compared with the best.

use std::path::Path;

use crate::postgres::{BEST, Postgres, Recipe};
use crate::report::load;
use crate::target::{CONNECTIONS, RoundPlan, Target, interleave};
use crate::throughput::{PIPELINE, attempt, print_table};
use crate::workload::Workload;

pub fn run(folder: &Path, plan: RoundPlan) {
    println!("\n## Recipes of PostgreSQL, {PIPELINE} additions per transaction\n");
    println!("Before: {}. {} rounds of {:?} each, interleaved.\n", load(), plan.rounds, plan.duration);
    println!("The other parts use: {}.\n", BEST.name());
    let Some(postgres) = attempt("PostgreSQL", Postgres::start(folder)) else { return };
    let mut field: Vec<Target> = Vec::new();
    for recipe in Recipe::FOR_MANY {
        let Some(target) = attempt(recipe.name(), postgres.target(recipe)) else { continue };
        field.push(target);
    }
    field.extend(attempt("fewer connections", postgres.few()));
    for workload in Workload::all() {
        println!("{}, {CONNECTIONS} connections unless stated otherwise:\n", workload.name);
        let mut targets: Vec<&mut Target> = field.iter_mut().collect();
        let table = interleave(&mut targets, &workload, PIPELINE, plan);
        print_table(&targets, &table);
        for target in &field {
            if let Some((pool, words)) = target.opened().and_then(|pool| Some((pool, pool.refusal.as_ref()?)))
            {
                println!("{}: {} refused ({words}).\n", target.name, pool.sent.refused);
            }
        }
    }
    println!("After: {}.", load());
}
