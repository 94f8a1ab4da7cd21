//! A member at work: Raft, the state, and the way to whoever leads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jeton_register::Error;
use openraft::ServerState;
use openraft::error::{ClientWriteError, RaftError};
use tokio::time::{Instant, timeout_at};

use crate::command::{Answer, Applied, Proposal};
use crate::membership_view::{LastSeen, MemberRole, MemberView};
use crate::message::{Refusal, Reply, Request, Status};
use crate::peer::{Peer, PeerError};
use crate::settings::Settings;
use crate::state_machine::Shared;
use crate::types::{Metrics, Raft};

/// A member.
pub struct Node {
    pub settings: Arc<Settings>,
    pub identity: u64,
    pub raft: Raft,
    pub shared: Arc<Shared>,
    pub heard: Arc<LastSeen>,
    /// Its tasks are being dropped, in any order: what fails now failed for that.
    pub is_closing: AtomicBool,
}

/// What came of asking the leader, as far as it can be asked again.
enum Try<T> {
    Answered(T),
    /// Nothing was done.
    Vain(String),
    /// It may have been done.
    Doubt(String),
}

impl Node {
    /// The member that leads, as far as is known here.
    pub fn leader(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let leader = metrics.current_leader?;
        if leader == self.identity && !self.is_followed(&metrics) {
            return None;
        }
        metrics.membership_config.membership().get_node(&leader).map(|seat| seat.member)
    }

    /// Whether this member leads, as far as it knows.
    pub fn leads(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        metrics.state == ServerState::Leader && self.is_followed(&metrics)
    }

    /// As the leader: whether a majority was heard of lately. Raft stays leader without end when it is cut off, and takes proposals that come to nothing: each
    /// would be in doubt, and stay in its log.
    fn is_followed(&self, metrics: &Metrics) -> bool {
        let silence_max = self.settings.timing.try_max().as_millis();
        metrics.millis_since_quorum_ack.is_none_or(|silence| u128::from(silence) <= silence_max)
    }

    /// All members of the settings, as they look from here.
    pub fn members(&self) -> Vec<MemberView> {
        let leader = self.leader();
        let metrics = self.raft.metrics();
        let membership = Arc::clone(&metrics.borrow().membership_config);
        let votes = |member| {
            let seat = |id| membership.membership().get_node(&id).map(|seat| seat.member);
            membership.voter_ids().any(|id| seat(id) == Some(member))
        };
        let view = |id: u64| {
            let standing = match (leader == Some(id), votes(id)) {
                (true, _) => MemberRole::Leader,
                (_, true) => MemberRole::Voter,
                _ => MemberRole::Outside,
            };
            let word = self.heard.last(id);
            let now = (id == self.settings.me).then(std::time::Instant::now);
            MemberView { id, standing, heard: now.or(word.at), trouble: word.trouble }
        };
        self.settings.members.iter().map(|member| view(member.id)).collect()
    }

    /// Whether this identity votes, and no change of that is under way.
    pub fn is_seated(&self) -> bool {
        let metrics = self.raft.metrics();
        let membership = Arc::clone(&metrics.borrow().membership_config);
        let configs = membership.membership().get_joint_config();
        configs.len() == 1 && configs[0].contains(&self.identity)
    }

    pub fn status(&self) -> Status {
        let is_blank = self.raft.metrics().borrow().last_log_index.is_none();
        Status { identity: self.identity, is_blank, leader: self.leader(), members: self.settings.numbers() }
    }

    /// As the leader: puts a proposal into the log. The index of its entry, and what became of it.
    pub async fn propose_here(&self, proposal: Proposal) -> Result<(u64, Vec<Answer>), Refusal> {
        let room = self.settings.state_bytes_end();
        if self.shared.bytes() > room && proposal.commands.iter().any(|command| command.grows()) {
            return Err(Refusal::Full(format!("registers and rows take more than {room} bytes")));
        }
        match self.raft.client_write(proposal).await {
            Ok(response) => match response.data {
                Applied::Answers(answers) => Ok((response.log_id.index, answers)),
                Applied::Stale => Err(Refusal::Stale),
                Applied::Nothing => Err(Refusal::Unable("a proposal was taken for something else".into())),
            },
            // It may be in the log already when that is found out.
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => Err(Refusal::NotLeader),
            Err(error) => Err(Refusal::Doubt(error.to_string())),
        }
    }

    /// As the leader: the index of an entry after which everything is there that is acknowledged by now.
    pub async fn barrier_here(&self) -> Result<u64, Refusal> {
        match self.raft.get_read_log_id().await {
            Ok((Some(log_id), _)) => Ok(log_id.index),
            Ok((None, _)) => Err(Refusal::NotLeader),
            Err(RaftError::APIError(_)) => Err(Refusal::NotLeader),
            Err(error) => Err(Refusal::Unable(error.to_string())),
        }
    }

    /// Has the leader put a proposal into the log, whoever leads. It is asked again until the deadline: under the number that the
    /// proposal has, it is done once.
    pub async fn propose(
        &self,
        ways: &mut LeaderConnections,
        proposal: Proposal,
        deadline: Instant,
    ) -> Result<(u64, Vec<Answer>), Error> {
        let request = Request::Propose(proposal);
        let mut doubt = None;
        let mut vain = self.leaderless();
        loop {
            match self.try_leader(ways, &request, deadline).await {
                Try::Answered(Reply::Proposed(index, answers)) => return Ok((index, answers)),
                Try::Answered(Reply::Refused(Refusal::Full(why))) if doubt.is_none() => {
                    return Err(Error::Full(why));
                }
                Try::Answered(reply) => doubt = Some(format!("the leader says {reply:?}")),
                Try::Doubt(why) => doubt = Some(why),
                Try::Vain(why) => vain = why,
            }
            if !self.pause(deadline).await {
                return Err(doubt.map_or(Error::Unavailable(vain), Error::Unknown));
            }
        }
    }

    /// Comes to have everything that was acknowledged before this was asked.
    pub async fn barrier(&self, ways: &mut LeaderConnections, deadline: Instant) -> Result<(), Error> {
        loop {
            let why = match self.try_leader(ways, &Request::Barrier, deadline).await {
                Try::Answered(Reply::Barrier(index)) => {
                    let reached = timeout_at(deadline, self.shared.reach(index)).await;
                    return reached
                        .map_err(|_| Error::Unavailable("this member is behind the others".into()));
                }
                Try::Answered(reply) => format!("the leader says {reply:?}"),
                Try::Doubt(why) | Try::Vain(why) => why,
            };
            if !self.pause(deadline).await {
                return Err(Error::Unavailable(why));
            }
        }
    }

    /// That no member leads, and what is known of why.
    fn leaderless(&self) -> String {
        match self.heard.troubles() {
            troubles if troubles.is_empty() => "no member leads".into(),
            troubles => format!("no member leads; {troubles}"),
        }
    }

    /// Asks the leader once, be it this member or another.
    async fn try_leader(
        &self,
        ways: &mut LeaderConnections,
        request: &Request,
        deadline: Instant,
    ) -> Try<Reply> {
        let Some(leader) = self.leader() else { return Try::Vain(self.leaderless()) };
        let deadline = deadline.min(Instant::now() + self.settings.timing.try_max());
        let reply = if leader == self.settings.me {
            let here = async {
                match request {
                    Request::Propose(proposal) => proposed(self.propose_here(proposal.clone()).await),
                    _ => barrier(self.barrier_here().await),
                }
            };
            timeout_at(deadline, here).await.map_err(|_| Try::Doubt("this member leads, but alone".into()))
        } else {
            ways.to(leader, self).ask(request, deadline).await.map_err(|silence| match silence {
                PeerError::Unreached(..) => Try::Vain(silence.to_string()),
                PeerError::Unanswered(..) => Try::Doubt(silence.to_string()),
            })
        };
        match reply {
            // Raft says so of what is in its log, too, when it stops to lead.
            Ok(Reply::Refused(refusal @ (Refusal::NotLeader | Refusal::Doubt(_)))) => {
                Try::Doubt(refusal.to_string())
            }
            Ok(Reply::Refused(refusal @ (Refusal::Unable(_) | Refusal::NotMe))) => {
                Try::Vain(refusal.to_string())
            }
            Ok(reply) => Try::Answered(reply),
            Err(failed) => failed,
        }
    }

    /// Until something changes about who leads, or for a moment. False if the deadline is over.
    async fn pause(&self, deadline: Instant) -> bool {
        let mut metrics = self.raft.server_metrics();
        metrics.mark_unchanged();
        let moment = Instant::now() + self.settings.timing.heartbeat.min(Duration::from_millis(50));
        let _ = timeout_at(moment.min(deadline), metrics.changed()).await;
        Instant::now() < deadline
    }
}

pub fn proposed(result: Result<(u64, Vec<Answer>), Refusal>) -> Reply {
    result.map_or_else(Reply::Refused, |(index, answers)| Reply::Proposed(index, answers))
}

pub fn barrier(result: Result<u64, Refusal>) -> Reply {
    result.map_or_else(Reply::Refused, Reply::Barrier)
}

/// The connections to whoever may lead, of one that asks.
#[derive(Default)]
pub struct LeaderConnections {
    peers: std::collections::BTreeMap<u64, Peer>,
}

impl LeaderConnections {
    pub fn to(&mut self, member: u64, node: &Node) -> &mut Peer {
        self.peers
            .entry(member)
            .or_insert_with(|| Peer::new(member, Arc::clone(&node.settings), Arc::clone(&node.heard)))
    }
}
