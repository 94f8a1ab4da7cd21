//! The recipes of PostgreSQL for many additions at a time against each other, so that ours is measured against the best.

use std::path::Path;

use crate::postgres::{BEST, Postgres, Recipe};
use crate::report::load;
use crate::target::{CONNECTIONS, RoundPlan, Target, by_turns};
use crate::throughput::{PIPELINE, attempt, print_table};
use crate::workload::Workload;

pub fn run(folder: &Path, pace: RoundPlan) {
    println!("\n## PostgreSQL's recipes, {PIPELINE} additions a transaction\n");
    println!("Before: {}. {} rounds of {:?} each, interleaved.\n", load(), pace.rounds, pace.duration);
    println!("The other parts take: {}.\n", BEST.name());
    let Some(postgres) = attempt("PostgreSQL", Postgres::start(folder)) else { return };
    let mut field: Vec<Target> = Vec::new();
    for recipe in Recipe::FOR_MANY {
        let Some(contender) = attempt(recipe.name(), postgres.contender(recipe)) else { continue };
        field.push(contender);
    }
    field.extend(attempt("fewer connections", postgres.few()));
    for workload in Workload::all() {
        println!("{}, {CONNECTIONS} connections unless it says otherwise:\n", workload.name);
        let mut contenders: Vec<&mut Target> = field.iter_mut().collect();
        let table = by_turns(&mut contenders, &workload, PIPELINE, pace);
        print_table(&contenders, &table);
        for contender in &field {
            if let Some((fleet, words)) =
                contender.opened().and_then(|fleet| Some((fleet, fleet.refusal.as_ref()?)))
            {
                println!("{}: {} refused ({words}).\n", contender.name, fleet.ledger.refused);
            }
        }
    }
    println!("After: {}.", load());
}
