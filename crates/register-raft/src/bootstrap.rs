//! Bootstrap of a cluster, and admission of an identity as the voter of its member.
//!
//! Invariants:
//! - *One bootstrap.* Only the member with the lowest number bootstraps the cluster: only if its own log is
//!   empty, all other members report empty logs, and all are configured with the same members. A member with
//!   a log was bootstrapped before.
//! - *Admission by the leader.* An identity that is not a voter asks the leader for admission. The leader
//!   replicates everything to it first, and then replaces the member's previous identity by a change that a
//!   majority of the old and of the new voters commits. So a majority still stores what was acknowledged, and
//!   the previous identity no longer counts.
//!
//! A member with its log in memory starts with a new identity each time, and so does a member that lost its
//! disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use tokio::time::{Instant, timeout};

use crate::message::{Refusal, Request, Response, Status};
use crate::node::{LeaderConnections, Node};
use crate::types::MemberSlot;

/// Timeout of one admission, after which the identity asks again.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(30);

/// Bootstraps the cluster, or gets this member's identity admitted. Returns when the identity is a voter.
pub async fn join_cluster(node: Arc<Node>) {
    let mut connections = LeaderConnections::default();
    let mut metrics = node.raft.server_metrics();
    while !node.is_voter() {
        try_join(&node, &mut connections).await;
        // Until the leader or the voters change, at most for an election timeout.
        let _ = timeout(node.settings.timing.election, metrics.changed()).await;
    }
    tracing::info!(member = node.settings.me, identity = node.identity, "this member is a voter");
}

async fn try_join(node: &Node, connections: &mut LeaderConnections) {
    let mut others = BTreeMap::new();
    for member in node.settings.others() {
        let deadline = Instant::now() + node.settings.timing.election;
        let response = connections.to(member, node).call(&Request::Status, deadline).await;
        if let Ok(Response::Status(status)) = response {
            others.insert(member, status);
        }
    }
    let mine = node.status();
    let is_first = mine.is_empty && others.values().all(|status| status.is_empty);
    let is_lowest = node.settings.others().all(|other| other > node.settings.me);
    if is_first && is_lowest && others.len() + 1 == node.settings.members.len() {
        if check_members(node, &mine, &others) {
            bootstrap(node, &mine, &others).await;
        }
        return;
    }
    let leader = others.values().find_map(|status| status.leader);
    if let Some(leader) = leader.filter(|&leader| leader != node.settings.me) {
        let request = Request::Admit { member: node.settings.me, identity: node.identity };
        let deadline = Instant::now() + ADMISSION_TIMEOUT;
        match connections.to(leader, node).call(&request, deadline).await {
            Ok(Response::Admitted) => {}
            Ok(response) => tracing::info!(?response, "not admitted yet"),
            Err(error) => tracing::info!(%error, "not admitted yet"),
        }
    }
}

/// Whether all are configured with the same members. A majority of three members need not overlap with one of
/// five.
fn check_members(node: &Node, mine: &Status, others: &BTreeMap<u64, Status>) -> bool {
    let different = others.iter().find(|(_, status)| status.members != mine.members);
    let why = different.map(|(member, status)| {
        let (theirs, ours) = (&status.members, &mine.members);
        format!("member {member} has members {theirs:?} in its settings, this member has {ours:?}")
    });
    if let Some(why) = &why {
        tracing::warn!(why, "the cluster is not bootstrapped");
    }
    let is_same = why.is_none();
    node.last_seen.set_disagreement(why);
    is_same
}

async fn bootstrap(node: &Node, mine: &Status, others: &BTreeMap<u64, Status>) {
    let others = others.iter().map(|(&member, status)| (status.identity, MemberSlot { member }));
    let voters: BTreeMap<u64, MemberSlot> =
        others.chain([(mine.identity, MemberSlot { member: node.settings.me })]).collect();
    match node.raft.initialize(voters).await {
        Ok(()) => tracing::info!("the cluster is bootstrapped"),
        Err(error) => tracing::info!(%error, "the cluster was bootstrapped before"),
    }
}

/// As the leader: makes an identity the voter of a member.
pub async fn admit(node: &Node, member: u64, identity: u64) -> Result<(), Refusal> {
    if node.settings.address(member).is_none() {
        return Err(Refusal::Rejected(format!("there is no member {member}")));
    }
    let admission = async {
        node.raft.add_learner(identity, MemberSlot { member }, true).await?;
        let (voters, replaced) = voters_with(node, member, identity);
        node.raft.change_membership(voters, false).await?;
        if !replaced.is_empty() {
            node.raft.change_membership(ChangeMembers::RemoveNodes(replaced), false).await?;
        }
        Ok(())
    };
    match timeout(ADMISSION_TIMEOUT, admission).await {
        Ok(admitted) => {
            admitted.map_err(|error: crate::types::WriteError| Refusal::Rejected(error.to_string()))
        }
        Err(_) => Err(Refusal::Unknown("the admission timed out".into())),
    }
}

/// The voters once this identity is the voter of the member, and the learners of the member that are then
/// superseded.
fn voters_with(node: &Node, member: u64, identity: u64) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let stored = Arc::clone(&node.raft.metrics().borrow().membership_config);
    let membership = stored.membership();
    let is_of_member = |id: &u64| membership.get_node(id).is_some_and(|slot| slot.member == member);
    let last = membership.get_joint_config().last().cloned().unwrap_or_default();
    let voters = last.into_iter().filter(|id| !is_of_member(id)).chain([identity]).collect();
    let replaced = membership.learner_ids().filter(|id| is_of_member(id) && *id != identity).collect();
    (voters, replaced)
}
