//! Starts the members, kills who leads, and compares what all of them said.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use jeton_testbed::{Signal, bound_command, free_address};

/// How many answers are awaited between two kills.
const ANSWERS: usize = 200;
/// How long everything that is awaited may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// The value of a register, by its log and slot.
type Values = BTreeMap<(u64, u64), String>;

struct Cluster {
    folder: tempfile::TempDir,
    addresses: Vec<String>,
    members: BTreeMap<u64, Child>,
    lines: Receiver<(u64, String)>,
    said: Sender<(u64, String)>,
    told: Values,
    there: BTreeMap<u64, Values>,
    leader: Option<u64>,
}

pub fn run(rounds: usize) {
    let (said, lines) = channel();
    let mut cluster = Cluster {
        folder: tempfile::tempdir().unwrap(),
        addresses: (0..3).map(|_| free_address().unwrap().to_string()).collect(),
        members: BTreeMap::new(),
        lines,
        said,
        told: Values::new(),
        there: BTreeMap::new(),
        leader: None,
    };
    for id in 1..=3 {
        cluster.start(id);
    }
    for round in 0..rounds {
        let enough = cluster.told.len() + ANSWERS;
        cluster.listen_until(|cluster| cluster.told.len() >= enough && cluster.leader.is_some());
        let victim = cluster.leader.take().unwrap();
        let registers = cluster.told.len();
        if round % 4 == 3 {
            // Nobody is left who could remember what is not on a disk.
            println!("round {round}: {registers} registers, all are killed");
            (1..=3).for_each(|id| cluster.kill(id));
            (1..=3).for_each(|id| cluster.start(id));
            continue;
        }
        println!("round {round}: {registers} registers, member {victim} leads and is killed");
        cluster.kill(victim);
        // The next leader is one that was elected without it.
        let more = cluster.told.len() + ANSWERS / 2;
        cluster.listen_until(|cluster| cluster.told.len() >= more);
        cluster.start(victim);
    }
    // All of them end what they are at, and say what is there.
    for member in cluster.members.values_mut() {
        drop(member.stdin.take());
    }
    cluster.listen_until(|cluster| cluster.members.len() == 3 && cluster.done() == 3);
    assert!(cluster.told.len() >= rounds * ANSWERS);
    for (id, there) in &cluster.there {
        for (register, value) in &cluster.told {
            assert_eq!(there.get(register), Some(value), "{register:?} at member {id}");
        }
    }
    println!("{} registers have one value each, at {} members", cluster.told.len(), cluster.there.len());
    for member in cluster.members.values_mut() {
        member.kill().unwrap();
        member.wait().unwrap();
    }
}

impl Cluster {
    fn start(&mut self, id: u64) {
        // It does not outlive this process.
        let mut child = bound_command(&std::env::current_exe().unwrap(), None, Signal::KILL)
            .args(["child", &id.to_string()])
            .arg(self.folder.path().join(id.to_string()))
            .args(&self.addresses)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let said = self.said.clone();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if said.send((id, line)).is_err() {
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
        // What was said of a leader before that is of no use.
        while let Ok((from, line)) = self.lines.try_recv() {
            self.hear(from, &line);
        }
        self.leader = None;
    }

    fn listen_until(&mut self, met: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !met(self) {
            let left = PATIENCE.checked_sub(begin.elapsed()).expect("the members come to it in time");
            let (from, line) = self.lines.recv_timeout(left).expect("the members come to it in time");
            self.hear(from, &line);
        }
    }

    fn hear(&mut self, from: u64, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let register = |log: &str, slot: &str| (log.parse().unwrap(), slot.parse().unwrap());
        match words[..] {
            ["leader", leader] => {
                // Only what it says of itself: others may be late to know.
                if leader == from.to_string() && self.members.contains_key(&from) {
                    self.leader = Some(from);
                }
            }
            ["told", log, slot, value] => {
                let known = self.told.entry(register(log, slot)).or_insert_with(|| value.into());
                assert_eq!(known, value, "two answers about {log} {slot}");
            }
            ["there", log, slot, value] => {
                self.there.entry(from).or_default().insert(register(log, slot), value.into());
            }
            ["done"] => {
                self.there.entry(from).or_default().insert((u64::MAX, 0), "done".into());
            }
            // The last line of one that was killed.
            _ => assert!(!self.members.contains_key(&from), "member {from} said {line:?}"),
        }
    }

    fn done(&self) -> usize {
        self.there.values().filter(|there| there.contains_key(&(u64::MAX, 0))).count()
    }
}
