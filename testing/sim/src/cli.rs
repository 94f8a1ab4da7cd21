//! The command line: one seed with its whole history, or many seeds until one fails.

use std::ops::Range;
use std::process::ExitCode;

use clap::Parser;

use crate::mutation::{self, KnownMutation};
use crate::parallel_runner::{RunOptions, run_all};
use crate::run::{Outcome, RunSpec, STEPS, run};
use crate::shrink::{kept_text, read_kept, shrink};

/// Crashes, torn writes, full disks and clock steps against the code that the server runs, all from one seed.
#[derive(Debug, Parser)]
#[command(name = "jeton-sim", version)]
pub struct Args {
    /// Run this seed.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run these seeds, the end excluded: 0..1000.
    #[arg(long, value_parser = read_range, default_value = "0..1000")]
    seeds: Range<u64>,
    /// Steps of a run.
    #[arg(long, default_value_t = STEPS)]
    steps: u64,
    /// With --seed: run these steps only, in the form that a shortened history prints: 3,8-11.
    #[arg(long, requires = "seed")]
    keep: Option<String>,
    /// With --seed: print every event.
    #[arg(long, requires = "seed")]
    verbose: bool,
    /// Activate a mutation; `list` prints all.
    #[arg(long)]
    mutation: Option<String>,
    /// Check only what a client can observe: counts, missing responses, a store that does not open.
    #[arg(long)]
    outside: bool,
    /// Do not shorten the history of a failure.
    #[arg(long)]
    no_shrink: bool,
    /// Number of threads.
    #[arg(long, default_value_t = RunOptions::default().threads)]
    threads: usize,
}

fn read_range(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("write it as 0..1000")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    Ok(number(first)?..number(end)?)
}

impl Args {
    pub fn run(&self) -> ExitCode {
        let planted = match self.mutation.as_deref() {
            None => None,
            Some("list") => {
                for mutation in mutation::ALL {
                    println!(
                        "{:24}{}; detected by {}",
                        mutation.name,
                        mutation.breaks,
                        mutation.detected_by.join(", ")
                    );
                }
                return ExitCode::SUCCESS;
            }
            Some(name) => match mutation::find(name) {
                Ok(planted) => Some(planted),
                Err(why) => return wrong(&why),
            },
        };
        match (self.seed, &self.keep) {
            (Some(seed), None) => self.one(&self.spec(seed), planted),
            (Some(seed), Some(keep)) => match read_kept(keep) {
                Ok(keep) => {
                    let skip = (0..self.steps).filter(|step| !keep.contains(step)).collect();
                    self.one(&RunSpec { skip, ..self.spec(seed) }, planted)
                }
                Err(why) => wrong(&why),
            },
            (None, _) => self.many(planted),
        }
    }

    fn spec(&self, seed: u64) -> RunSpec {
        RunSpec { seed, steps: self.steps, outside: self.outside, ..RunSpec::default() }
    }

    fn one(&self, spec: &RunSpec, planted: Option<KnownMutation>) -> ExitCode {
        let _active = planted.map(KnownMutation::plant);
        let outcome = run(spec);
        if outcome.violation.is_some() && self.keep.is_none() && !self.verbose {
            return self.report(spec, outcome);
        }
        if self.verbose {
            print_lines(&outcome);
        }
        println!("{}", outcome.log.stats);
        match &outcome.violation {
            Some(violation) => {
                println!("seed {}: {violation}", spec.seed);
                ExitCode::FAILURE
            }
            None => {
                println!("seed {}: no violation (history {:016x})", spec.seed, outcome.log.hash);
                ExitCode::SUCCESS
            }
        }
    }

    fn many(&self, planted: Option<KnownMutation>) -> ExitCode {
        let seeds = self.seeds.clone();
        let (steps, threads, outside) = (self.steps, self.threads, self.outside);
        let tally = run_all(seeds.clone(), RunOptions { steps, threads, planted, outside });
        if let Some((seed, outcome)) = tally.failed {
            let _active = planted.map(KnownMutation::plant);
            return self.report(&self.spec(seed), outcome);
        }
        println!("{}", tally.stats);
        println!("seeds {}..{}: no violation", seeds.start, seeds.end);
        ExitCode::SUCCESS
    }

    /// Prints the shortest history that fails.
    fn report(&self, spec: &RunSpec, outcome: Outcome) -> ExitCode {
        if let Some(violation) = &outcome.violation {
            println!("seed {}: {violation}", spec.seed);
        }
        let mut plant = self.mutation.as_ref().map_or_else(String::new, |name| format!(" --mutation {name}"));
        if self.outside {
            plant.push_str(" --outside");
        }
        let again = format!("jeton-sim --seed {} --steps {}{plant}", spec.seed, spec.steps);
        if self.no_shrink {
            println!("repeat: {again} --verbose");
            return ExitCode::FAILURE;
        }
        let (shorter, outcome) = shrink(spec, outcome);
        println!("the shortest history found:");
        print_lines(&outcome);
        if let Some(violation) = &outcome.violation {
            println!("{violation}");
        }
        println!("repeat in full:  {again} --verbose");
        println!(
            "repeat this one: jeton-sim --seed {} --steps {}{plant} --keep {} --verbose",
            spec.seed,
            shorter.steps,
            kept_text(&shorter)
        );
        ExitCode::FAILURE
    }
}

fn wrong(why: &str) -> ExitCode {
    eprintln!("jeton-sim: {why}");
    ExitCode::from(2)
}

fn print_lines(outcome: &Outcome) {
    for (step, line) in &outcome.log.lines {
        match *step {
            u64::MAX => println!(" end  {line}"),
            step => println!("{step:4}  {line}"),
        }
    }
}
