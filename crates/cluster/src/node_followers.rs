//! The followers of a node: engines of stripes that other nodes own, ready to take over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jeton_engine::Clock;
use jeton_register::Registers;
use tokio::time::sleep;

use crate::deployment::Stripe;
use crate::follower::{FollowError, Follower, PromoteError};
use crate::frame::Owner;
use crate::node_core::{NodeCore, lock};
use crate::open_error::OpenError;
use crate::owned_stripe::{OwnedStripe, divided};

/// How often followers read the registers.
const POLL: Duration = Duration::from_millis(250);

/// The pause after a follower could not be opened, for example because the stripe is being closed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why a node does not own a stripe that it tried to claim.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The owner is alive, or another node was faster.
    #[error("the stripe has an owner")]
    Owned(Option<Owner>),
    #[error("cannot create the directory of the stripe: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Promote(#[from] PromoteError),
}

impl<R: Registers> NodeCore<R> {
    /// Follows the stripes that this node may own next.
    pub async fn follow(self: Arc<Self>) {
        let mut retries = BTreeMap::new();
        while !self.is_closed() {
            let core = Arc::clone(&self);
            let passed = tokio::task::spawn_blocking(move || {
                core.follow_once(&mut retries);
                retries
            });
            let Ok(after) = passed.await else { return };
            retries = after;
            sleep(POLL.min(self.options.timing.heartbeat)).await;
        }
    }

    /// Opens, reads and closes followers. `retries` are stripes that are not to be opened before a time.
    fn follow_once(&self, retries: &mut BTreeMap<u16, Instant>) {
        let now = self.clock.elapsed();
        for stripe in 0..self.deployment.stripes() {
            if self.is_closed() {
                return;
            }
            // Another task is promoting it.
            let Ok(mut place) = self.followers[usize::from(stripe)].try_lock() else { continue };
            let wanted = {
                let state = lock(&self.state);
                let may_open = state.takeover.is_foreign(stripe);
                may_open && state.membership.should_follow(stripe, now) && !self.is_leaving()
            };
            let result = match place.as_mut() {
                Some(follower) if wanted => follower.catch_up().map(drop),
                Some(_) => {
                    place.take().into_iter().for_each(Follower::close);
                    Ok(())
                }
                None if !wanted || retries.get(&stripe).is_some_and(|at| *at > Instant::now()) => Ok(()),
                None => self.open_follower(stripe).map(|follower| *place = Some(follower)),
            };
            let follows = place.is_some() && result.is_ok();
            if let Err(error) = result {
                if !error.is_temporary() {
                    place.take().into_iter().for_each(Follower::close);
                }
                retries.insert(stripe, Instant::now() + RETRY_PAUSE);
                // Its engine is being closed.
                if !matches!(error, FollowError::Log(OpenError::Locked(_))) {
                    tracing::warn!(stripe, %error, "the stripe cannot be followed");
                }
            }
            let followed = &mut lock(&self.state).followed;
            if follows {
                followed.insert(stripe)
            } else {
                followed.remove(&stripe)
            };
        }
    }

    fn open_follower(&self, number: u16) -> Result<Follower<R>, FollowError> {
        let folder = self.options.directory.join(format!("stripe-{number}"));
        let io_error = |source| OpenError::Io { path: folder.clone(), source };
        std::fs::create_dir_all(&folder).map_err(io_error)?;
        let stripe = self.deployment.stripe(number).ok_or(OpenError::NoStripe(number))?;
        let options = divided(&self.options.engine, &stripe, self.deployment.stripes().into());
        Follower::open(Arc::clone(&self.registers), self.deployment, number, self.me, &folder, options)
    }

    /// Claims a stripe unless its owner is alive. The claim comes last: before it the engine has applied the
    /// whole log. Blocks.
    pub fn promote(&self, number: u16) -> Result<OwnedStripe<R>, ClaimError> {
        let mut place = lock(&self.followers[usize::from(number)]);
        let mut follower = match place.take() {
            Some(follower) => follower,
            None => self.open_follower(number)?,
        };
        let owner = follower.catch_up().map(|chain| chain.owner());
        let owner = match owner {
            Ok(owner) => owner,
            Err(error) if error.is_temporary() => {
                *place = Some(follower);
                return Err(error.into());
            }
            Err(error) => {
                follower.close();
                return Err(error.into());
            }
        };
        let is_alive = |owner: &Owner| lock(&self.state).membership.is_alive(*owner);
        if owner.as_ref().is_some_and(is_alive) {
            *place = Some(follower);
            return Err(ClaimError::Owned(owner));
        }
        match follower.promote(owner) {
            Ok((log, engine)) => {
                lock(&self.state).followed.remove(&number);
                let stripe = self.deployment.stripe(number);
                let stripe = stripe.unwrap_or(Stripe { number, partitions: 0..0 });
                Ok(OwnedStripe::new(stripe, log, engine))
            }
            Err(refused) => {
                *place = Some(*refused.follower);
                Err(match refused.why {
                    PromoteError::GaveUp(owner) => ClaimError::Owned(owner),
                    why => why.into(),
                })
            }
        }
    }

    pub fn close_followers(&self) {
        for place in &self.followers {
            lock(place).take().into_iter().for_each(Follower::close);
        }
    }
}
