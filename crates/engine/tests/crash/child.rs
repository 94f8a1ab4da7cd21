//! The process that is killed: reads requests from stdin, one a line, and prints the responses.
//!
//! The response to `add <number> <row> <delta> <id>` is
//! `<number> fresh|replayed <applied> <value> <slot> <milliseconds>`, `<number> busy`,
//! `<number> probably-seen` or `<number> refused <why>`; to `get <number> <row>` it is
//! `<number> value <value>`; to `known <number> <row> <id>` it is `<number> known|lost`; to `create`, `delete`
//! and `find`, which concern the table, it is `done` or `no`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use std::time::Duration;

use futures_executor::block_on;
use jeton_core::{
    Change, Column, Durability, Format, Formats, IdStatus, Mode, Operation, TableSettings, Value,
};
use jeton_engine::{Engine, EngineError, OperationOutcome, TableError};

use crate::common::tiny;

fn formats() -> Formats {
    Formats::only(Format::Uuid7).and(Format::Opaque).and(Format::Sequenced)
}

/// The share of new ids that the probabilistic table may drop.
pub const TARGET: f64 = 0.01;

/// The settings of a table in a scenario of `main.rs`.
fn settings(scenario: &str) -> TableSettings {
    let exact = TableSettings { formats: formats(), ..TableSettings::default() };
    match scenario {
        "exact" => exact,
        "relaxed" => TableSettings { durability: Durability::Relaxed, ..exact },
        "probabilistic" => TableSettings { mode: Mode::Probabilistic { target: TARGET }, ..exact },
        // The name is reserved briefly.
        "deleted" => {
            let brief = Duration::from_millis(20);
            TableSettings { opaque_window: brief, skew: brief, ..exact }
        }
        other => panic!("the scenario {other} is unknown"),
    }
}

pub fn serve(folder: &Path, shards: usize, scenario: &str) {
    // With these limits a second suffices to reuse segments, store filters and ids, and merge runs.
    let engine = Arc::new(Engine::open(folder, tiny(shards)).expect("it opens after a crash"));
    if scenario != "deleted" && engine.table("t").is_err() {
        engine.create_table("t", settings(scenario)).expect("a table");
    }
    println!("ready {}", engine.stats().replayed_entries);
    // Another thread awaits the responses, so that many requests are in flight.
    type Line = std::pin::Pin<Box<dyn Future<Output = String> + Send>>;
    let (lines, awaited) = mpsc::channel::<Line>();
    let printer = std::thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        for line in awaited {
            let line = block_on(line);
            if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    });
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("the parent writes lines");
        let words: Vec<&str> = line.split(' ').collect();
        let cell = |row: &str| {
            let table = engine.table("t").expect("the parent created it");
            engine.cell(&table, row.as_bytes(), &Column::unnamed()).expect("a cell")
        };
        let response: Line = match words[..] {
            ["add", number, row, delta, id] => {
                let id = formats().parse(id).expect("an id");
                let change = Change::Add(delta.parse().expect("a number"));
                let operation = Operation::single(Some(id), cell(row), change).expect("an operation");
                let (outcome, number) = (engine.apply(operation), number.to_owned());
                Box::pin(async move { response_line(&number, outcome.await) })
            }
            ["known", number, row, id] => {
                let id = formats().parse(id).expect("an id");
                let (engine, cell, number) = (engine.clone(), cell(row), number.to_owned());
                Box::pin(async move {
                    match engine.operation(cell, id).await {
                        Ok(IdStatus::Yes(_)) => format!("{number} known"),
                        Ok(IdStatus::No) => format!("{number} lost"),
                        other => panic!("{other:?}"),
                    }
                })
            }
            ["get", number, row] => {
                let (value, number) = (engine.get(cell(row)), number.to_owned());
                Box::pin(async move {
                    match value.await {
                        Ok(Some(Value::Counter(value))) => format!("{number} value {value}"),
                        Ok(None) => format!("{number} value 0"),
                        other => panic!("{other:?}"),
                    }
                })
            }
            ["find"] => said(engine.table("t").is_ok()),
            ["create"] => said(match engine.create_table("t", settings(scenario)) {
                Ok(_) => true,
                Err(TableError::NameReserved { .. }) => false,
                Err(error) => panic!("{error}"),
            }),
            ["delete"] => said(engine.delete_table("t").is_ok()),
            _ => panic!("not a request: {line}"),
        };
        if lines.send(response).is_err() {
            break;
        }
    }
    drop(lines);
    printer.join().expect("the printer ends");
}

fn said(done: bool) -> std::pin::Pin<Box<dyn Future<Output = String> + Send>> {
    Box::pin(std::future::ready(if done { "done" } else { "no" }.to_owned()))
}

fn response_line(number: &str, outcome: Result<OperationOutcome, EngineError>) -> String {
    let (kind, result) = match outcome {
        Ok(OperationOutcome::Fresh(result)) => ("fresh", result),
        Ok(OperationOutcome::Replayed(result)) => ("replayed", result),
        Ok(OperationOutcome::ProbablySeen) => return format!("{number} probably-seen"),
        Err(EngineError::Busy(_)) => return format!("{number} busy"),
        Err(refusal) => return format!("{number} refused {refusal}"),
    };
    let value = result.values.as_slice()[0].expect("a counter");
    format!("{number} {kind} {} {value} {} {}", result.applied, result.slot, result.millis)
}
