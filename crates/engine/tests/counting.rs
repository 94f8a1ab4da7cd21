//! The engine as a caller sees it: counted once, answered again, there after a restart.

mod common;

use common::{add, open, uuid};
use futures_executor::block_on;
use jeton_core::{Column, TableSettings, Value};
use jeton_engine::Reply;

#[test]
fn an_id_counts_once_and_is_answered_again() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("clicks", TableSettings::default()).unwrap();
    let cell = engine.cell(&table, b"home", &Column::unnamed()).unwrap();
    let id = uuid(&engine, 1);

    let first = block_on(engine.apply(add(&id, &cell, 5))).unwrap();
    let Reply::Fresh(answer) = first else { panic!("{first:?}") };
    assert_eq!(answer.values.as_slice(), [Some(5)]);
    block_on(engine.apply(add(&uuid(&engine, 2), &cell, 1))).unwrap();
    assert_eq!(block_on(engine.apply(add(&id, &cell, 5))), Ok(Reply::Replayed(answer.clone())));
    assert_eq!(block_on(engine.get(cell.clone())), Ok(Some(Value::Counter(6))));
    drop(engine);

    let engine = open(folder.path());
    assert_eq!(block_on(engine.get(cell.clone())), Ok(Some(Value::Counter(6))));
    assert_eq!(block_on(engine.apply(add(&id, &cell, 5))), Ok(Reply::Replayed(answer)));
}
