//! A running member: Raft, the replicated state, and the requests to the leader.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jeton_register::Error;
use openraft::ServerState;
use openraft::error::{ClientWriteError, RaftError};
use tokio::time::{Instant, timeout_at};

use crate::command::{Applied, CommandResult, Proposal};
use crate::membership_view::{LastSeen, MemberRole, MemberView};
use crate::message::{Refusal, Request, Response, Status};
use crate::peer::{Peer, PeerError};
use crate::settings::Settings;
use crate::state_machine::SharedState;
use crate::types::{Membership, Metrics, Raft};

/// A running member.
pub struct Node {
    pub settings: Arc<Settings>,
    pub identity: u64,
    pub raft: Raft,
    pub shared: Arc<SharedState>,
    pub last_seen: Arc<LastSeen>,
    /// The runtime is shutting down: its tasks end in any order, and an error of Raft is not a failure.
    pub is_closing: AtomicBool,
}

/// Why an attempt to reach the leader has no response.
enum AttemptError {
    /// It has no effect.
    NotExecuted(String),
    /// It may have been executed.
    Unknown(String),
}

impl Node {
    /// The member that leads, as far as this member knows.
    pub fn leader(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let leader = metrics.current_leader?;
        if leader == self.identity && !self.has_majority(&metrics) {
            return None;
        }
        metrics.membership_config.membership().get_node(&leader).map(|slot| slot.member)
    }

    /// Whether this member leads, as far as it knows.
    pub fn leads(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        metrics.state == ServerState::Leader && self.has_majority(&metrics)
    }

    /// As the leader: whether a majority responded recently. openraft remains leader when it is cut off, and
    /// accepts proposals that it cannot commit: their outcome would be unknown, and they would stay in its
    /// log.
    fn has_majority(&self, metrics: &Metrics) -> bool {
        let silence_max = self.settings.timing.attempt_timeout().as_millis();
        metrics.millis_since_quorum_ack.is_none_or(|silence| u128::from(silence) <= silence_max)
    }

    fn membership(&self) -> Arc<Membership> {
        Arc::clone(&self.raft.metrics().borrow().membership_config)
    }

    /// All members in the settings, as this member sees them.
    pub fn members(&self) -> Vec<MemberView> {
        let (leader, stored) = (self.leader(), self.membership());
        let member_of = |identity| stored.membership().get_node(&identity).map(|slot| slot.member);
        let view = |id: u64| {
            let role = match leader == Some(id) {
                true => MemberRole::Leader,
                false if stored.voter_ids().any(|voter| member_of(voter) == Some(id)) => MemberRole::Voter,
                false => MemberRole::NotAdmitted,
            };
            let contact = self.last_seen.last(id);
            let now = (id == self.settings.me).then(std::time::Instant::now);
            MemberView { id, role, last_seen: now.or(contact.at), last_error: contact.error }
        };
        self.settings.members.iter().map(|member| view(member.id)).collect()
    }

    /// Whether this identity is a voter, and no change of the voters is in progress.
    pub fn is_voter(&self) -> bool {
        let stored = self.membership();
        let configs = stored.membership().get_joint_config();
        configs.len() == 1 && configs[0].contains(&self.identity)
    }

    pub fn status(&self) -> Status {
        let is_empty = self.raft.metrics().borrow().last_log_index.is_none();
        Status { identity: self.identity, is_empty, leader: self.leader(), members: self.settings.numbers() }
    }

    /// As the leader: appends a proposal to the log. Returns the index of its entry and the results.
    pub async fn propose_here(&self, proposal: Proposal) -> Result<(u64, Vec<CommandResult>), Refusal> {
        let bytes_max = self.settings.leader_state_bytes_max();
        if self.shared.bytes() > bytes_max && proposal.commands.iter().any(|command| command.grows()) {
            return Err(Refusal::Full(format!("registers and blobs take more than {bytes_max} bytes")));
        }
        match self.raft.client_write(proposal).await {
            Ok(response) => match response.data {
                Applied::Results(results) => Ok((response.log_id.index, results)),
                Applied::Superseded => Err(Refusal::Superseded),
                Applied::Nothing => Err(Refusal::Rejected("the entry is not a proposal".into())),
            },
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => Err(Refusal::NotLeader),
            Err(error) => Err(Refusal::Unknown(error.to_string())),
        }
    }

    /// As the leader: the index up to which the log contains everything that is acknowledged now.
    pub async fn barrier_here(&self) -> Result<u64, Refusal> {
        match self.raft.get_read_log_id().await {
            Ok((Some(log_id), _)) => Ok(log_id.index),
            Ok((None, _)) | Err(RaftError::APIError(_)) => Err(Refusal::NotLeader),
            Err(error) => Err(Refusal::Rejected(error.to_string())),
        }
    }

    /// Sends a proposal to the leader, with retries until the deadline. Its number makes the retries
    /// harmless.
    pub async fn propose(
        &self,
        connections: &mut LeaderConnections,
        proposal: Proposal,
        deadline: Instant,
    ) -> Result<(u64, Vec<CommandResult>), Error> {
        let request = Request::Propose(proposal);
        let mut unknown = None;
        let mut unavailable = self.no_leader();
        loop {
            match self.call_leader(connections, &request, deadline).await {
                Ok(Response::Proposed(index, results)) => return Ok((index, results)),
                Ok(Response::Refused(Refusal::Full(why))) if unknown.is_none() => {
                    return Err(Error::Full(why));
                }
                Ok(response) => unknown = Some(format!("the leader responded {response:?}")),
                Err(AttemptError::Unknown(why)) => unknown = Some(why),
                Err(AttemptError::NotExecuted(why)) => unavailable = why,
            }
            if !self.pause(deadline).await {
                return Err(unknown.map_or(Error::Unavailable(unavailable), Error::Unknown));
            }
        }
    }

    /// Waits until this member has applied everything that was acknowledged before the call.
    pub async fn barrier(&self, connections: &mut LeaderConnections, deadline: Instant) -> Result<(), Error> {
        loop {
            let why = match self.call_leader(connections, &Request::Barrier, deadline).await {
                Ok(Response::Barrier(index)) => {
                    let applied = timeout_at(deadline, self.shared.await_applied(index)).await;
                    return applied
                        .map_err(|_| Error::Unavailable("this member has not applied the log yet".into()));
                }
                Ok(response) => format!("the leader responded {response:?}"),
                Err(AttemptError::Unknown(why) | AttemptError::NotExecuted(why)) => why,
            };
            if !self.pause(deadline).await {
                return Err(Error::Unavailable(why));
            }
        }
    }

    /// That no member leads, with the known errors.
    fn no_leader(&self) -> String {
        match self.last_seen.errors() {
            errors if errors.is_empty() => "no member leads".into(),
            errors => format!("no member leads; {errors}"),
        }
    }

    /// Sends a request to the leader once, which may be this member.
    async fn call_leader(
        &self,
        connections: &mut LeaderConnections,
        request: &Request,
        deadline: Instant,
    ) -> Result<Response, AttemptError> {
        let Some(leader) = self.leader() else {
            return Err(AttemptError::NotExecuted(self.no_leader()));
        };
        let deadline = deadline.min(Instant::now() + self.settings.timing.attempt_timeout());
        let response = if leader == self.settings.me {
            let here = async {
                match request {
                    Request::Propose(proposal) => {
                        proposal_response(self.propose_here(proposal.clone()).await)
                    }
                    _ => barrier_response(self.barrier_here().await),
                }
            };
            timeout_at(deadline, here)
                .await
                .map_err(|_| AttemptError::Unknown("this member leads without a majority".into()))
        } else {
            connections.to(leader, self).call(request, deadline).await.map_err(|error| match error {
                PeerError::Unreachable(..) => AttemptError::NotExecuted(error.to_string()),
                PeerError::NoResponse(..) => AttemptError::Unknown(error.to_string()),
            })
        };
        match response {
            Ok(Response::Refused(refusal @ (Refusal::NotLeader | Refusal::Unknown(_)))) => {
                Err(AttemptError::Unknown(refusal.to_string()))
            }
            Ok(Response::Refused(refusal @ (Refusal::Rejected(_) | Refusal::OtherIdentity))) => {
                Err(AttemptError::NotExecuted(refusal.to_string()))
            }
            response => response,
        }
    }

    /// Waits until the leader changes, at most 50 ms. Returns whether the deadline is still ahead.
    async fn pause(&self, deadline: Instant) -> bool {
        let mut metrics = self.raft.server_metrics();
        metrics.mark_unchanged();
        let end = Instant::now() + self.settings.timing.heartbeat.min(Duration::from_millis(50));
        let _ = timeout_at(end.min(deadline), metrics.changed()).await;
        Instant::now() < deadline
    }
}

pub fn proposal_response(result: Result<(u64, Vec<CommandResult>), Refusal>) -> Response {
    result.map_or_else(Response::Refused, |(index, results)| Response::Proposed(index, results))
}

pub fn barrier_response(result: Result<u64, Refusal>) -> Response {
    result.map_or_else(Response::Refused, Response::Barrier)
}

/// The connections of one task to the members that may lead.
#[derive(Default)]
pub struct LeaderConnections {
    peers: std::collections::BTreeMap<u64, Peer>,
}

impl LeaderConnections {
    pub fn to(&mut self, member: u64, node: &Node) -> &mut Peer {
        self.peers
            .entry(member)
            .or_insert_with(|| Peer::new(member, &node.settings, Arc::clone(&node.last_seen)))
    }
}
