//! The task that sends the writes of this member to the leader: one proposal at a time, retried until it has
//! a response or times out.

use std::sync::Arc;

use jeton_register::{Error, WriteQueueReceiver};
use jeton_wal::AbortOnPanic;
use tokio::time::{Instant, timeout_at};

use crate::command::{Command, CommandResult, Outcome, Proposal};
use crate::node::{LeaderConnections, Node};
use crate::settings::PROPOSAL_BYTES_MAX;

/// Proposes what is in the queue until it is closed.
pub async fn run(mut queue: WriteQueueReceiver<Command, CommandResult>, node: Arc<Node>, session: u64) {
    let _guard = AbortOnPanic;
    let mut connections = LeaderConnections::default();
    let mut sequence = 0;
    loop {
        let mut bytes = 0;
        let fits = |command: &Command| {
            bytes += command.cost();
            bytes <= PROPOSAL_BYTES_MAX
        };
        let Some(group) = queue.next_group(fits).await else { return };
        // The first write has the earliest deadline. The others must not take effect if it does not.
        let deadline = Instant::from_std(group[0].submitted) + node.settings.timing.request;
        let commands = group.iter().map(|queued| queued.request.clone()).collect();
        sequence += 1;
        let proposal = Proposal { session, sequence, commands };
        match propose(&node, &mut connections, proposal, deadline).await {
            Ok(results) => {
                group.into_iter().zip(results).for_each(|(queued, result)| queued.respond(Ok(result)));
            }
            Err(error) => queue.fail(group, &error),
        }
    }
}

async fn propose(
    node: &Node,
    connections: &mut LeaderConnections,
    proposal: Proposal,
    deadline: Instant,
) -> Result<Vec<CommandResult>, Error> {
    if deadline <= Instant::now() {
        // Not sent, so that its outcome is known.
        return Err(Error::Unavailable("the request timed out in the queue".into()));
    }
    let commands = proposal.commands.clone();
    let (index, mut results) = node.propose(connections, proposal, deadline).await?;
    if results.len() != commands.len() {
        return Err(Error::Unknown(format!("{} results of {} commands", results.len(), commands.len())));
    }
    let is_incomplete = |result: &CommandResult| matches!(result, CommandResult::Written(outcomes) if outcomes.contains(&Outcome::Omitted));
    if results.iter().any(is_incomplete) {
        let applied = timeout_at(deadline, node.shared.await_applied(index)).await;
        applied.map_err(|_| Error::Unknown("this member has not applied the log yet".into()))?;
        node.shared.with(|state| {
            for (command, result) in commands.iter().zip(&mut results) {
                let (Command::Write(writes), CommandResult::Written(outcomes)) = (command, result) else {
                    continue;
                };
                for (write, outcome) in writes.iter().zip(outcomes) {
                    if *outcome == Outcome::Omitted {
                        *outcome = state.find(write);
                    }
                }
            }
        });
    }
    Ok(results)
}
