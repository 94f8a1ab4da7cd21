//! Counts once: the same addition is sent twice, and again after a restart.

use std::error::Error;

use futures_executor::block_on;
use jeton_core::{Change, Column, Operation, TableSettings};
use jeton_engine::{Engine, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("jeton-count-{}", std::process::id()));
    let engine = Engine::open(&folder, Options::default())?;
    let table = engine.create_table("clicks", TableSettings::default())?;
    let cell = engine.cell(&table, b"home", &Column::unnamed())?;

    // A UUID of version 7 begins with the time, in milliseconds; a client draws the rest at random.
    let id = jeton_core::OpId::uuid7_from(engine.now().as_nanos() / 1_000_000, 42);
    println!("id {id}");
    let add = Operation::single(Some(id), cell.clone(), Change::Add(5))?;
    println!("first:          {:?}", block_on(engine.apply(add.clone()))?);
    println!("again:          {:?}", block_on(engine.apply(add.clone()))?);
    drop(engine);

    let engine = Engine::open(&folder, Options::default())?;
    println!("after restart:  {:?}", block_on(engine.apply(add))?);
    println!("the counter is: {:?}", block_on(engine.get(cell))?);
    drop(engine);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
