//! The stripes of a node: which ones it claims, which ones it yields and to which node.
//!
//! A state machine without I/O and clocks. Suspicion decides only who tries; the claim decides who owns.

use std::time::Duration;

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
            if let Stripe::Moved { since } = *stripe {
                if owner().is_some() || now >= since + MOVE_TIMEOUT {
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
                rank(number, membership.claimants()).into_iter().find(|node| *node != self.me)?
            } else {
                *rank(number, membership.present(now)).first()?
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

    /// The stripe is yielded.
    pub fn yielded(&mut self, stripe: u16, now: Duration) {
        self.stripes[usize::from(stripe)] = Stripe::Moved { since: now };
    }

    /// Whether the node owns nothing, and is about to own nothing.
    pub fn is_empty(&self) -> bool {
        self.stripes.iter().all(|stripe| matches!(stripe, Stripe::Foreign { .. } | Stripe::Moved { .. }))
    }
}
