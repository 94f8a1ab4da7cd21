//! What the client, the servers and the databases do: figures 2 to 6, line by line.

use super::state::{
    Branch, Cleaning, Client, Coordinator, DATABASES, Decision, Execution, ExecutionResult, Letter, Life,
    SERVERS, Stage, State, TRIES, Termination,
};
use super::variant::Variant;

const ALL: [bool; DATABASES] = [true; DATABASES];
const NOBODY: [bool; DATABASES] = [false; DATABASES];

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The client begins.
    Issue,
    /// The client's time is over.
    Timeout,
    /// A letter comes.
    Deliver(Letter),
    /// A letter comes, and the database takes it badly: it votes no, or does not know what it has prepared.
    DeliverBadly(Letter),
    /// A letter of a server that is no more does not come.
    Lose(Letter),
    /// A server that owns a try computes it.
    Compute(u8),
    /// A server that has the votes writes `regD`.
    Write(u8),
    /// A cleaning thread begins a round because of this server.
    Suspect(u8, Life),
    /// A cleaning thread goes on to the next try.
    Walk(u8),
    /// Somebody finds a prepared branch, by database and try.
    Sweep(usize, u8),
    Crash(u8),
    Restart(u8),
    Outage(usize),
}

impl Variant {
    /// What a server calls itself in `regA`.
    pub fn name(&self, life: Life) -> Life {
        if self.new_names { life } else { Life { number: 1, ..life } }
    }

    /// Whether somebody of this name has crashed and is not back.
    pub fn is_dead(&self, state: &State, name: Life) -> bool {
        let server = state.server(name.server);
        !server.is_up || self.name(state.life(name.server)) != name
    }

    pub fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Issue => ask_first(state),
            Action::Timeout => ask_all(state),
            Action::Deliver(letter) => {
                state.letters.remove(&letter);
                self.deliver(state, letter);
            }
            Action::DeliverBadly(letter) => {
                state.letters.remove(&letter);
                deliver_badly(state, letter);
            }
            Action::Lose(letter) => {
                state.letters.remove(&letter);
                if let Letter::Prepare { to, computed, .. } = letter {
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
                let life = state.server(server).life + 1;
                *state.server_mut(server) = Coordinator::new(life);
            }
            Action::Outage(database) => outage(state, database),
        }
    }

    fn deliver(&self, state: &mut State, letter: Letter) {
        match letter {
            Letter::Request { to, attempt, .. } => self.take_request(state, to, attempt),
            Letter::Prepare { from, to, computed } => {
                let is_refused = state.databases[to].remembered.contains(&computed.attempt);
                if is_refused {
                    drop_branch(state, to, computed);
                }
                vote(state, from, to, computed);
            }
            Letter::Decide { from, to, attempt, decision } => {
                self.terminate_branch(state, to, attempt, decision, Some(from));
                acknowledge(state, from, to, attempt);
            }
            // Figure 2, lines 4 and 7 to 10.
            Letter::Result { attempt, decision, .. } => {
                if attempt != state.client.attempt {
                    return;
                }
                state.letters.retain(|letter| !matches!(letter, Letter::Result { .. }));
                match decision {
                    Decision::Commit(computed) => state.client.stage = Stage::Delivered(computed),
                    Decision::Abort => {
                        state.client = Client { attempt: attempt + 1, stage: Stage::Begin };
                        ask_first(state);
                    }
                }
            }
            Letter::Ready { from, to } => ready(state, from, to),
        }
    }

    /// Figure 5, lines 2 to 7.
    fn take_request(&self, state: &mut State, server: u8, attempt: u8) {
        let from = state.life(server);
        if let Some(computed) = state.server(server).decision {
            state.send(Letter::Result { from, attempt, decision: Decision::Commit(computed) });
            return;
        }
        let this = self.name(from);
        let owner = *state.claims.entry(attempt).or_insert(this);
        if owner == this {
            state.server_mut(server).execution = Execution::Claimed(attempt);
        }
    }

    /// Figure 6, from line 5 on, up to the next try that has to be cleaned.
    fn walk(&self, state: &mut State, server: u8, of: Life, mut attempt: u8) {
        let from = state.life(server);
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

    /// Whether a round of cleaning would do anything.
    pub fn is_worth(&self, state: &State, server: u8, of: Life) -> bool {
        let clist = &state.server(server).clist;
        let is_open = |(attempt, owner): (&u8, &Life)| *owner == of && !clist.contains(attempt);
        let would_spin = !self.advances_always && state.claims.contains_key(&1);
        would_spin || state.claims.iter().any(is_open)
    }

    /// Figure 3, line 8, on an XA engine. `by` is the server that asks; the sweeper asks for none.
    fn terminate_branch(
        &self,
        state: &mut State,
        database: usize,
        attempt: u8,
        decision: Decision,
        by: Option<Life>,
    ) {
        let database = &mut state.databases[database];
        if decision == Decision::Abort && self.remembers_aborts {
            database.remembered.insert(attempt);
        }
        let Some(Branch { computed, maker, is_prepared }) = database.branches.get(&attempt).copied() else {
            return;
        };
        // What is prepared can be ended by anybody. What is at work is unknown to all but its own connection, which can roll it back.
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
fn ask_first(state: &mut State) {
    let attempt = state.client.attempt;
    state.client.stage = Stage::First;
    if attempt <= TRIES {
        state.send(Letter::Request { to: 0, attempt, again: false });
    }
}

/// Figure 2, line 6.
fn ask_all(state: &mut State) {
    let attempt = state.client.attempt;
    state.client.stage = Stage::Any;
    for to in 0..SERVERS {
        state.send(Letter::Request { to, attempt, again: true });
    }
}

/// Figure 5, lines 8 and 9: computes, and asks for votes.
fn compute(state: &mut State, server: u8) {
    let Execution::Claimed(attempt) = state.server(server).execution else { return };
    let from = state.life(server);
    let run = state.runs.entry(attempt).or_default();
    *run += 1;
    let computed = ExecutionResult { attempt, run: *run };
    for to in 0..DATABASES {
        let branch = Branch { computed, maker: from, is_prepared: false };
        // If there is a branch of that name already, the database refuses another.
        state.databases[to].branches.entry(attempt).or_insert(branch);
        state.send(Letter::Prepare { from, to, computed });
    }
    state.server_mut(server).execution = Execution::Voting { computed, replied: NOBODY, yes: NOBODY };
}

/// Figure 3, line 6: yes if the work is there. The vote is heard by whoever still waits for it.
fn vote(state: &mut State, from: Life, to: usize, computed: ExecutionResult) {
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
    hear_vote(state, from, to, computed, is_yes);
}

fn hear_vote(state: &mut State, from: Life, to: usize, computed: ExecutionResult, is_yes: bool) {
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

/// Figure 5, lines 10 and 11: writes what came of the votes, and obeys what stands.
fn write(state: &mut State, server: u8) {
    let Execution::Voting { computed, yes, .. } = state.server(server).execution else { return };
    let wanted = if yes == ALL { Decision::Commit(computed) } else { Decision::Abort };
    let decision = *state.decisions.entry(computed.attempt).or_insert(wanted);
    let termination = terminate(state, state.life(server), computed.attempt, decision);
    state.server_mut(server).execution = Execution::Terminating(termination);
}

/// Figure 4, `terminate`, line 3.
fn terminate(state: &mut State, from: Life, attempt: u8, decision: Decision) -> Termination {
    for to in 0..DATABASES {
        state.send(Letter::Decide { from, to, attempt, decision });
    }
    Termination { attempt, decision, acked: NOBODY, replied: NOBODY }
}

/// A database has acknowledged a decision.
fn acknowledge(state: &mut State, from: Life, database: usize, attempt: u8) {
    if !state.is_alive(from) {
        return;
    }
    let server = state.server(from.server).clone();
    let answered = |mut termination: Termination| {
        termination.acked[database] = true;
        termination.replied[database] = true;
        termination
    };
    if let Execution::Terminating(termination) = server.execution
        && termination.attempt == attempt
    {
        go_on_executing(state, from, answered(termination));
    }
    if let Cleaning::Terminating { of, termination } = server.cleaning
        && termination.attempt == attempt
    {
        go_on_cleaning(state, from, of, answered(termination));
    }
}

/// A database says that it has come back. Whoever waits for it takes that for an answer; otherwise it means nothing.
fn ready(state: &mut State, database: usize, to: u8) {
    let from = state.life(to);
    let server = state.server(to).clone();
    let answered = |mut termination: Termination| {
        termination.replied[database] = true;
        termination
    };
    match server.execution {
        // A vote that came before it counts.
        Execution::Voting { computed, mut replied, yes } => {
            replied[database] = true;
            state.server_mut(to).execution = Execution::Voting { computed, replied, yes };
        }
        Execution::Terminating(termination) => go_on_executing(state, from, answered(termination)),
        Execution::Idle | Execution::Claimed(_) => {}
    }
    if let Cleaning::Terminating { of, termination } = server.cleaning {
        go_on_cleaning(state, from, of, answered(termination));
    }
}

/// Figure 4, `terminate`, lines 4 to 7: again, if all have answered and not all have acknowledged.
fn go_on(state: &mut State, from: Life, termination: Termination) -> Option<Termination> {
    let Termination { attempt, decision, acked, replied } = termination;
    if replied != ALL {
        return Some(termination);
    }
    if acked != ALL {
        let again = terminate(state, from, attempt, decision);
        return Some(Termination { acked, ..again });
    }
    // An answer about a try that the client has left behind is thrown away there.
    if state.client.attempt == attempt && state.delivered().is_none() {
        state.send(Letter::Result { from, attempt, decision });
    }
    None
}

fn go_on_executing(state: &mut State, from: Life, termination: Termination) {
    let next = go_on(state, from, termination);
    let server = state.server_mut(from.server);
    server.execution = next.map_or(Execution::Idle, Execution::Terminating);
    if let (None, Decision::Commit(computed)) = (next, termination.decision) {
        server.decision = Some(computed);
    }
}

fn go_on_cleaning(state: &mut State, from: Life, of: Life, termination: Termination) {
    let next = go_on(state, from, termination);
    let server = state.server_mut(from.server);
    server.cleaning = match next {
        Some(termination) => Cleaning::Terminating { of, termination },
        None => {
            server.clist.insert(termination.attempt);
            Cleaning::Walking { of, attempt: termination.attempt + 1 }
        }
    };
}

fn deliver_badly(state: &mut State, letter: Letter) {
    match letter {
        Letter::Prepare { from, to, computed } => {
            state.left.refusals -= 1;
            drop_branch(state, to, computed);
            state.databases[to].aborted.insert(computed);
            hear_vote(state, from, to, computed, false);
        }
        Letter::Decide { from, to, attempt, .. } => {
            state.left.unknown -= 1;
            acknowledge(state, from, to, attempt);
        }
        Letter::Request { .. } | Letter::Result { .. } | Letter::Ready { .. } => {}
    }
}

/// The work is gone with its connection.
fn drop_branch(state: &mut State, database: usize, computed: ExecutionResult) {
    state.databases[database].branches.retain(|_, branch| branch.computed != computed || branch.is_prepared);
}

/// A server is no more, and neither are its connections. A `Prepare` that is on its way may be faster than the end of its connection.
fn crash(state: &mut State, number: u8) {
    state.left.crashes -= 1;
    let life = state.life(number);
    let State { letters, databases, servers, .. } = state;
    letters.retain(|letter| !letter.is_to_server(number));
    for (to, database) in databases.iter_mut().enumerate() {
        database.branches.retain(|_, branch| {
            let prepare = Letter::Prepare { from: life, to, computed: branch.computed };
            branch.is_prepared || branch.maker != life || letters.contains(&prepare)
        });
    }
    servers[usize::from(number)] = Coordinator { is_up: false, ..Coordinator::new(life.number) };
}

/// A database crashes and comes back. Figure 3, line 2.
fn outage(state: &mut State, database: usize) {
    state.left.outages -= 1;
    state.letters.retain(|letter| !letter.is_to_database(database));
    state.databases[database].branches.retain(|_, branch| branch.is_prepared);
    for to in 0..SERVERS {
        state.send(Letter::Ready { from: database, to });
    }
}
