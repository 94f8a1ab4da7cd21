//! The process that is killed: reads requests from stdin, one a line, and prints the responses.
//!
//! `add <number> <table> <row> <delta> <id>` is answered `<number> fresh|replayed <applied> <value> <slot>`
//! or
//! `<number> refused <why>`; `get <number> <table> <row>` is answered `<number> value <value>`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use futures_executor::block_on;
use jeton_core::{Change, Column, Format, Formats, Operation, TableSettings, Value};
use jeton_engine::{Engine, EngineError, OperationOutcome, Options};

/// Small enough that segments are reused, ids go to the index, filters are stored and runs are merged within
/// a second.
fn options(shards: usize) -> Options {
    Options {
        shards,
        segment_bytes: 1 << 20,
        log_bytes: 1 << 18,
        recent_ids: 512,
        dirty_bytes_max: 1 << 20,
        cache_bytes: 1 << 20,
        ..Options::default()
    }
}

fn formats() -> Formats {
    Formats::only(Format::Uuid7).and(Format::Opaque).and(Format::Sequenced)
}

pub fn serve(folder: &Path, shards: usize) {
    let engine = Arc::new(Engine::open(folder, options(shards)).expect("it opens after a crash"));
    let table = engine
        .table("t")
        .or_else(|_| {
            engine.create_table("t", TableSettings { formats: formats(), ..TableSettings::default() })
        })
        .expect("a table");
    println!("ready {}", engine.stats().replayed_entries);
    // Another thread awaits the responses, so that many requests are in flight.
    type Answer = std::pin::Pin<Box<dyn Future<Output = String> + Send>>;
    let (answers, awaited) = mpsc::channel::<Answer>();
    let printer = std::thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        for answer in awaited {
            let line = block_on(answer);
            if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    });
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("the parent writes lines");
        let words: Vec<&str> = line.split(' ').collect();
        let cell = |row: &str| engine.cell(&table, row.as_bytes(), &Column::unnamed()).expect("a cell");
        let answer: Answer = match words[..] {
            ["add", number, row, delta, id] => {
                let id = formats().parse(id).expect("an id");
                let change = Change::Add(delta.parse().expect("a number"));
                let operation = Operation::single(Some(id), cell(row), change).expect("an operation");
                let (answer, number) = (engine.apply(operation), number.to_owned());
                Box::pin(async move { told(&number, answer.await) })
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
            _ => panic!("not a request: {line}"),
        };
        if answers.send(answer).is_err() {
            break;
        }
    }
    drop(answers);
    printer.join().expect("the printer ends");
}

fn told(number: &str, reply: Result<OperationOutcome, EngineError>) -> String {
    let (kind, answer) = match reply {
        Ok(OperationOutcome::Fresh(answer)) => ("fresh", answer),
        Ok(OperationOutcome::Replayed(answer)) => ("replayed", answer),
        Ok(OperationOutcome::ProbablySeen) => panic!("an exact table does not guess"),
        Err(EngineError::Busy(_)) => return format!("{number} busy"),
        Err(refusal) => return format!("{number} refused {refusal}"),
    };
    let value = answer.values.as_slice()[0].expect("a counter");
    format!("{number} {kind} {} {value} {}", answer.applied, answer.slot)
}
