//! Nodes over PostgreSQL.

use std::sync::Arc;

use futures_executor::block_on;
use jeton_register_postgres::{Options, PostgresRegisters, create_schema};
use jeton_testbed::Postgres;

use crate::cluster::Cluster;
use crate::requests::owners_are_replaced;

#[test]
fn no_count_is_lost_if_owners_stop_over_postgres() {
    let folder = jeton_testbed::folder().unwrap();
    let postgres = Postgres::start(folder.path(), &[]).unwrap();
    let url = postgres.url();
    block_on(create_schema(&url)).unwrap();
    let open = move |_| Arc::new(block_on(PostgresRegisters::open(&url, Options::default())).unwrap());
    owners_are_replaced(Cluster::start(3, open).with_table());
}
