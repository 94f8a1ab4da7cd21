//! How a cluster begins, and how an identity comes to its seat.
//!
//! What must hold:
//! - *Founded once.* Only the member with the lowest number founds, only while its own log is empty, and only when all others have said that
//!   theirs are, and that they know of the same members. Whoever has a log was founded before: then nobody founds.
//! - *Let in by who knows.* An identity that does not vote asks the leader for the seat of its member. The leader brings it up to date first, and then
//!   has it replace whoever sat there, by a change that a majority of those before and of those after agree to. So what was acknowledged
//!   is still with a majority, and the identity that was replaced counts no more, should it come back.
//!
//! A member whose log is in memory comes back with a new identity each time, and one that lost its disk, too: to both it is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use tokio::time::{Instant, timeout};

use crate::message::{Refusal, Reply, Request, Status};
use crate::node::{LeaderConnections, Node};
use crate::types::MemberSlot;

/// How long letting somebody in may take before it asks again.
const ADMISSION_TIME: Duration = Duration::from_secs(30);

/// Founds the cluster, or gets this member into it. Returns when its identity votes.
pub async fn join_cluster(node: Arc<Node>) {
    let mut ways = LeaderConnections::default();
    let mut metrics = node.raft.server_metrics();
    while !node.is_seated() {
        step(&node, &mut ways).await;
        // Who leads or votes has changed, or it is time to ask the others again.
        let _ = timeout(node.settings.timing.election, metrics.changed()).await;
    }
    tracing::info!(member = node.settings.me, identity = node.identity, "this member votes");
}

async fn step(node: &Node, ways: &mut LeaderConnections) {
    let mut others = BTreeMap::new();
    for member in node.settings.others() {
        let deadline = Instant::now() + node.settings.timing.election;
        if let Ok(Reply::Status(status)) = ways.to(member, node).ask(&Request::Status, deadline).await {
            others.insert(member, status);
        }
    }
    let mine = node.status();
    let all_blank = mine.is_blank && others.values().all(|status| status.is_blank);
    let is_lowest = node.settings.others().all(|other| other > node.settings.me);
    if all_blank && is_lowest && others.len() + 1 == node.settings.members.len() {
        if agree(node, &mine, &others) {
            found(node, mine, &others).await;
        }
        return;
    }
    let leader =
        others.values().find_map(|status| status.leader).filter(|&leader| leader != node.settings.me);
    if let Some(leader) = leader {
        let request = Request::Admit { member: node.settings.me, identity: node.identity };
        let deadline = Instant::now() + ADMISSION_TIME;
        match ways.to(leader, node).ask(&request, deadline).await {
            Ok(Reply::Admitted) => {}
            Ok(reply) => tracing::info!(?reply, "not let in yet"),
            Err(silence) => tracing::info!(%silence, "not let in yet"),
        }
    }
}

/// Whether all have the same members in their settings. A majority of three and one of five need not meet.
fn agree(node: &Node, mine: &Status, others: &BTreeMap<u64, Status>) -> bool {
    let discord = others.iter().find(|(_, status)| status.members != mine.members).map(|(member, status)| {
        let (theirs, ours) = (&status.members, &mine.members);
        format!("member {member} has members {theirs:?} in its settings, and here they are {ours:?}")
    });
    if let Some(why) = &discord {
        tracing::warn!(why, "the cluster is not founded");
    }
    let is_none = discord.is_none();
    node.heard.note_discord(discord);
    is_none
}

async fn found(node: &Node, mine: Status, others: &BTreeMap<u64, Status>) {
    let all = others.iter().map(|(&member, status)| (status.identity, MemberSlot { member }));
    let all: BTreeMap<u64, MemberSlot> =
        all.chain([(mine.identity, MemberSlot { member: node.settings.me })]).collect();
    match node.raft.initialize(all).await {
        Ok(()) => tracing::info!("the cluster is founded"),
        Err(error) => tracing::info!(%error, "the cluster was founded before"),
    }
}

/// As the leader: lets an identity into the seat of a member.
pub async fn admit(node: &Node, member: u64, identity: u64) -> Result<(), Refusal> {
    if node.settings.address(member).is_none() {
        return Err(Refusal::Unable(format!("there is no member {member}")));
    }
    let admission = async {
        let unable = |error: String| Refusal::Unable(error);
        node.raft
            .add_learner(identity, MemberSlot { member }, true)
            .await
            .map_err(|error| unable(error.to_string()))?;
        let (voters, stale) = seats(node, member, identity);
        node.raft.change_membership(voters, false).await.map_err(|error| unable(error.to_string()))?;
        if !stale.is_empty() {
            let change = ChangeMembers::RemoveNodes(stale);
            node.raft.change_membership(change, false).await.map_err(|error| unable(error.to_string()))?;
        }
        Ok(())
    };
    let admitted = timeout(ADMISSION_TIME, admission).await;
    admitted.unwrap_or_else(|_| Err(Refusal::Doubt("it takes too long".into())))
}

/// Who is to vote when this identity sits in the seat of the member, and which identities that do not vote are of no use any more.
fn seats(node: &Node, member: u64, identity: u64) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let metrics = node.raft.metrics();
    let stored = Arc::clone(&metrics.borrow().membership_config);
    let membership = stored.membership();
    let sits_there = |id: &u64| membership.get_node(id).is_some_and(|seat| seat.member == member);
    let last = membership.get_joint_config().last().cloned().unwrap_or_default();
    let voters = last.into_iter().filter(|id| !sits_there(id)).chain([identity]).collect();
    let stale = membership.learner_ids().filter(|id| sits_there(id) && *id != identity).collect();
    (voters, stale)
}
