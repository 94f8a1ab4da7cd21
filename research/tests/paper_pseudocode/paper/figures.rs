//! The steps of the client, the servers and the databases: figures 2 to 6, line by line.

use super::state::{
    ATTEMPTS, Branch, Cleaning, Client, Coordinator, DATABASES, Decision, Execution, ExecutionResult,
    Incarnation, Message, SERVERS, Stage, State, Termination,
};
use super::variant::Variant;

const ALL: [bool; DATABASES] = [true; DATABASES];
const NONE: [bool; DATABASES] = [false; DATABASES];

/// A step of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The client sends its request.
    Issue,
    /// The timeout of the client expires.
    Timeout,
    /// A message arrives.
    Deliver(Message),
    /// A message arrives, and the database votes no or reports a prepared branch as unknown.
    DeliverBadly(Message),
    /// A message of a crashed server is lost.
    Lose(Message),
    /// The owner of an attempt computes it.
    Compute(u8),
    /// A server that has the votes writes `regD`.
    Write(u8),
    /// A cleaning thread begins a round for this suspect.
    Suspect(u8, Incarnation),
    /// A cleaning thread continues with the next attempt.
    Walk(u8),
    /// Recovery finds a prepared branch, by database and attempt.
    Sweep(usize, u8),
    Crash(u8),
    Restart(u8),
    Outage(usize),
}

impl Variant {
    /// The name of a server in `regA`.
    pub fn name(&self, incarnation: Incarnation) -> Incarnation {
        if self.new_names { incarnation } else { Incarnation { number: 1, ..incarnation } }
    }

    /// Whether the server with this name has crashed and has not restarted under it.
    pub fn is_dead(&self, state: &State, name: Incarnation) -> bool {
        let server = state.server(name.server);
        !server.is_up || self.name(state.incarnation(name.server)) != name
    }

    pub fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Issue => send_first(state),
            Action::Timeout => send_to_all(state),
            Action::Deliver(message) => {
                state.messages.remove(&message);
                self.deliver(state, message);
            }
            Action::DeliverBadly(message) => {
                state.messages.remove(&message);
                deliver_with_fault(state, message);
            }
            Action::Lose(message) => {
                state.messages.remove(&message);
                if let Message::Prepare { to, computed, .. } = message {
                    drop_branch(state, to, computed);
                }
            }
            Action::Compute(server) => compute(state, server),
            Action::Write(server) => write(state, server),
            Action::Suspect(server, of) => {
                state.left.suspicions -= u8::from(!self.is_dead(state, of));
                self.walk(state, server, of, 1);
            }
            Action::Walk(server) => {
                if let Cleaning::Walking { of, attempt } = state.server(server).cleaning {
                    self.walk(state, server, of, attempt);
                }
            }
            Action::Sweep(database, attempt) => {
                let decision = *state.decisions.entry(attempt).or_insert(Decision::Abort);
                self.terminate_branch(state, database, attempt, decision, None);
            }
            Action::Crash(server) => crash(state, server),
            Action::Restart(server) => {
                state.left.restarts -= 1;
                let incarnation = state.server(server).incarnation + 1;
                *state.server_mut(server) = Coordinator::new(incarnation);
            }
            Action::Outage(database) => outage(state, database),
        }
    }

    fn deliver(&self, state: &mut State, message: Message) {
        match message {
            Message::Request { to, attempt, .. } => self.take_request(state, to, attempt),
            Message::Prepare { from, to, computed } => {
                let is_refused = state.databases[to].remembered.contains(&computed.attempt);
                if is_refused {
                    drop_branch(state, to, computed);
                }
                vote(state, from, to, computed);
            }
            Message::Decide { from, to, attempt, decision } => {
                self.terminate_branch(state, to, attempt, decision, Some(from));
                acknowledge(state, from, to, attempt);
            }
            // Figure 2, lines 4 and 7 to 10.
            Message::Result { attempt, decision, .. } => {
                if attempt != state.client.attempt {
                    return;
                }
                state.messages.retain(|message| !matches!(message, Message::Result { .. }));
                match decision {
                    Decision::Commit(computed) => state.client.stage = Stage::Delivered(computed),
                    Decision::Abort => {
                        state.client = Client { attempt: attempt + 1, stage: Stage::Begin };
                        send_first(state);
                    }
                }
            }
            Message::Ready { from, to } => ready(state, from, to),
        }
    }

    /// Figure 5, lines 2 to 7.
    fn take_request(&self, state: &mut State, server: u8, attempt: u8) {
        let from = state.incarnation(server);
        if let Some(computed) = state.server(server).decision {
            state.send(Message::Result { from, attempt, decision: Decision::Commit(computed) });
            return;
        }
        let this = self.name(from);
        let owner = *state.claims.entry(attempt).or_insert(this);
        if owner == this {
            state.server_mut(server).execution = Execution::Claimed(attempt);
        }
    }

    /// Figure 6, from line 5 on, up to the next attempt to clean.
    fn walk(&self, state: &mut State, server: u8, of: Incarnation, mut attempt: u8) {
        let from = state.incarnation(server);
        state.server_mut(server).cleaning = loop {
            match state.claims.get(&attempt) {
                None => break Cleaning::Idle,
                Some(owner) if *owner == of && !state.server(server).clist.contains(&attempt) => {
                    let decision = *state.decisions.entry(attempt).or_insert(Decision::Abort);
                    break Cleaning::Terminating {
                        of,
                        termination: terminate(state, from, attempt, decision),
                    };
                }
                Some(_) if self.advances_always => attempt += 1,
                Some(_) => break Cleaning::Spinning(attempt),
            }
        };
    }

    /// Whether a round of cleaning has an effect.
    pub fn is_worth(&self, state: &State, server: u8, of: Incarnation) -> bool {
        let clist = &state.server(server).clist;
        let is_open = |(attempt, owner): (&u8, &Incarnation)| *owner == of && !clist.contains(attempt);
        let would_spin = !self.advances_always && state.claims.contains_key(&1);
        would_spin || state.claims.iter().any(is_open)
    }

    /// Figure 3, line 8, on an XA engine. `by` is the server that sent the decision; `None` for recovery.
    fn terminate_branch(
        &self,
        state: &mut State,
        database: usize,
        attempt: u8,
        decision: Decision,
        by: Option<Incarnation>,
    ) {
        let database = &mut state.databases[database];
        if decision == Decision::Abort && self.remembers_aborts {
            database.remembered.insert(attempt);
        }
        let Some(Branch { computed, maker, is_prepared }) = database.branches.get(&attempt).copied() else {
            return;
        };
        // Any connection can end a prepared branch. Only its own connection can end an open one.
        let is_own = self.remembers_aborts || by == Some(maker);
        match decision {
            Decision::Commit(_) if is_prepared => {
                database.branches.remove(&attempt);
                database.committed.insert(computed);
            }
            Decision::Abort if is_prepared => {
                database.branches.remove(&attempt);
                database.aborted.insert(computed);
            }
            Decision::Abort if is_own => {
                database.branches.remove(&attempt);
            }
            Decision::Commit(_) | Decision::Abort => {}
        }
    }
}

/// Figure 2, line 2.
fn send_first(state: &mut State) {
    let attempt = state.client.attempt;
    state.client.stage = Stage::First;
    if attempt <= ATTEMPTS {
        state.send(Message::Request { to: 0, attempt, again: false });
    }
}

/// Figure 2, line 6.
fn send_to_all(state: &mut State) {
    let attempt = state.client.attempt;
    state.client.stage = Stage::Any;
    for to in 0..SERVERS {
        state.send(Message::Request { to, attempt, again: true });
    }
}

/// Figure 5, lines 8 and 9: computes, and requests the votes.
fn compute(state: &mut State, server: u8) {
    let Execution::Claimed(attempt) = state.server(server).execution else { return };
    let from = state.incarnation(server);
    let run = state.runs.entry(attempt).or_default();
    *run += 1;
    let computed = ExecutionResult { attempt, run: *run };
    for to in 0..DATABASES {
        let branch = Branch { computed, maker: from, is_prepared: false };
        // The database refuses a second branch of the same name.
        state.databases[to].branches.entry(attempt).or_insert(branch);
        state.send(Message::Prepare { from, to, computed });
    }
    state.server_mut(server).execution = Execution::Voting { computed, replied: NONE, yes: NONE };
}

/// Figure 3, line 6: yes if the branch exists. A server that still waits receives the vote.
fn vote(state: &mut State, from: Incarnation, to: usize, computed: ExecutionResult) {
    let database = &mut state.databases[to];
    let branch = database.branches.get_mut(&computed.attempt).filter(|branch| branch.computed == computed);
    let is_yes = match branch {
        Some(branch) => {
            branch.is_prepared = true;
            database.voted.insert(computed);
            true
        }
        None => {
            database.aborted.insert(computed);
            false
        }
    };
    receive_vote(state, from, to, computed, is_yes);
}

fn receive_vote(state: &mut State, from: Incarnation, to: usize, computed: ExecutionResult, is_yes: bool) {
    if !state.is_alive(from) {
        return;
    }
    if let Execution::Voting { computed: awaited, replied, yes } =
        &mut state.server_mut(from.server).execution
        && *awaited == computed
    {
        (replied[to], yes[to]) = (true, is_yes);
    }
}

/// Figure 5, lines 10 and 11: writes the outcome of the votes, and carries out the recorded decision.
fn write(state: &mut State, server: u8) {
    let Execution::Voting { computed, yes, .. } = state.server(server).execution else { return };
    let proposed = if yes == ALL { Decision::Commit(computed) } else { Decision::Abort };
    let decision = *state.decisions.entry(computed.attempt).or_insert(proposed);
    let termination = terminate(state, state.incarnation(server), computed.attempt, decision);
    state.server_mut(server).execution = Execution::Terminating(termination);
}

/// Figure 4, `terminate`, line 3.
fn terminate(state: &mut State, from: Incarnation, attempt: u8, decision: Decision) -> Termination {
    for to in 0..DATABASES {
        state.send(Message::Decide { from, to, attempt, decision });
    }
    Termination { attempt, decision, acked: NONE, replied: NONE }
}

/// A database has acknowledged a decision.
fn acknowledge(state: &mut State, from: Incarnation, database: usize, attempt: u8) {
    if !state.is_alive(from) {
        return;
    }
    let server = state.server(from.server).clone();
    let replied = |mut termination: Termination| {
        termination.acked[database] = true;
        termination.replied[database] = true;
        termination
    };
    if let Execution::Terminating(termination) = server.execution
        && termination.attempt == attempt
    {
        continue_execution(state, from, replied(termination));
    }
    if let Cleaning::Terminating { of, termination } = server.cleaning
        && termination.attempt == attempt
    {
        continue_cleaning(state, from, of, replied(termination));
    }
}

/// A database has restarted. A server that waits for it takes that for a reply.
fn ready(state: &mut State, database: usize, to: u8) {
    let from = state.incarnation(to);
    let server = state.server(to).clone();
    let replied = |mut termination: Termination| {
        termination.replied[database] = true;
        termination
    };
    match server.execution {
        // An earlier vote counts.
        Execution::Voting { computed, mut replied, yes } => {
            replied[database] = true;
            state.server_mut(to).execution = Execution::Voting { computed, replied, yes };
        }
        Execution::Terminating(termination) => continue_execution(state, from, replied(termination)),
        Execution::Idle | Execution::Claimed(_) => {}
    }
    if let Cleaning::Terminating { of, termination } = server.cleaning {
        continue_cleaning(state, from, of, replied(termination));
    }
}

/// Figure 4, `terminate`, lines 4 to 7: sends again if all have replied and not all have acknowledged.
fn continue_termination(
    state: &mut State,
    from: Incarnation,
    termination: Termination,
) -> Option<Termination> {
    let Termination { attempt, decision, acked, replied } = termination;
    if replied != ALL {
        return Some(termination);
    }
    if acked != ALL {
        let again = terminate(state, from, attempt, decision);
        return Some(Termination { acked, ..again });
    }
    // The client ignores results of earlier attempts.
    if state.client.attempt == attempt && state.delivered().is_none() {
        state.send(Message::Result { from, attempt, decision });
    }
    None
}

fn continue_execution(state: &mut State, from: Incarnation, termination: Termination) {
    let next = continue_termination(state, from, termination);
    let server = state.server_mut(from.server);
    server.execution = next.map_or(Execution::Idle, Execution::Terminating);
    if let (None, Decision::Commit(computed)) = (next, termination.decision) {
        server.decision = Some(computed);
    }
}

fn continue_cleaning(state: &mut State, from: Incarnation, of: Incarnation, termination: Termination) {
    let next = continue_termination(state, from, termination);
    let server = state.server_mut(from.server);
    server.cleaning = match next {
        Some(termination) => Cleaning::Terminating { of, termination },
        None => {
            server.clist.insert(termination.attempt);
            Cleaning::Walking { of, attempt: termination.attempt + 1 }
        }
    };
}

fn deliver_with_fault(state: &mut State, message: Message) {
    match message {
        Message::Prepare { from, to, computed } => {
            state.left.refusals -= 1;
            drop_branch(state, to, computed);
            state.databases[to].aborted.insert(computed);
            receive_vote(state, from, to, computed, false);
        }
        Message::Decide { from, to, attempt, .. } => {
            state.left.unknown -= 1;
            acknowledge(state, from, to, attempt);
        }
        Message::Request { .. } | Message::Result { .. } | Message::Ready { .. } => {}
    }
}

/// A branch that is not prepared is lost with its connection.
fn drop_branch(state: &mut State, database: usize, computed: ExecutionResult) {
    state.databases[database].branches.retain(|_, branch| branch.computed != computed || branch.is_prepared);
}

/// A server crashes with its connections. A `Prepare` in flight may arrive before the connection ends.
fn crash(state: &mut State, number: u8) {
    state.left.crashes -= 1;
    let incarnation = state.incarnation(number);
    let State { messages, databases, servers, .. } = state;
    messages.retain(|message| !message.is_to_server(number));
    for (to, database) in databases.iter_mut().enumerate() {
        database.branches.retain(|_, branch| {
            let prepare = Message::Prepare { from: incarnation, to, computed: branch.computed };
            branch.is_prepared || branch.maker != incarnation || messages.contains(&prepare)
        });
    }
    servers[usize::from(number)] = Coordinator { is_up: false, ..Coordinator::new(incarnation.number) };
}

/// A database crashes and restarts. Figure 3, line 2.
fn outage(state: &mut State, database: usize) {
    state.left.outages -= 1;
    state.messages.retain(|message| !message.is_to_database(database));
    state.databases[database].branches.retain(|_, branch| branch.is_prepared);
    for to in 0..SERVERS {
        state.send(Message::Ready { from: database, to });
    }
}
