//! Executions: the events of a distributed system in order.
//!
//! At each turn a process receives one of its pending messages; channels are not FIFO. If there is none, it
//! has an internal event or sends a message.
//!
//! Invariants: a message is received once, by its receiver, after it was sent. At most [`PER_PROCESS`]
//! messages per process are in flight, so a replay needs bounded memory.

use std::collections::VecDeque;

use super::topology::Topology;
use jeton_testkit::Rng;

/// Maximum of messages in flight, per process. A process that would exceed it skips its turn.
const PER_PROCESS: usize = 8;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// An internal event.
    Internal,
    /// A message is sent into this slot of messages in flight.
    Send(u32),
    /// The message of this slot is received, and the slot becomes free.
    Receive(u32),
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) process: u32,
    /// Its number within the process, from 1.
    pub(crate) number: u32,
    pub(crate) what: EventKind,
}

/// The events of all processes in order.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) processes: usize,
    pub(crate) events: Vec<Event>,
    /// Maximum of messages in flight at once.
    pub(crate) slots: usize,
}

/// Parameters of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) processes: usize,
    pub(crate) topology: Topology,
    /// Percentage of turns without a pending message that are internal events.
    pub(crate) internal: u32,
    pub(crate) events: usize,
}

impl Plan {
    pub(crate) fn play(&self, mut rng: Rng) -> Execution {
        assert!(
            self.processes >= 2 && self.internal < 100,
            "a message has a sender and another receiver: {self:?}"
        );
        let mut play = Play::new(*self);
        let mut events = Vec::with_capacity(self.events);
        while events.len() < self.events {
            let process = self.topology.turn(self.processes, &mut rng);
            // Some process can always act: a receive is never blocked.
            if let Some(what) = play.turn(process, &mut rng) {
                play.numbers[process] += 1;
                events.push(Event { process: process as u32, number: play.numbers[process], what });
            }
        }
        Execution { processes: self.processes, events, slots: play.slots }
    }
}

/// A message in flight.
#[derive(Debug, Clone, Copy)]
struct Message {
    from: usize,
    slot: u32,
}

/// The state of an execution under construction.
struct Play {
    plan: Plan,
    /// Events of each process so far.
    numbers: Vec<u32>,
    inboxes: Vec<Vec<Message>>,
    /// Clients that a server has to answer.
    owed: Vec<VecDeque<usize>>,
    /// Clients that wait for an answer.
    waits: Vec<bool>,
    free: Vec<u32>,
    slots: usize,
}

impl Play {
    fn new(plan: Plan) -> Self {
        Self {
            numbers: vec![0; plan.processes],
            inboxes: vec![Vec::new(); plan.processes],
            owed: vec![VecDeque::new(); plan.processes],
            waits: vec![false; plan.processes],
            free: Vec::new(),
            slots: 0,
            plan,
        }
    }

    /// The event of the process in its turn, if any.
    fn turn(&mut self, process: usize, rng: &mut Rng) -> Option<EventKind> {
        if let Some(client) = self.owed[process].pop_front() {
            return self.send(process, client);
        }
        let waiting = self.inboxes[process].len();
        if waiting > 0 {
            let message = self.inboxes[process].swap_remove(rng.index(waiting));
            if self.plan.topology.serves(process, self.plan.processes) {
                self.owed[process].push_back(message.from);
            }
            self.waits[process] = false;
            self.free.push(message.slot);
            return Some(EventKind::Receive(message.slot));
        }
        if rng.percent(self.plan.internal) {
            return Some(EventKind::Internal);
        }
        if self.plan.topology.serves(process, self.plan.processes) || self.waits[process] {
            return None;
        }
        let peer = self.plan.topology.peer(process, self.plan.processes, rng);
        self.send(process, peer)
    }

    fn send(&mut self, from: usize, to: usize) -> Option<EventKind> {
        if self.free.is_empty() && self.slots == PER_PROCESS * self.plan.processes {
            return None;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            (self.slots - 1) as u32
        });
        self.waits[from] = self.plan.topology == Topology::ClientServer;
        self.inboxes[to].push(Message { from, slot });
        Some(EventKind::Send(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(topology: Topology, internal: u32) -> Plan {
        Plan { processes: 40, topology, internal, events: 20_000 }
    }

    #[test]
    fn messages_arrive_once_and_slots_are_bounded() {
        for topology in Topology::ALL {
            for internal in [0, 50, 90] {
                let execution = plan(topology, internal).play(Rng::new(7));
                assert!(execution.slots <= 40 * PER_PROCESS);
                let mut in_flight = vec![false; execution.slots];
                let mut numbers = [0; 40];
                let mut counts = [0; 3];
                for event in &execution.events {
                    numbers[event.process as usize] += 1;
                    assert_eq!(event.number, numbers[event.process as usize]);
                    match event.what {
                        EventKind::Internal => counts[0] += 1,
                        EventKind::Send(slot) => {
                            counts[1] += 1;
                            assert!(!std::mem::replace(&mut in_flight[slot as usize], true));
                        }
                        EventKind::Receive(slot) => {
                            counts[2] += 1;
                            assert!(std::mem::replace(&mut in_flight[slot as usize], false));
                        }
                    }
                }
                // Most messages arrive; the more internal events, the fewer messages.
                assert!(counts[1] - counts[2] <= 400, "{topology:?} {internal}: {counts:?}");
                assert!((counts[0] == 0) == (internal == 0), "{topology:?} {internal}: {counts:?}");
            }
        }
    }

    #[test]
    fn no_process_sends_while_its_limit_is_reached() {
        let mut play = Play::new(plan(Topology::Uniform, 0));
        let most = 40 * PER_PROCESS;
        for slot in 0..most {
            assert_eq!(play.send(0, 1), Some(EventKind::Send(slot as u32)));
        }
        assert_eq!(play.send(0, 1), None);
        let mut rng = Rng::new(1);
        assert_eq!(play.turn(2, &mut rng), None, "the turn passes");
        let Some(EventKind::Receive(slot)) = play.turn(1, &mut rng) else {
            panic!("there is something to receive")
        };
        assert_eq!(play.turn(2, &mut rng), Some(EventKind::Send(slot)), "the slot is used again");
    }

    #[test]
    fn channels_are_not_fifo_and_servers_answer_clients() {
        let execution = plan(Topology::Ring, 0).play(Rng::new(3));
        // In a ring each process receives from one process only, so an overtaken message shows that channels
        // are not FIFO.
        let mut sent_at = vec![0; execution.slots];
        let mut last = vec![0; execution.processes];
        let mut overtaken = 0;
        for (at, event) in execution.events.iter().enumerate() {
            match event.what {
                EventKind::Send(slot) => sent_at[slot as usize] = at,
                EventKind::Receive(slot) => {
                    let sent = sent_at[slot as usize];
                    overtaken += usize::from(sent < last[event.process as usize]);
                    last[event.process as usize] = last[event.process as usize].max(sent);
                }
                EventKind::Internal => {}
            }
        }
        assert!(overtaken > 100, "{overtaken}");

        let execution = plan(Topology::ClientServer, 0).play(Rng::new(3));
        let mut debts = 0_i64;
        for event in &execution.events {
            if Topology::ClientServer.serves(event.process as usize, execution.processes) {
                match event.what {
                    EventKind::Receive(_) => debts += 1,
                    EventKind::Send(_) => debts -= 1,
                    EventKind::Internal => {}
                }
                assert!((0..=2).contains(&debts), "two servers owe {debts} answers");
            }
        }
    }

    #[test]
    fn the_seed_decides_all() {
        for topology in Topology::ALL {
            let plan = plan(topology, 50);
            let (first, again, other) =
                (plan.play(Rng::new(1)), plan.play(Rng::new(1)), plan.play(Rng::new(2)));
            assert_eq!(first.events, again.events);
            assert_ne!(first.events, other.events);
        }
    }
}
