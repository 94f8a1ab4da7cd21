//! Runs the figures named on the command line, or all: `cargo run --release --example figures -- DIR [NAME...]`.

use anyhow::{Context, Result};
use jeton_lab::{Figure, Progress, Setting};

struct Lines;

impl Progress for Lines {
    fn start(&mut self, number: usize, total: usize, figure: &Figure) {
        eprintln!("{number}/{total} {}", figure.title);
    }
    fn advance(&mut self, share: f64) {
        eprint!("\r{:3.0} %", 100.0 * share);
    }
    fn finish(&mut self, _: &Figure) {
        eprintln!();
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let setting = Setting::new(arguments.next().context("usage: figures DIR [NAME...]")?);
    let names: Vec<String> = arguments.collect();
    let reports = if names.is_empty() {
        jeton_lab::run_all(&setting, &mut Lines)?
    } else {
        names.iter().map(|name| jeton_lab::run(name, &setting, &mut Lines)).collect::<Result<_>>()?
    };
    for report in reports {
        println!("{}", report.summary());
    }
    Ok(())
}
