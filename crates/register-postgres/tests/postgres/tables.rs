//! The rows that remain in the tables, and how they are found.

use futures_executor::block_on;
use jeton_register::{Extent, LogId, LogKind, Registers, Slot};

use super::support::{Server, write};

#[test]
fn retired_logs_leave_one_mark() {
    let server = Server::new();
    let engine = server.open();
    for first in (0..25_000).step_by(2500) {
        let sessions: Vec<_> =
            (first..first + 2500).map(|id| (LogId::transaction(id), 1, b"value".as_slice())).collect();
        block_on(write(&engine, &sessions)).unwrap();
    }
    for id in 0..50 {
        block_on(engine.trim(LogId::transaction(id), Slot(1))).unwrap();
    }
    block_on(write(&engine, &[(LogId::partition(1), 1, b"kept")])).unwrap();
    block_on(engine.trim(LogId::partition(2), Slot(1))).unwrap();
    block_on(engine.retire(LogKind::Transaction, 24_999)).unwrap();
    let client = server.client();
    assert_eq!(client.count("SELECT count(*) FROM jeton_register"), 2);
    assert_eq!(client.count("SELECT count(*) FROM jeton_trim"), 1);
    assert_eq!(client.count("SELECT count(*) FROM jeton_retired"), 1);
    assert_eq!(block_on(engine.extent(LogId::transaction(24_998))), Ok(Extent::RETIRED));
    let last = Extent { trimmed: Slot::ZERO, last: Slot(1) };
    assert_eq!(block_on(engine.extent(LogId::transaction(24_999))), Ok(last));
}

#[test]
fn registers_are_found_by_index() {
    let server = Server::new();
    let client = server.client();
    client.execute(
        "INSERT INTO jeton_register SELECT 2, lpad(to_hex(n), 32, '0')::uuid, 1, 'x' FROM generate_series(1, 100000) n;
        INSERT INTO jeton_register SELECT 4, lpad('7', 32, '0')::uuid, n, 'x' FROM generate_series(1, 100000) n;
        INSERT INTO jeton_object SELECT 'o-' || lpad(to_hex(n), 8, '0'), 'x' FROM generate_series(1, 100000) n;
        INSERT INTO jeton_trim SELECT 2, lpad(to_hex(n), 32, '0')::uuid, 1, 1 FROM generate_series(1, 100000, 2) n;
        ANALYZE",
    );
    let scans = "SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname IN ('jeton_register', 'jeton_trim', 'jeton_object')";
    let engine = server.open();
    // A session reports its statistics when it ends.
    drop(server.open());
    let before = client.count(scans);
    for id in 50_000..50_200 {
        let log = LogId::transaction(id);
        block_on(write(&engine, &[(log, 1, b"other"), (log, 65, b"new")])).unwrap();
        block_on(engine.read(log, Slot(2), 10)).unwrap();
        block_on(engine.extent(log)).unwrap();
        block_on(engine.trim(log, Slot(2))).unwrap();
    }
    block_on(engine.retire(LogKind::Transaction, 60_000)).unwrap();
    for slot in 100_001..100_100 {
        block_on(write(&engine, &[(LogId::stripe(7), slot, b"new"), (LogId::stripe(7), slot + 2, b"gap")]))
            .unwrap();
    }
    block_on(engine.get_object("o-00000007")).unwrap();
    assert_eq!(block_on(engine.list_objects("o-0000", "o-00000100", 10)).unwrap().len(), 10);
    block_on(engine.delete_objects(vec!["o-00000007".into()])).unwrap();
    drop(engine);
    client.await_count("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jeton'", 0);
    assert_eq!(client.count(scans), before, "a table was scanned");
    assert_eq!(client.count("SELECT count(*) FROM jeton_trim"), 20_000);
}
