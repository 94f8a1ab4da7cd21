//! A member in a process of its own. It says on its standard output what it is told, a line each:
//!
//! ```text
//! leader <member>                  who leads
//! told <log> <slot> <value>        the value that a register has, by an answer to a write
//! there <log> <slot> <value>       the value that a register has, in the end
//! done                             all of them were said
//! ```

use std::io::{Read, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures_executor::block_on;
use jeton_register::{Batch, Error, LogId, Registers, Slot, WriteResult};
use jeton_register_raft::{Durability, Member, RaftRegisters, Secret, Settings, Timing};

/// The logs that writers race in, one of each member in each.
pub const LOGS: u16 = 4;

/// Whole lines, each at once: a kill leaves none of them half said, except the last.
fn say(line: &str) {
    let mut out = stdout().lock();
    // Who does not listen any more will kill us.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// `arguments`: the number of the member, its folder, and the addresses of all.
pub fn run(arguments: &[String]) {
    let [me, folder, addresses @ ..] = arguments else { panic!("a number, a folder and addresses") };
    let me: u64 = me.parse().unwrap();
    let members = (1..).zip(addresses).map(|(id, address)| Member { id, address: address.parse().unwrap() });
    let secret = Secret::new("a secret of the tests");
    let mut settings = Settings::new(me, members.collect(), secret, Durability::Disk(folder.into()));
    settings.timing = Timing {
        heartbeat: Duration::from_millis(100),
        election: Duration::from_millis(500),
        request: Duration::from_secs(8),
        connect: Duration::from_millis(500),
    };
    settings.segment_bytes = 1 << 20;
    settings.snapshot_entries = 300;
    let member = Arc::new(RaftRegisters::open(settings).unwrap());
    let finish = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..LOGS)
        .map(|log| {
            let (member, finish) = (Arc::clone(&member), Arc::clone(&finish));
            thread::spawn(move || race(&member, log, me, &finish))
        })
        .collect();
    let teller = {
        let (member, finish) = (Arc::clone(&member), Arc::clone(&finish));
        thread::spawn(move || tell_leader(&member, &finish))
    };
    // Whoever started us wants the end of it, or is gone.
    let _ = stdin().read_to_end(&mut Vec::new());
    finish.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.join().unwrap();
    }
    teller.join().unwrap();
    for log in 0..LOGS {
        tell_all(&member, LogId::partition(log));
    }
    say("done");
    // The others may still ask: until it is killed.
    thread::sleep(Duration::from_secs(600));
}

fn tell_leader(member: &RaftRegisters, finish: &AtomicBool) {
    while !finish.load(Ordering::SeqCst) {
        if let Some(leader) = member.leader() {
            say(&format!("leader {leader}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Writes slot after slot, from the first that is empty.
fn race(member: &RaftRegisters, log: u16, me: u64, finish: &AtomicBool) {
    let from = loop {
        match block_on(member.extent(LogId::partition(log))) {
            Ok(extent) => break extent.last.0 + 1,
            Err(_) if finish.load(Ordering::SeqCst) => return,
            Err(_) => {}
        }
    };
    for slot in from.. {
        // No two writes are the same, so that it is known whose there is.
        let mine = format!("{me}-{}-{slot}", std::process::id());
        loop {
            if finish.load(Ordering::SeqCst) {
                return;
            }
            let mut batch = Batch::new();
            batch.push(LogId::partition(log), Slot(slot), mine.as_bytes());
            let permit = member.admit(1, mine.len()).unwrap();
            match block_on(member.write(batch, permit)).as_deref() {
                Ok([WriteResult::Fresh]) => say(&format!("told {log} {slot} {mine}")),
                Ok([WriteResult::Taken(value)]) => {
                    say(&format!("told {log} {slot} {}", String::from_utf8_lossy(value)));
                }
                Ok(other) => panic!("nothing is trimmed: {other:?}"),
                Err(Error::Busy(_) | Error::Unavailable(_) | Error::Unknown(_)) => continue,
                Err(failure) => panic!("{failure}"),
            }
            break;
        }
    }
}

fn tell_all(member: &RaftRegisters, log: LogId) {
    let mut from = Slot(1);
    loop {
        match block_on(member.read(log, from, 1000)) {
            Ok(part) => {
                let Some((last, _)) = part.last() else { return };
                from = last.next();
                for (slot, value) in part {
                    say(&format!("there {} {slot} {}", log.id, String::from_utf8_lossy(&value)));
                }
            }
            Err(Error::Unavailable(_)) => {}
            Err(failure) => panic!("{failure}"),
        }
    }
}
