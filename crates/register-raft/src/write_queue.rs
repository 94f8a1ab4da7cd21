//! What is to be written, in the order it was given: a group at a time, each whatever came while the one before was on its way.
//!
//! What must hold: *in order*. There is one proposal under way, and it is repeated until it is answered or its time is over. If it has no
//! answer then, everything that was given before that was known is refused: nothing happens that was given after something that did not. And
//! *nothing more*: what is given by somebody who was told of the failure is not refused for it.

use std::sync::{Arc, Mutex, PoisonError};

use jeton_register::{Error, WritePermit};
use jeton_wal::AbortOnPanic;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::command::{Answer, Command, Outcome, Proposal};
use crate::node::{LeaderConnections, Node};
use crate::settings::PROPOSAL_BYTES_MAX;

type Waiting = oneshot::Sender<Result<Answer, Error>>;

/// A change that somebody waits for.
pub struct Job {
    pub command: Command,
    pub answer: Waiting,
    /// Its room, until it is answered.
    pub permit: WritePermit,
    /// When it was asked for: its time is over some time after this, wherever it waits.
    pub given: Instant,
}

/// Where changes are given to the queue.
#[derive(Clone)]
pub struct WriteQueueSender {
    jobs: mpsc::UnboundedSender<Job>,
    /// Held while something is given, and while a failure is told to all that it concerns: whoever gives something comes before that, and is
    /// refused, or after it, and could know.
    order: Arc<Mutex<()>>,
}

impl WriteQueueSender {
    pub fn new() -> (Self, Queue) {
        let (jobs, end) = mpsc::unbounded_channel();
        let order = Arc::<Mutex<()>>::default();
        (Self { jobs, order: Arc::clone(&order) }, Queue { jobs: end, order })
    }

    pub fn give(&self, job: Job) -> Result<(), Error> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        self.jobs.send(job).map_err(|_| Error::Unavailable("this member has ended".into()))
    }
}

/// What was given, and whom to keep out while a failure is told.
pub struct Queue {
    jobs: mpsc::UnboundedReceiver<Job>,
    order: Arc<Mutex<()>>,
}

/// Takes what is to be written to the leader, until nobody can give anything any more.
pub async fn run(mut queue: Queue, node: Arc<Node>, session: u64) {
    let _guard = AbortOnPanic;
    let mut ways = LeaderConnections::default();
    let mut sequence = 0;
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(job) => job,
            None => match queue.jobs.recv().await {
                Some(job) => job,
                None => return,
            },
        };
        // What came later has more time, but nothing behind this may happen if this does not.
        let deadline = first.given + node.settings.timing.request;
        let mut bytes = first.command.cost();
        let mut commands = vec![first.command];
        let mut waiting = vec![(first.answer, first.permit)];
        while let Ok(job) = queue.jobs.try_recv() {
            let cost = job.command.cost();
            if bytes + cost > PROPOSAL_BYTES_MAX {
                next = Some(job);
                break;
            }
            bytes += cost;
            commands.push(job.command);
            waiting.push((job.answer, job.permit));
        }
        sequence += 1;
        let proposal = Proposal { session, sequence, commands };
        match propose(&node, &mut ways, proposal, deadline).await {
            Ok(answers) => {
                for ((waiting, _permit), answer) in waiting.into_iter().zip(answers) {
                    // Whoever does not wait any more learns it by writing again.
                    let _ = waiting.send(Ok(answer));
                }
            }
            Err(failure) => queue.fail(waiting, next.take(), &failure),
        }
    }
}

impl Queue {
    /// Tells a failure to those who waited for it, and refuses everything that was given before they were told.
    fn fail(&mut self, waiting: Vec<(Waiting, WritePermit)>, next: Option<Job>, failure: &Error) {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        for (waiting, _permit) in waiting {
            let _ = waiting.send(Err(failure.clone()));
        }
        let refused = Error::Unavailable(format!("something given before failed: {failure}"));
        for job in next.into_iter().chain(std::iter::from_fn(|| self.jobs.try_recv().ok())) {
            let _ = job.answer.send(Err(refused.clone()));
        }
    }
}

async fn propose(
    node: &Node,
    ways: &mut LeaderConnections,
    proposal: Proposal,
    deadline: Instant,
) -> Result<Vec<Answer>, Error> {
    if deadline <= Instant::now() {
        // Not even tried, so that it is not in doubt.
        return Err(Error::Unavailable("its time was over before its turn came".into()));
    }
    let commands = proposal.commands.clone();
    let (index, mut answers) = node.propose(ways, proposal, deadline).await?;
    if answers.len() != commands.len() {
        return Err(Error::Unknown(format!("{} answers to {} commands", answers.len(), commands.len())));
    }
    let is_held =
        |answer: &Answer| matches!(answer, Answer::Written(outcomes) if outcomes.contains(&Outcome::Held));
    if answers.iter().any(is_held) {
        let reached = timeout_at(deadline, node.shared.reach(index)).await;
        reached.map_err(|_| Error::Unknown("this member is behind the others".into()))?;
        node.shared.with(|state| {
            for (command, answer) in commands.iter().zip(&mut answers) {
                let (Command::Write(writes), Answer::Written(outcomes)) = (command, answer) else { continue };
                for (write, outcome) in writes.iter().zip(outcomes) {
                    if *outcome == Outcome::Held {
                        *outcome = state.find(write).unwrap_or(Outcome::Trimmed);
                    }
                }
            }
        });
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;

    use super::*;

    fn job() -> (Job, oneshot::Receiver<Result<Answer, Error>>) {
        let (answer, answered) = oneshot::channel();
        let command = Command::Write(Vec::new());
        (Job { command, answer, permit: WritePermit::unlimited(), given: Instant::now() }, answered)
    }

    /// Many wait, so that it takes a while to tell them all: the first of them gives the next thing meanwhile.
    #[test]
    fn who_was_told_of_a_failure_is_not_refused_for_it() {
        let failure = Error::Full("no room".into());
        for _ in 0..10 {
            let (entrance, mut queue) = WriteQueueSender::new();
            let (first, told) = job();
            let (before, refused) = job();
            let others: Vec<_> = (0..5_000).map(|_| job()).collect();
            let (others, _answers): (Vec<_>, Vec<_>) = others.into_iter().unzip();
            let waiting = [first].into_iter().chain(others).map(|job| (job.answer, job.permit)).collect();
            entrance.give(before).unwrap();
            let caller = std::thread::spawn(move || {
                assert!(matches!(block_on(told), Ok(Err(Error::Full(_)))));
                let (next, answer) = job();
                entrance.give(next).unwrap();
                answer
            });
            queue.fail(waiting, None, &failure);
            assert!(matches!(block_on(refused), Ok(Err(Error::Unavailable(_)))));
            let mut answer = caller.join().unwrap();
            assert!(answer.try_recv().is_err(), "it was refused");
            assert!(queue.jobs.try_recv().is_ok(), "it waits");
        }
    }
}
