//! Kills around the deletion of a table, the removal of its rows, and its creation under the same name. The
//! ids of deleted tables are sent again to the later ones, where none may count.

use jeton_testkit::Rng;

use crate::driver::{Victim, millis, uuid};

/// More rows than a step of the removal removes.
const ROWS: usize = 6_000;

/// Ids of deleted tables that are sent again after a restart.
const LATE: usize = 500;

/// What the client knows about the table before a restart.
#[derive(PartialEq)]
enum State {
    Present,
    Absent,
    /// The deletion got no response.
    Unknown,
}

/// Sends an id for each row. `take` gets the number of the row and the kind of the response.
fn send(victim: &mut Victim, ids: &[String], mut take: impl FnMut(usize, &str)) {
    let mut open: Vec<usize> = (0..ids.len()).collect();
    while !open.is_empty() {
        let mut busy = Vec::new();
        let requests = open.iter().map(|row| format!("add {row} row-{row} 1 {}", ids[*row]));
        victim.exchange(requests, |line| {
            let mut words = line.split(' ');
            let row = words.next().expect("a number").parse().expect("a number");
            match words.next().expect("a kind") {
                "busy" => busy.push(row),
                kind => take(row, kind),
            }
        });
        open = busy;
    }
}

fn compare(victim: &mut Victim, expected: &[i64]) {
    let gets = (0..ROWS).map(|row| format!("get {row} row-{row}"));
    victim.exchange(gets, |line| {
        let row: usize = line.split(' ').next().expect("a number").parse().expect("a number");
        assert_eq!(line, format!("{row} value {}", expected.get(row).copied().unwrap_or_default()));
    });
}

pub fn run(rounds: u64, seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::new(seed ^ 2);
    let (mut ids, mut late) = (Vec::<String>::new(), Vec::<String>::new());
    let (mut state, mut deleted) = (State::Absent, 0);
    for _ in 0..rounds {
        let mut victim = Victim::start(folder.path(), 1 + rng.below(3), "deleted");
        let found = victim.ask("find") == "done";
        assert!(state == State::Unknown || found == (state == State::Present), "found: {found}");
        if found {
            send(&mut victim, &ids, |row, kind| assert_eq!(kind, "replayed", "row {row}"));
            compare(&mut victim, &vec![1; ids.len()]);
        } else {
            deleted += u64::from(!ids.is_empty());
            late.append(&mut ids);
            while victim.ask("create") != "done" {}
            let some: Vec<String> =
                (0..LATE.min(late.len())).map(|_| late[rng.index(late.len())].clone()).collect();
            send(&mut victim, &some, |row, kind| assert_eq!(kind, "refused", "{}", some[row]));
            compare(&mut victim, &[]);
            let epoch = millis();
            let sequenced = |row: usize| format!("sequenced:client-{}/{epoch}/{}", row % 50, row + 1);
            let rows = 0..rng.index(ROWS);
            ids = rows.map(|row| if row % 10 == 0 { sequenced(row) } else { uuid(&mut rng) }).collect();
            send(&mut victim, &ids, |row, kind| assert_eq!(kind, "fresh", "row {row}"));
        }
        state = State::Present;
        if rng.below(4) > 0 {
            victim.send("delete");
            state = State::Unknown;
            if rng.below(3) > 0 {
                assert_eq!(victim.receive(), "done");
                state = State::Absent;
                // The removal of the rows runs meanwhile.
                (0..rng.below(4_000)).for_each(|_| drop(victim.ask("find")));
            }
        }
        if victim.kill().iter().any(|line| line == "done") {
            state = State::Absent;
        }
    }
    println!("deletion: {deleted} tables, {} late ids, {rounds} kills, none counted twice", late.len());
}
