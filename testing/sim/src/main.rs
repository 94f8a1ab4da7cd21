//! The simulator's command line.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    jeton_sim::cli::Args::parse().run()
}
