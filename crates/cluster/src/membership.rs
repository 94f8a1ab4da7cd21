//! The nodes of a cluster as one of them sees them: who is suspected, and who owns what.
//!
//! Time comes from outside: the monotonic clock of the observer. Nothing here is needed for safety: a wrong
//! suspicion costs a claim that gives up, or a takeover of an owner that is alive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jeton_wal::Slot;

use crate::frame::{NodeId, Owner};
use crate::heartbeat::Heartbeat;
use crate::node_options::Timing;
use crate::placement::rank;

/// The most that clocks may differ: a quarter of the default skew of a table.
pub(crate) const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(15);

/// Another node.
#[derive(Debug, Clone)]
pub struct Member {
    pub heartbeat: Heartbeat,
    /// When its last new heartbeat was read.
    pub seen: Duration,
    /// No connection to it could be made since its last heartbeat.
    refused: bool,
    /// Its wall clock less that of the observer, in milliseconds.
    clock_ahead: i64,
}

#[derive(Debug)]
pub struct Membership {
    me: NodeId,
    timing: Timing,
    members: BTreeMap<NodeId, Member>,
    /// By stripe, owners that are known from messages and may be later than the heartbeats.
    announced: BTreeMap<u16, Announced>,
    /// When the heartbeats were read last.
    observed: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Announced {
    node: NodeId,
    term: Slot,
    /// Of the last heartbeat of the node before.
    incarnation: u128,
    beat: u64,
}

impl Membership {
    pub fn new(me: NodeId, timing: Timing) -> Self {
        Self { me, timing, members: BTreeMap::new(), announced: BTreeMap::new(), observed: None }
    }

    /// Handles all heartbeats that are in the registers. `millis` is the wall clock.
    pub fn observe(&mut self, now: Duration, millis: u64, heartbeats: Vec<Heartbeat>) {
        // An observer that did not read for a while knows nothing about the time between.
        let paused = |observed| now.saturating_sub(observed) > self.timing.failure_timeout / 2;
        if self.observed.replace(now).is_some_and(paused) {
            self.members.values_mut().for_each(|member| member.seen = now);
        }
        for heartbeat in heartbeats {
            if heartbeat.node == self.me {
                continue;
            }
            let clock_ahead = heartbeat.millis as i64 - millis as i64;
            let fresh = Member { heartbeat, seen: now, refused: false, clock_ahead };
            match self.members.get_mut(&fresh.heartbeat.node) {
                Some(known) if known.heartbeat.beat >= fresh.heartbeat.beat => {}
                Some(known) => *known = fresh,
                None => drop(self.members.insert(fresh.heartbeat.node, fresh)),
            }
        }
    }

    /// A connection was refused or reset, and a new one could not be made. To be called after the heartbeats
    /// were read again: only a later one ends the suspicion.
    pub fn refuse(&mut self, node: NodeId) {
        if let Some(member) = self.members.get_mut(&node) {
            member.refused = true;
        }
    }

    /// There is an owner that the heartbeats may not name yet. Returns whether that is new.
    pub fn announce(&mut self, stripe: u16, node: NodeId, term: Slot) -> bool {
        let Some(member) = self.members.get(&node) else { return false };
        let (incarnation, beat) = (member.heartbeat.incarnation, member.heartbeat.beat);
        let before = self.owner(stripe);
        if self.announced.get(&stripe).is_none_or(|known| known.term < term) {
            self.announced.insert(stripe, Announced { node, term, incarnation, beat });
        }
        self.owner(stripe) != before
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    /// Only a read of the heartbeats makes a node suspected for its silence.
    pub fn is_suspected(&self, node: NodeId) -> bool {
        let silent = |member: &Member| {
            self.observed.unwrap_or_default().saturating_sub(member.seen) > self.timing.failure_timeout
        };
        node != self.me && self.members.get(&node).is_none_or(|member| member.refused || silent(member))
    }

    /// Whether an owner runs since its claim and is not suspected.
    pub fn is_alive(&self, owner: Owner) -> bool {
        let same = |member: &Member| member.heartbeat.incarnation == owner.incarnation;
        self.members.get(&owner.node).is_some_and(same) && !self.is_suspected(owner.node)
    }

    /// The other node that owns a stripe, and its term, as far as known. It may be suspected.
    pub fn owner(&self, stripe: u16) -> Option<(NodeId, Slot)> {
        let owned = |member: &Member| {
            let owned = member.heartbeat.owned.iter().find(|(owned, _)| *owned == stripe)?;
            Some((member.heartbeat.node, owned.1))
        };
        let announced = self.announced.get(&stripe).filter(|announced| {
            // The second heartbeat after the announcement names the stripe, unless the node has lost it.
            self.members.get(&announced.node).is_some_and(|member| {
                member.heartbeat.incarnation == announced.incarnation
                    && (member.heartbeat.beat <= announced.beat + 1 || owned(member).is_some())
            })
        });
        let announced = announced.map(|announced| (announced.node, announced.term));
        self.members.values().filter_map(owned).chain(announced).max_by_key(|(_, term)| *term)
    }

    /// The nodes that may take a stripe now, with this one.
    pub fn claimants(&self) -> impl Iterator<Item = NodeId> {
        self.members.keys().copied().filter(|node| self.is_ready(*node)).chain([self.me])
    }

    /// The nodes that planned moves take into account, with this one: those that are not away for long.
    pub fn present(&self, now: Duration) -> impl Iterator<Item = NodeId> {
        let present = move |member: &&Member| {
            !member.heartbeat.leaving && now.saturating_sub(member.seen) < self.timing.absence
        };
        self.members.values().filter(present).map(|member| member.heartbeat.node).chain([self.me])
    }

    /// Whether this node should follow a stripe: it is the first or the second choice, and may be the next
    /// owner.
    pub fn should_follow(&self, stripe: u16, now: Duration) -> bool {
        rank(stripe, self.present(now)).iter().take(2).any(|node| *node == self.me)
    }

    /// A node that follows a stripe of this owner; `mine` are the stripes that the observer follows.
    pub fn follower(&self, stripe: u16, owner: Option<NodeId>, mine: &BTreeSet<u16>) -> Option<NodeId> {
        let follows = |member: &&Member| member.heartbeat.followed.contains(&stripe);
        let others = self.members.values().filter(follows).map(|member| member.heartbeat.node);
        let others = others.filter(|node| !self.is_suspected(*node));
        let me = mine.contains(&stripe).then_some(self.me);
        let all = others.chain(me).filter(|node| Some(*node) != owner);
        rank(stripe, all).first().copied()
    }

    /// Whether a node follows a stripe, so that it can take it at once.
    pub fn follows(&self, node: NodeId, stripe: u16) -> bool {
        self.members.get(&node).is_some_and(|member| member.heartbeat.followed.contains(&stripe))
    }

    /// Whether stripes may be moved to a node now.
    pub fn is_ready(&self, node: NodeId) -> bool {
        let ready = |member: &Member| member.heartbeat.ready && !member.heartbeat.leaving;
        !self.is_suspected(node) && self.members.get(&node).is_some_and(ready)
    }

    /// The nodes that are alive and whose clocks differ too much from that of the observer.
    pub fn clock_differences(&self) -> Vec<(NodeId, i64)> {
        let max = i64::try_from(CLOCK_DIFFERENCE_MAX.as_millis()).unwrap_or(i64::MAX);
        let alive = self.members.values().filter(|one| !self.is_suspected(one.heartbeat.node));
        let differs = alive.filter(|one| one.clock_ahead.abs() > max);
        differs.map(|one| (one.heartbeat.node, one.clock_ahead)).collect()
    }

    /// Whether the clock of the observer differs too much from those of most nodes that are alive.
    pub fn is_clock_wrong(&self) -> bool {
        let alive = self.members.keys().filter(|node| !self.is_suspected(**node)).count();
        2 * self.clock_differences().len() > alive
    }
}
