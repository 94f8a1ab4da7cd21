//! The stripes of a node: which ones it claims, which ones it yields and to which node.
//!
//! A state machine without I/O and clocks. Suspicion decides only who tries; the claim decides who owns.

use std::time::Duration;

use jeton_wal::Slot;

use crate::frame::NodeId;
use crate::membership::Membership;
use crate::node_options::Timing;
use crate::placement::rank;

/// The time between the attempts of two nodes of adjacent ranks.
pub const RANK_DELAY: Duration = Duration::from_millis(50);
/// After an attempt that failed, the node waits for as long before the next one.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// A move whose target has not claimed the stripe by then is over.
const MOVE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Claim(u16),
    Yield(u16, NodeId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stripe {
    Foreign {
        /// Since when it has had no owner that is alive.
        orphaned: Option<Duration>,
        /// No claim before this time.
        not_before: Duration,
    },
    Claiming,
    Owned,
    Yielding,
    /// It is yielded, and the next owner is not known.
    Moved {
        since: Duration,
        /// The slot of the yield.
        slot: Slot,
    },
}

#[derive(Debug)]
pub struct Takeover {
    me: NodeId,
    stripes: Vec<Stripe>,
    /// No claim before this time, so that nodes that start at once know of one another.
    not_before: Duration,
}

impl Takeover {
    pub fn new(me: NodeId, stripes: u16, timing: &Timing, now: Duration) -> Self {
        let foreign = Stripe::Foreign { orphaned: None, not_before: Duration::ZERO };
        Self { me, stripes: vec![foreign; stripes.into()], not_before: now + 2 * timing.heartbeat }
    }

    /// What to do now. `may_claim` is false if the clock of the node is wrong, `leaving` is true if the node
    /// yields everything.
    pub fn step(
        &mut self,
        now: Duration,
        membership: &Membership,
        may_claim: bool,
        leaving: bool,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut moving = false;
        for (stripe, number) in self.stripes.iter_mut().zip(0..) {
            let owner = || membership.owner(number).filter(|(owner, _)| !membership.is_suspected(*owner));
            if let Stripe::Moved { since, slot } = *stripe {
                if owner().is_some_and(|(_, term)| term > slot) || now >= since + MOVE_TIMEOUT {
                    *stripe = Stripe::Foreign { orphaned: None, not_before: now };
                } else {
                    moving = true;
                }
            }
            moving |= *stripe == Stripe::Yielding;
            let Stripe::Foreign { orphaned, not_before } = stripe else { continue };
            if owner().is_some() {
                *orphaned = None;
                continue;
            }
            let since = *orphaned.get_or_insert(now);
            if leaving || !may_claim || now < self.not_before.max(*not_before) {
                continue;
            }
            let place = rank(number, membership.claimants()).iter().position(|node| *node == self.me);
            if now >= since.max(self.not_before) + RANK_DELAY * place.unwrap_or(0) as u32 {
                *stripe = Stripe::Claiming;
                actions.push(Action::Claim(number));
            }
        }
        if !moving && let Some((number, to)) = self.next_move(now, membership, leaving) {
            self.stripes[usize::from(number)] = Stripe::Yielding;
            actions.push(Action::Yield(number, to));
        }
        actions
    }

    /// The next stripe that another node should own, and that node.
    fn next_move(&self, now: Duration, membership: &Membership, leaving: bool) -> Option<(u16, NodeId)> {
        let owned = (0..).zip(&self.stripes).filter(|(_, stripe)| **stripe == Stripe::Owned);
        let mut targets = owned.filter_map(|(number, _)| {
            let target = if leaving {
                let ranked = rank(number, membership.claimants().filter(|node| *node != self.me));
                // The pause is shorter if the node follows the stripe.
                let follows = |node: &&NodeId| membership.follows(**node, number);
                *ranked.iter().find(follows).or(ranked.first())?
            } else {
                let first = *rank(number, membership.present(now)).first()?;
                Some(first).filter(|first| membership.follows(*first, number))?
            };
            (target != self.me && membership.is_ready(target)).then_some((number, target))
        });
        targets.next()
    }

    /// The owner has yielded the stripe to this node. Returns whether to claim it.
    #[must_use]
    pub fn invite(&mut self, stripe: u16) -> bool {
        match self.stripes.get_mut(usize::from(stripe)) {
            Some(stripe @ Stripe::Foreign { .. }) => {
                *stripe = Stripe::Claiming;
                true
            }
            _ => false,
        }
    }

    /// The claim succeeded, and the stripe is open.
    pub fn claimed(&mut self, stripe: u16) {
        self.stripes[usize::from(stripe)] = Stripe::Owned;
    }

    /// The claim failed, or the stripe has another owner now.
    pub fn lost(&mut self, stripe: u16, now: Duration) {
        self.stripes[usize::from(stripe)] = Stripe::Foreign { orphaned: None, not_before: now + RETRY_PAUSE };
    }

    /// The stripe is yielded in this slot: the term of the next owner is later.
    pub fn yielded(&mut self, stripe: u16, slot: Slot, now: Duration) {
        self.stripes[usize::from(stripe)] = Stripe::Moved { since: now, slot };
    }

    /// Whether the node neither owns the stripe nor is about to own or to yield it.
    pub fn is_foreign(&self, stripe: u16) -> bool {
        let place = self.stripes.get(usize::from(stripe));
        place.is_some_and(|stripe| matches!(stripe, Stripe::Foreign { .. } | Stripe::Moved { .. }))
    }

    /// Whether the node owns nothing, and is about to own nothing.
    pub fn is_empty(&self) -> bool {
        self.stripes.iter().all(|stripe| matches!(stripe, Stripe::Foreign { .. } | Stripe::Moved { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::Heartbeat;

    const STRIPES: u16 = 8;

    fn heartbeat(node: u128, beat: u64, owned: &[(u16, u64)]) -> Heartbeat {
        Heartbeat {
            node: NodeId(node),
            incarnation: node,
            beat,
            millis: 0,
            address: String::new(),
            client_addresses: Vec::new(),
            ready: true,
            leaving: false,
            owned: owned.iter().map(|(stripe, term)| (*stripe, Slot(*term))).collect(),
            followed: (0..STRIPES).collect(),
        }
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Node 1, to which these heartbeats were written at the start.
    fn node(heartbeats: Vec<Heartbeat>) -> (Takeover, Membership) {
        let timing = Timing::default();
        let mut membership = Membership::new(NodeId(1), timing.clone());
        membership.observe(at(0), 0, heartbeats);
        (Takeover::new(NodeId(1), STRIPES, &timing, at(0)), membership)
    }

    fn claims(actions: Vec<Action>) -> Vec<u16> {
        let claim = |action| if let Action::Claim(stripe) = action { Some(stripe) } else { None };
        actions.into_iter().filter_map(claim).collect()
    }

    #[test]
    fn the_first_node_claims_all_after_two_heartbeats() {
        let (mut takeover, membership) = node(Vec::new());
        assert_eq!(takeover.step(at(999), &membership, true, false), []);
        assert_eq!(takeover.step(at(1000), &membership, false, false), [], "its clock is wrong");
        let all: Vec<u16> = (0..STRIPES).collect();
        assert_eq!(claims(takeover.step(at(1000), &membership, true, false)), all);
        assert_eq!(takeover.step(at(1001), &membership, true, false), [], "they are being claimed");
        all.iter().for_each(|stripe| takeover.claimed(*stripe));
        assert_eq!(takeover.step(at(9000), &membership, true, false), []);
    }

    #[test]
    fn claims_are_in_the_order_of_ranks() {
        let (mut takeover, mut membership) = node(vec![heartbeat(2, 1, &[]), heartbeat(3, 1, &[])]);
        let mut claimed = vec![None; STRIPES.into()];
        for millis in 1000..1200 {
            if millis % 100 == 0 {
                let beats = [2, 3].map(|node| heartbeat(node, millis, &[]));
                membership.observe(at(millis), 0, beats.to_vec());
            }
            for stripe in claims(takeover.step(at(millis), &membership, true, false)) {
                claimed[usize::from(stripe)] = Some(millis);
            }
        }
        for (stripe, claimed) in (0..).zip(claimed) {
            let place = rank(stripe, [1, 2, 3].map(NodeId)).iter().position(|one| one.0 == 1);
            assert_eq!(claimed, place.map(|place| 1000 + 50 * place as u64), "stripe {stripe}");
        }
    }

    #[test]
    fn stripes_of_a_silent_or_refusing_owner_are_claimed() {
        for refuses in [false, true] {
            let owned: Vec<(u16, u64)> = (0..STRIPES).map(|stripe| (stripe, 1)).collect();
            let (mut takeover, mut membership) = node(vec![heartbeat(2, 1, &owned)]);
            let mut claimed = None;
            for millis in (1000..6000).step_by(100) {
                // The owner is heard until 3 s.
                let beat = millis.min(3000);
                membership.observe(at(millis), 0, vec![heartbeat(2, beat, &owned)]);
                if refuses && millis == 3500 {
                    membership.refuse(NodeId(2));
                }
                if !claims(takeover.step(at(millis), &membership, true, false)).is_empty() {
                    claimed = claimed.or(Some(millis));
                }
            }
            assert_eq!(claimed, Some(if refuses { 3500 } else { 5100 }));
        }
    }

    /// A node that did not run, or could not read, knows nothing about the others.
    #[test]
    fn a_paused_node_suspects_nobody_when_it_continues() {
        let (mut takeover, mut membership) = node(vec![heartbeat(2, 1, &[(0, 1)])]);
        let step =
            |takeover: &mut Takeover, millis| claims(takeover.step(at(millis), &membership, true, false));
        assert_eq!(step(&mut takeover, 60_000).len() + step(&mut takeover, 60_050).len(), 7);
        membership.observe(at(60_000), 0, vec![heartbeat(2, 1, &[(0, 1)])]);
        assert!(!membership.is_suspected(NodeId(2)));
        membership.observe(at(60_500), 0, vec![heartbeat(2, 2, &[(0, 1)])]);
        assert_eq!(takeover.step(at(60_500), &membership, true, false), []);
    }

    #[test]
    fn stripes_move_one_at_a_time_to_a_ready_node() {
        let (mut takeover, mut membership) = node(Vec::new());
        assert_eq!(claims(takeover.step(at(1000), &membership, true, false)).len(), 8);
        (0..STRIPES).for_each(|stripe| takeover.claimed(stripe));
        let preferred = |stripe| rank(stripe, [1, 2].map(NodeId))[0] == NodeId(2);
        let expected: Vec<u16> = (0..STRIPES).filter(|stripe| preferred(*stripe)).collect();
        let unready = Heartbeat { ready: false, ..heartbeat(2, 1, &[]) };
        let cold = Heartbeat { followed: Vec::new(), ..heartbeat(2, 2, &[]) };
        for unfit in [unready, cold] {
            membership.observe(at(2000), 0, vec![unfit]);
            assert_eq!(takeover.step(at(2000), &membership, true, false), []);
        }
        let mut theirs = Vec::new();
        let mut moved = Vec::new();
        for millis in (2100..4000).step_by(100) {
            membership.observe(at(millis), 0, vec![heartbeat(2, millis, &theirs)]);
            let actions = takeover.step(at(millis), &membership, true, false);
            assert!(actions.len() <= 1, "{actions:?}");
            for action in actions {
                let Action::Yield(stripe, to) = action else { panic!("{action:?}") };
                assert_eq!(to, NodeId(2));
                assert_eq!(takeover.step(at(millis), &membership, true, false), [], "while it yields");
                takeover.yielded(stripe, Slot(2), at(millis));
                membership.announce(stripe, NodeId(2), Slot(2));
                assert_eq!(takeover.step(at(millis), &membership, true, false), [], "until it is claimed");
                theirs.push((stripe, 3));
                moved.push(stripe);
            }
        }
        assert!(!expected.is_empty());
        assert_eq!(moved, expected);
    }

    #[test]
    fn a_node_that_is_away_for_a_while_keeps_its_place() {
        let away = Heartbeat { ready: false, ..heartbeat(2, 1, &[]) };
        let (mut takeover, mut membership) = node(vec![away.clone()]);
        for millis in [1000, 1050] {
            takeover.step(at(millis), &membership, true, false);
        }
        (0..STRIPES).for_each(|stripe| takeover.claimed(stripe));
        // Node 3 is alive. Stripes that node 2 should own stay where they are while it is away.
        let wanted = |nodes: &[u128]| -> Vec<u16> {
            let first = |stripe| rank(stripe, nodes.iter().map(|node| NodeId(*node)))[0];
            (0..STRIPES).filter(|stripe| first(*stripe) == NodeId(3)).collect()
        };
        let mut moved: Vec<u16> = Vec::new();
        for millis in (1500..60_000).step_by(500) {
            let theirs: Vec<(u16, u64)> = moved.iter().map(|stripe| (*stripe, 2)).collect();
            membership.observe(at(millis), 0, vec![away.clone(), heartbeat(3, millis, &theirs)]);
            if millis < 30_000 {
                assert!(moved.iter().all(|stripe| wanted(&[1, 2, 3]).contains(stripe)));
            }
            for action in takeover.step(at(millis), &membership, true, false) {
                let Action::Yield(stripe, _) = action else { panic!("{action:?}") };
                moved.push(stripe);
                takeover.yielded(stripe, Slot(1), at(millis));
                membership.announce(stripe, NodeId(3), Slot(2));
            }
        }
        moved.sort_unstable();
        assert_eq!(moved, wanted(&[1, 3]));
    }

    #[test]
    fn a_clock_that_differs_from_most_is_wrong() {
        let (_, mut membership) = node(Vec::new());
        let ahead = |node, seconds: u64| Heartbeat { millis: seconds * 1000, ..heartbeat(node, 1, &[]) };
        membership.observe(at(0), 0, vec![ahead(2, 3600), ahead(3, 1)]);
        assert_eq!(membership.clock_differences(), [(NodeId(2), 3_600_000)]);
        assert!(!membership.is_clock_wrong(), "it is the clock of node 2");
        membership.observe(at(0), 0, vec![ahead(4, 3600)]);
        assert!(membership.is_clock_wrong());
    }
}
