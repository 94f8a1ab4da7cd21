//! A member in its own process. It prints lines to its standard output:
//!
//! ```text
//! leader <member>                  the leader that it knows
//! written <log> <slot> <value>     the value of a register according to a response to a write
//! final <log> <slot> <value>       the value of a register at the end
//! done                             all final values were printed
//! ```

use std::io::{Read, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures_executor::block_on;
use jeton_register::{Batch, Error, LogId, Registers, Slot, WriteResult};
use jeton_register_raft::{Durability, Member, RaftRegisters, Secret, Settings, Timing};

/// The logs; each member has a writer for each.
pub const LOGS: u16 = 4;

/// Prints a line atomically: after a kill only the last one may be incomplete.
fn print_line(line: &str) {
    let mut out = stdout().lock();
    // A parent that no longer reads will kill this process.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// `arguments`: the number of the member, its directory, and the addresses of all members.
pub fn run(arguments: &[String]) {
    let [me, folder, addresses @ ..] = arguments else { panic!("a number, a folder and addresses") };
    let me: u64 = me.parse().unwrap();
    let members = (1..).zip(addresses).map(|(id, address)| Member { id, address: address.parse().unwrap() });
    let secret = Secret::new("the secret of the tests");
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
    let reporter = {
        let (member, finish) = (Arc::clone(&member), Arc::clone(&finish));
        thread::spawn(move || report_leader(&member, &finish))
    };
    // The parent closes the input to request the end, or has ended.
    let _ = stdin().read_to_end(&mut Vec::new());
    finish.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.join().unwrap();
    }
    reporter.join().unwrap();
    for log in 0..LOGS {
        report_values(&member, LogId::partition(log));
    }
    print_line("done");
    // The other members still need a majority: it runs until it is killed.
    thread::sleep(Duration::from_secs(600));
}

fn report_leader(member: &RaftRegisters, finish: &AtomicBool) {
    while !finish.load(Ordering::SeqCst) {
        if let Some(leader) = member.leader() {
            print_line(&format!("leader {leader}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Writes slot after slot, starting at the first empty one.
fn race(member: &RaftRegisters, log: u16, me: u64, finish: &AtomicBool) {
    let from = loop {
        match block_on(member.extent(LogId::partition(log))) {
            Ok(extent) => break extent.last.0 + 1,
            Err(_) if finish.load(Ordering::SeqCst) => return,
            Err(_) => {}
        }
    };
    for slot in from.. {
        // Every value is unique, so that its writer is known.
        let mine = format!("{me}-{}-{slot}", std::process::id());
        loop {
            if finish.load(Ordering::SeqCst) {
                return;
            }
            let mut batch = Batch::new();
            batch.push(LogId::partition(log), Slot(slot), mine.as_bytes());
            let permit = member.admit(1, mine.len()).unwrap();
            match block_on(member.write(batch, permit)).as_deref() {
                Ok([WriteResult::Fresh]) => print_line(&format!("written {log} {slot} {mine}")),
                Ok([WriteResult::Taken(value)]) => {
                    print_line(&format!("written {log} {slot} {}", String::from_utf8_lossy(value)));
                }
                Ok(other) => panic!("nothing is trimmed: {other:?}"),
                Err(Error::Busy(_) | Error::Unavailable(_) | Error::Unknown(_)) => continue,
                Err(error) => panic!("{error}"),
            }
            break;
        }
    }
}

fn report_values(member: &RaftRegisters, log: LogId) {
    let mut from = Slot(1);
    loop {
        match block_on(member.read(log, from, 1000)) {
            Ok(part) => {
                let Some((last, _)) = part.last() else { return };
                from = last.next();
                for (slot, value) in part {
                    print_line(&format!("final {} {slot} {}", log.id, String::from_utf8_lossy(&value)));
                }
            }
            Err(Error::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
