//! The `jeton` binary: parses the command line, runs the command, reports errors.
//!
//! Every error of the user or the machine ends in a message that says what failed, why, and what to do. The
//! exit code is 0 on success, 1 on failure, 2 on a wrong command line.

mod add;
mod backup;
mod bench;
mod cli_error;
mod cluster;
mod completions;
mod config;
#[cfg(test)]
mod corpus;
mod date;
mod dev_cluster;
mod doctor;
mod get;
mod id;
mod import;
mod init;
mod migrate;
mod number_format;
mod open_file_limit;
mod output;
mod serve;
mod server_client;
mod table;
mod token;
mod top;
mod tx;
mod version;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Counting that is safe to retry.
///
/// Jeton counts each id once, however often it arrives. Start a server with `jeton serve`, then add to a
/// counter with `jeton add home 1`.
#[derive(Parser)]
#[command(name = "jeton", version = version::long(), max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Init(init::Init),
    Migrate(migrate::Migrate),
    Add(add::Add),
    Get(get::Get),
    Watch(watch::Watch),
    Id(id::Id),
    Table(table::TableCommand),
    Tx(tx::TxCommand),
    Import(import::Import),
    Top(top::Top),
    Cluster(cluster::Cluster),
    DevCluster(dev_cluster::DevCluster),
    Bench(bench::Bench),
    Token(token::TokenCommand),
    Config(config::ConfigCommand),
    Doctor(doctor::Doctor),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Completions(completions::Completions),
}

fn main() -> ExitCode {
    // Files of libraries, such as those of the value store, are for their owner only, as all others.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let result = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Init(init) => init.run(),
        Command::Migrate(migrate) => migrate.run(),
        Command::Add(add) => add.run(),
        Command::Get(get) => get.run(),
        Command::Watch(watch) => watch.run(),
        Command::Id(id) => id.run(),
        Command::Table(table) => table.run(),
        Command::Tx(tx) => tx.run(),
        Command::Import(import) => import.run(),
        Command::Top(top) => top.run(),
        Command::Cluster(cluster) => cluster.run(),
        Command::DevCluster(dev_cluster) => dev_cluster.run(),
        Command::Bench(bench) => bench.run(),
        Command::Token(token) => token.run(),
        Command::Config(config) => config.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Completions(completions) => completions.run(Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe (`jeton id 1000 | head -1`).
        Err(error) if output::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cli_error::report(&error);
            ExitCode::FAILURE
        }
    }
}
