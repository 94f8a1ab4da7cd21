//! Starts the members, kills the leader, and compares what all members report.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use jeton_testbed::{Signal, bound_command, free_address};

/// How many responses are awaited between two kills.
const RESPONSES: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(90);

/// The value of a register, by its log and slot.
type Values = BTreeMap<(u64, u64), String>;

struct Cluster {
    folder: tempfile::TempDir,
    addresses: Vec<String>,
    members: BTreeMap<u64, Child>,
    lines: Receiver<(u64, String)>,
    sender: Sender<(u64, String)>,
    written: Values,
    finals: BTreeMap<u64, Values>,
    leader: Option<u64>,
}

pub fn run(rounds: usize) {
    let (sender, lines) = channel();
    let mut cluster = Cluster {
        folder: tempfile::tempdir().unwrap(),
        addresses: (0..3).map(|_| free_address().unwrap().to_string()).collect(),
        members: BTreeMap::new(),
        lines,
        sender,
        written: Values::new(),
        finals: BTreeMap::new(),
        leader: None,
    };
    for id in 1..=3 {
        cluster.start(id);
    }
    for round in 0..rounds {
        let enough = cluster.written.len() + RESPONSES;
        cluster.read_until(|cluster| cluster.written.len() >= enough && cluster.leader.is_some());
        let victim = cluster.leader.take().unwrap();
        let registers = cluster.written.len();
        if round % 4 == 3 {
            // Afterwards only the disks have the registers.
            println!("round {round}: {registers} registers, all members are killed");
            (1..=3).for_each(|id| cluster.kill(id));
            (1..=3).for_each(|id| cluster.start(id));
            continue;
        }
        println!("round {round}: {registers} registers, member {victim} leads and is killed");
        cluster.kill(victim);
        // The next leader is elected without it.
        let more = cluster.written.len() + RESPONSES / 2;
        cluster.read_until(|cluster| cluster.written.len() >= more);
        cluster.start(victim);
    }
    // The members end their writers and report the final values.
    for member in cluster.members.values_mut() {
        drop(member.stdin.take());
    }
    cluster.read_until(|cluster| cluster.members.len() == 3 && cluster.done() == 3);
    assert!(cluster.written.len() >= rounds * RESPONSES);
    for (id, finals) in &cluster.finals {
        for (register, value) in &cluster.written {
            assert_eq!(finals.get(register), Some(value), "{register:?} at member {id}");
        }
    }
    println!("{} registers have one value each, at {} members", cluster.written.len(), cluster.finals.len());
    for member in cluster.members.values_mut() {
        member.kill().unwrap();
        member.wait().unwrap();
    }
}

impl Cluster {
    fn start(&mut self, id: u64) {
        // It ends with this process.
        let mut child = bound_command(&std::env::current_exe().unwrap(), None, Signal::KILL)
            .args(["child", &id.to_string()])
            .arg(self.folder.path().join(id.to_string()))
            .args(&self.addresses)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send((id, line)).is_err() {
                    return;
                }
            }
        });
        self.members.insert(id, child);
    }

    fn kill(&mut self, id: u64) {
        let mut child = self.members.remove(&id).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // Reports of a leader before the kill are outdated.
        while let Ok((from, line)) = self.lines.try_recv() {
            self.apply(from, &line);
        }
        self.leader = None;
    }

    fn read_until(&mut self, met: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !met(self) {
            let left = TIMEOUT.checked_sub(begin.elapsed()).expect("not reached in time");
            let (from, line) = self.lines.recv_timeout(left).expect("not reached in time");
            self.apply(from, &line);
        }
    }

    fn apply(&mut self, from: u64, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let register = |log: &str, slot: &str| (log.parse().unwrap(), slot.parse().unwrap());
        match words[..] {
            ["leader", leader] => {
                // Only a report of itself: the other members may not know it yet.
                if leader == from.to_string() && self.members.contains_key(&from) {
                    self.leader = Some(from);
                }
            }
            ["written", log, slot, value] => {
                let known = self.written.entry(register(log, slot)).or_insert_with(|| value.into());
                assert_eq!(known, value, "two values of {log} {slot}");
            }
            ["final", log, slot, value] => {
                self.finals.entry(from).or_default().insert(register(log, slot), value.into());
            }
            ["done"] => {
                self.finals.entry(from).or_default().insert((u64::MAX, 0), "done".into());
            }
            // The last line of a killed process may be incomplete.
            _ => assert!(!self.members.contains_key(&from), "member {from} printed {line:?}"),
        }
    }

    fn done(&self) -> usize {
        self.finals.values().filter(|finals| finals.contains_key(&(u64::MAX, 0))).count()
    }
}
