//! The command line: one seed with its whole history, or many seeds until one fails.

use std::ops::Range;
use std::process::ExitCode;

use clap::Parser;

use crate::mutation::{self, KnownMutation};
use crate::parallel_runner::{RunOptions, run_all};
use crate::run::{Outcome, RunSpec, STEPS, run};
use crate::shrink::{kept_text, read_kept, shrink};

/// Crashes, torn writes, full disks and leaping clocks against the code that the server runs, all from one number.
#[derive(Debug, Parser)]
#[command(name = "jeton-sim", version)]
pub struct Args {
    /// Run this seed.
    #[arg(long, conflicts_with_all = ["seeds", "count", "from"])]
    seed: Option<u64>,
    /// Run these seeds, the last one not: 0..1000.
    #[arg(long, value_parser = read_range, conflicts_with_all = ["count", "from"])]
    seeds: Option<Range<u64>>,
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Steps of a run.
    #[arg(long, default_value_t = STEPS)]
    steps: u64,
    /// With --seed: run these steps only, as a shortened history names them: 3,8-11.
    #[arg(long, requires = "seed")]
    keep: Option<String>,
    /// With --seed: tell everything that happened.
    #[arg(long, requires = "seed")]
    verbose: bool,
    /// Plant a bug; `list` shows them all.
    #[arg(long)]
    mutation: Option<String>,
    /// Judge by that alone which a client can see: counts, answers that do not come, a store that does not open.
    #[arg(long)]
    outside: bool,
    /// Do not shorten the history of a failure.
    #[arg(long)]
    no_shrink: bool,
    /// Threads; each runs seeds of its own.
    #[arg(long, default_value_t = RunOptions::default().threads)]
    threads: usize,
}

fn read_range(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("write it as 0..1000")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    Ok(number(first)?..number(end)?)
}

impl Args {
    /// Does what the arguments say.
    pub fn run(&self) -> ExitCode {
        let planted = match self.mutation.as_deref() {
            None => None,
            Some("list") => {
                for mutation in mutation::ALL {
                    println!(
                        "{:24}{}; noticed by {}",
                        mutation.name,
                        mutation.breaks,
                        mutation.noticed_by.join(", ")
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
            (Some(seed), None) => self.one(
                &RunSpec { seed, steps: self.steps, outside: self.outside, ..RunSpec::default() },
                planted,
            ),
            (Some(seed), Some(keep)) => match read_kept(keep) {
                Ok(keep) => {
                    let skip = (0..self.steps).filter(|step| !keep.contains(step)).collect();
                    self.one(&RunSpec { seed, steps: self.steps, skip, outside: self.outside }, planted)
                }
                Err(why) => wrong(&why),
            },
            (None, _) => self.many(planted),
        }
    }

    fn manner(&self, planted: Option<KnownMutation>) -> RunOptions {
        RunOptions { steps: self.steps, threads: self.threads, planted, outside: self.outside }
    }

    fn one(&self, script: &RunSpec, planted: Option<KnownMutation>) -> ExitCode {
        let _acting = planted.map(KnownMutation::plant);
        let outcome = run(script);
        if outcome.violation.is_some() && self.keep.is_none() && !self.verbose {
            return self.report(script, outcome);
        }
        if self.verbose {
            print_lines(&outcome);
        }
        println!("{}", outcome.log.stats);
        match &outcome.violation {
            Some(violation) => {
                println!("seed {}: {violation}", script.seed);
                ExitCode::FAILURE
            }
            None => {
                println!("seed {}: every promise was kept (history {:016x})", script.seed, outcome.log.hash);
                ExitCode::SUCCESS
            }
        }
    }

    fn many(&self, planted: Option<KnownMutation>) -> ExitCode {
        let seeds = self.seeds.clone().unwrap_or(self.from..self.from.saturating_add(self.count));
        let tally = run_all(seeds.clone(), self.manner(planted));
        match tally.failed {
            Some((seed, outcome)) => {
                let _acting = planted.map(KnownMutation::plant);
                self.report(
                    &RunSpec { seed, steps: self.steps, outside: self.outside, ..RunSpec::default() },
                    outcome,
                )
            }
            None => {
                println!("{}", tally.stats);
                println!("seeds {}..{}: every promise was kept", seeds.start, seeds.end);
                ExitCode::SUCCESS
            }
        }
    }

    /// Prints the shortest history that fails.
    fn report(&self, script: &RunSpec, outcome: Outcome) -> ExitCode {
        if let Some(violation) = &outcome.violation {
            println!("seed {}: {violation}", script.seed);
        }
        let mut plant = self.mutation.as_ref().map_or_else(String::new, |name| format!(" --mutation {name}"));
        if self.outside {
            plant.push_str(" --outside");
        }
        let again = format!("jeton-sim --seed {} --steps {}{plant}", script.seed, script.steps);
        if self.no_shrink {
            println!("again: {again} --verbose");
            return ExitCode::FAILURE;
        }
        let (shorter, outcome) = shrink(script, outcome);
        println!("the shortest history found:");
        print_lines(&outcome);
        if let Some(violation) = &outcome.violation {
            println!("{violation}");
        }
        println!("again, in full:  {again} --verbose");
        println!(
            "again, this one: jeton-sim --seed {} --steps {}{plant} --keep {} --verbose",
            script.seed,
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
