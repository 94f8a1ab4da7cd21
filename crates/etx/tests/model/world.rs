//! A world for the protocol: two servers, two databases, registers, a client, and everything that may go wrong.
//!
//! The servers are the machines of the library, [`Work`] and [`Sweep`]. Each step that they want done is under way until the world does it, in any order; what
//! a server had under way when it crashed may come about, or not. Answers come with the deed: what is lost is the deed, or the server.
//!
//! Every path ends, because faults are limited in number. So what must happen at last is checked where nothing more can happen.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use jeton_etx::{
    Answer, BranchName, Computed, Decision, Ending, Event, Executor, Found, Home, Outcome, Participant,
    Question, RequestId, Step, Sweep, Sweeping, Try, Voice, Work,
};
use stateright::{Model, Property};

/// How many of each fault there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A server crashes. It comes back.
    pub crashes: u8,
    /// A server is taken for dead that is not.
    pub suspicions: u8,
    /// A database votes no, or the business logic fails.
    pub refusals: u8,
    /// The client asks another server before it has to.
    pub haste: u8,
    /// A database says that it does not know a branch, because another is just deciding it or its maker is still connected.
    pub unknown: u8,
    /// A database crashes: what is not prepared is lost.
    pub outages: u8,
}

/// What is broken on purpose, to see that the checks see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// Nothing.
    None,
    /// Nobody sweeps.
    NoSweep,
    /// A server has the same identity after a crash.
    SameIdentity,
    /// A database that does not know a branch is taken to have committed it.
    UnknownIsCommitted,
    /// A prepared branch without a decision is rolled back without writing that the try is void.
    SweepWithoutWriting,
    /// The client is answered when the decision stands, before it is carried out.
    EarlyAnswer,
    /// A vote that is lost is taken for yes.
    LostVoteIsYes,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct World {
    pub faults: Faults,
    pub mistake: Mistake,
    pub home: Home,
    /// How many servers sweep at the same time.
    pub sweepers: usize,
    /// Whether the client always says that it asks for the first time.
    pub clients_forget: bool,
}

const SERVERS: u16 = 2;
const RESOURCES: u8 = 2;
const REQUEST: RequestId = RequestId { session: 1, sequence: 1 };

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    incarnation: u64,
    next_work: u64,
    work: Option<Work>,
    sweep: Option<Sweep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    Active,
    Prepared,
}

/// The work of one executor on one try, in one database.
type Part = (u8, Try, Executor);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    servers: Vec<Server>,
    decisions: BTreeMap<Try, Decision>,
    branches: BTreeMap<Part, Standing>,
    voted: BTreeSet<Part>,
    committed: BTreeSet<Part>,
    /// Branches that voted yes and were rolled back.
    undone: BTreeSet<Part>,
    /// A branch was to be committed and is gone.
    damage: bool,
    under_way: BTreeSet<Errand>,
    delivered: Option<Ending>,
    asked_once: bool,
    left: Faults,
}

/// A step that a server wants done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errand {
    server: u16,
    incarnation: u64,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum What {
    Step(Step),
    Sweeping(Sweeping),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// The client asks a server.
    Ask(u16),
    /// An errand is done.
    Do(Errand),
    /// An errand is done, and it goes wrong in its way: a no, a false suspicion, an unknown branch.
    DoBadly(Errand),
    /// An errand of a server that is no more comes to nothing.
    Lose(Errand),
    /// A server finds a prepared branch.
    Find(u16, Part),
    /// A server crashes and starts again. How long it is down makes no difference: what nobody asks does nothing.
    Crash(u16),
    Outage(u8),
}

impl State {
    fn is_alive(&self, executor: Executor) -> bool {
        let server = &self.servers[usize::from(executor.server)];
        server.incarnation == executor.incarnation
    }

    fn is_working(&self, executor: Executor, attempt: Try) -> bool {
        let work = self.servers[usize::from(executor.server)].work.as_ref();
        self.is_alive(executor)
            && work.is_some_and(|work| work.executor() == executor && work.is_executing(attempt))
    }

    fn is_orphan(&self, errand: &Errand) -> bool {
        let server = &self.servers[usize::from(errand.server)];
        server.incarnation != errand.incarnation
    }

    fn is_voting(&self, part: Part) -> bool {
        self.under_way.iter().any(|errand| {
            matches!(&errand.what, What::Step(Step::Vote(attempt, branch))
            if (branch.resource, attempt.number, attempt.executor) == part)
        })
    }

    fn want(&mut self, server: u16, steps: impl IntoIterator<Item = What>) {
        let incarnation = self.servers[usize::from(server)].incarnation;
        self.under_way.extend(steps.into_iter().map(|what| Errand { server, incarnation, what }));
    }

    /// What stands after an attempt to write.
    fn propose(&mut self, attempt: Try, decision: Decision) -> Decision {
        self.decisions.entry(attempt).or_insert(decision).clone()
    }

    fn end(&mut self, part: Part, outcome: Outcome) {
        match (self.branches.get(&part), outcome) {
            (Some(Standing::Prepared), Outcome::Commit) => {
                self.branches.remove(&part);
                self.committed.insert(part);
            }
            (_, Outcome::Commit) => self.damage |= !self.committed.contains(&part),
            (Some(standing), Outcome::Abort) => {
                if *standing == Standing::Prepared {
                    self.undone.insert(part);
                }
                self.branches.remove(&part);
            }
            (None, Outcome::Abort) => {}
        }
    }

    /// Ends what an executor does. A vote of it that is under way comes back as a no.
    fn fence(&mut self, executor: Executor) {
        let mut broken = Vec::new();
        self.under_way.retain(|errand| match &errand.what {
            What::Step(Step::Vote(attempt, branch)) if attempt.executor == executor => {
                broken.push((errand.clone(), attempt.number, *branch));
                false
            }
            _ => true,
        });
        self.branches.retain(|part, standing| part.2 != executor || *standing == Standing::Prepared);
        for (errand, attempt, branch) in broken {
            if !self.is_orphan(&errand) {
                self.tell(errand.server, attempt, Event::Voted(branch, Voice::No));
            }
        }
    }

    fn tell(&mut self, server: u16, attempt: Try, event: Event) {
        let Some(work) = &mut self.servers[usize::from(server)].work else { return };
        let steps = work.on(attempt, event);
        self.want(server, steps.into_iter().map(What::Step));
    }

    fn tell_sweep(&mut self, server: u16, found: Found) {
        let slot = &mut self.servers[usize::from(server)].sweep;
        let Some(sweep) = slot else { return };
        let next = sweep.on(found);
        if sweep.is_over() {
            *slot = None;
        }
        self.want(server, next.map(What::Sweeping));
    }
}

impl World {
    /// The branch, as the databases call it.
    fn name(&self, (resource, attempt, executor): Part) -> BranchName {
        BranchName {
            cluster: 0,
            request: REQUEST,
            attempt,
            home: self.home,
            executor,
            resource,
            connection: 0,
        }
    }

    fn participants() -> Vec<Participant> {
        (0..RESOURCES).map(|resource| Participant { resource, connection: 0 }).collect()
    }

    /// Whether there is something to do about an errand now.
    fn can(&self, state: &State, errand: &Errand) -> bool {
        match &errand.what {
            // It waits for a decision, or for the end of whom it waits for.
            What::Step(Step::Await(attempt, executor)) => {
                state.decisions.contains_key(attempt) || !state.is_working(*executor, *attempt)
            }
            _ => true,
        }
    }

    /// Whether an errand can go wrong, with the faults that are left.
    fn can_go_wrong(state: &State, errand: &Errand) -> bool {
        match &errand.what {
            What::Step(Step::Compute(_) | Step::Vote(..)) => state.left.refusals > 0,
            What::Step(Step::Await(attempt, _)) => {
                state.left.suspicions > 0 && !state.decisions.contains_key(attempt)
            }
            What::Sweeping(Sweeping::AskFor(executor, attempt)) => {
                state.left.suspicions > 0 && state.is_working(*executor, *attempt)
            }
            What::Step(Step::Commit(..)) => state.left.unknown > 0,
            _ => false,
        }
    }

    fn do_step(&self, state: &mut State, server: u16, step: Step, badly: bool, is_orphan: bool) {
        let attempt = step.attempt().unwrap_or(Try::FIRST);
        let event = match step {
            Step::Look(attempt) => Event::Stands(state.decisions.get(&attempt).cloned()),
            Step::AskOthers(attempt) => {
                let others = state.servers.iter().filter_map(|other| other.work.as_ref()).map(Work::executor);
                let at_work = others
                    .filter(|other| other.server != server)
                    .find(|other| state.is_working(*other, attempt));
                Event::Others(at_work)
            }
            Step::Await(attempt, _) => match state.decisions.get(&attempt) {
                Some(decision) => Event::Stands(Some(decision.clone())),
                None => {
                    state.left.suspicions -= u8::from(badly);
                    Event::Suspected
                }
            },
            Step::Fence(_, executor) => {
                state.fence(executor);
                Event::Fenced
            }
            Step::Compute(_) if badly => {
                state.left.refusals -= 1;
                Event::Computed(Computed::Failed)
            }
            Step::Compute(attempt) => {
                for resource in 0..RESOURCES {
                    state.branches.insert((resource, attempt.number, attempt.executor), Standing::Active);
                }
                let answer = Answer::Done(Bytes::copy_from_slice(&[
                    attempt.number.0,
                    attempt.executor.server as u8,
                    attempt.executor.incarnation as u8,
                ]));
                Event::Computed(Computed::Done { branches: Self::participants(), answer })
            }
            Step::Vote(attempt, branch) => {
                let part = (branch.resource, attempt.number, attempt.executor);
                let voice = if badly {
                    state.left.refusals -= 1;
                    state.branches.remove(&part);
                    Voice::No
                } else if let Some(standing) = state.branches.get_mut(&part) {
                    *standing = Standing::Prepared;
                    state.voted.insert(part);
                    Voice::Yes
                } else if self.mistake == Mistake::LostVoteIsYes {
                    Voice::Yes
                } else {
                    Voice::No
                };
                Event::Voted(branch, voice)
            }
            Step::Propose(attempt, decision) => Event::Stands(Some(state.propose(attempt, decision))),
            Step::CommitDeciding(attempt, commit) => {
                let Home::Resource(resource) = self.home else { unreachable!("decisions are in registers") };
                let part = (resource, attempt.number, attempt.executor);
                let decision = Decision::Commit(commit);
                // One step of the database: the row and the work stay together, or neither does.
                let is_there = state.branches.remove(&part).is_some();
                if is_there && !state.decisions.contains_key(&attempt.number) {
                    state.decisions.insert(attempt.number, decision);
                    state.voted.insert(part);
                    state.committed.insert(part);
                }
                match state.decisions.get(&attempt.number) {
                    Some(decision) => Event::Stands(Some(decision.clone())),
                    // The work was lost: what is written instead is that the try is void.
                    None => Event::Stands(Some(state.propose(attempt.number, Decision::Abort))),
                }
            }
            Step::Undo(attempt) => {
                for resource in 0..RESOURCES {
                    let part = (resource, attempt.number, attempt.executor);
                    // A vote that is under way may come about after the connection was closed.
                    if !state.is_voting(part) {
                        state.end(part, Outcome::Abort);
                    }
                }
                Event::Undone
            }
            Step::Commit(attempt, branch) => {
                let part = (branch.resource, attempt.number, attempt.executor);
                if badly {
                    state.left.unknown -= 1;
                    if self.mistake != Mistake::UnknownIsCommitted {
                        let again = Step::Commit(attempt, branch);
                        state.want(server, [What::Step(again)]);
                        return;
                    }
                } else {
                    state.end(part, Outcome::Commit);
                }
                Event::Committed(branch)
            }
            Step::Answer(ending) => {
                if !is_orphan {
                    state.servers[usize::from(server)].work = None;
                    state.delivered.get_or_insert(ending);
                }
                return;
            }
        };
        if !is_orphan {
            if self.mistake == Mistake::EarlyAnswer
                && let Event::Stands(Some(Decision::Commit(commit))) = &event
            {
                state.delivered.get_or_insert(Ending::Answer(commit.answer.clone()));
            }
            state.tell(server, attempt, event);
        }
    }

    fn do_sweeping(&self, state: &mut State, server: u16, what: Sweeping, badly: bool, is_orphan: bool) {
        let found = match what {
            Sweeping::Look(attempt) => Found::Stands(state.decisions.get(&attempt).cloned()),
            Sweeping::AskFor(executor, attempt) => {
                state.left.suspicions -= u8::from(badly);
                Found::Executor { is_working: !badly && state.is_working(executor, attempt) }
            }
            Sweeping::Fence(executor) => {
                state.fence(executor);
                Found::Fenced
            }
            Sweeping::ProposeAbort(attempt) => {
                let stands = if self.mistake == Mistake::SweepWithoutWriting {
                    Decision::Abort
                } else {
                    state.propose(attempt, Decision::Abort)
                };
                Found::Stands(Some(stands))
            }
            Sweeping::End(branch, outcome) => {
                state.end((branch.resource, branch.attempt, branch.executor), outcome);
                Found::Ended
            }
        };
        if !is_orphan {
            state.tell_sweep(server, found);
        }
    }

    fn actions_of_the_client(state: &State, actions: &mut Vec<Action>) {
        if state.delivered.is_some() {
            return;
        }
        let is_served = state.servers.iter().any(|server| server.work.is_some());
        for (number, server) in state.servers.iter().enumerate() {
            let must = !state.asked_once || !is_served;
            if server.work.is_none() && (must || state.left.haste > 0) {
                actions.push(Action::Ask(number as u16));
            }
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let server = || Server { incarnation: 1, next_work: 1, work: None, sweep: None };
        vec![State {
            servers: (0..SERVERS).map(|_| server()).collect(),
            decisions: BTreeMap::new(),
            branches: BTreeMap::new(),
            voted: BTreeSet::new(),
            committed: BTreeSet::new(),
            undone: BTreeSet::new(),
            damage: false,
            under_way: BTreeSet::new(),
            delivered: None,
            asked_once: false,
            left: self.faults,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        Self::actions_of_the_client(state, actions);
        for errand in &state.under_way {
            let is_orphan = state.is_orphan(errand);
            if is_orphan {
                actions.push(Action::Lose(errand.clone()));
            }
            if self.can(state, errand) {
                actions.push(Action::Do(errand.clone()));
            }
            if !is_orphan && Self::can_go_wrong(state, errand) {
                actions.push(Action::DoBadly(errand.clone()));
            }
        }
        for (number, server) in state.servers.iter().enumerate() {
            let number = number as u16;
            if state.left.crashes > 0 {
                actions.push(Action::Crash(number));
            }
            let sweepers = state.servers.iter().filter(|server| server.sweep.is_some()).count();
            if server.sweep.is_none() && sweepers < self.sweepers && self.mistake != Mistake::NoSweep {
                let prepared = state.branches.iter().filter(|(_, standing)| **standing == Standing::Prepared);
                // A look that would find everything in order changes nothing, and is left out, unless it may be mistaken.
                let worth = prepared.filter(|((_, attempt, executor), _)| {
                    state.decisions.contains_key(attempt)
                        || !state.is_working(*executor, *attempt)
                        || state.left.suspicions > 0
                });
                actions.extend(worth.map(|(part, _)| Action::Find(number, *part)));
            }
        }
        if state.left.outages > 0 {
            actions.extend((0..RESOURCES).map(Action::Outage));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Ask(number) => {
                let is_served = state.servers.iter().any(|server| server.work.is_some());
                state.left.haste -= u8::from(state.asked_once && is_served);
                // A client that does not remember says that it asks for the first time whenever it asks.
                let is_first_time = !state.asked_once || self.clients_forget;
                state.asked_once = true;
                let server = &mut state.servers[usize::from(number)];
                let executor =
                    Executor { server: number, incarnation: server.incarnation, work: server.next_work };
                server.next_work += u64::from(self.mistake != Mistake::SameIdentity);
                let question = Question { request: REQUEST, home: self.home, asked: 7 };
                let (work, steps) = Work::begin(question, executor, is_first_time);
                server.work = Some(work);
                state.want(number, steps.into_iter().map(What::Step));
            }
            Action::Do(errand) | Action::DoBadly(errand) if !state.under_way.remove(&errand) => return None,
            Action::Do(ref errand) | Action::DoBadly(ref errand) => {
                let badly = matches!(action, Action::DoBadly(_));
                let is_orphan = last.is_orphan(errand);
                match errand.what.clone() {
                    What::Step(step) => self.do_step(&mut state, errand.server, step, badly, is_orphan),
                    What::Sweeping(what) => {
                        self.do_sweeping(&mut state, errand.server, what, badly, is_orphan);
                    }
                }
            }
            Action::Lose(errand) => {
                state.under_way.remove(&errand);
                match (errand.what, self.home) {
                    (What::Step(Step::Vote(attempt, Participant { resource, .. })), _)
                    | (What::Step(Step::CommitDeciding(attempt, _)), Home::Resource(resource)) => {
                        state.branches.remove(&(resource, attempt.number, attempt.executor));
                    }
                    _ => {}
                }
            }
            Action::Find(number, part) => {
                let (sweep, first) = Sweep::begin(self.name(part));
                state.servers[usize::from(number)].sweep = Some(sweep);
                state.want(number, [What::Sweeping(first)]);
            }
            Action::Crash(number) => {
                state.left.crashes -= 1;
                let server = &mut state.servers[usize::from(number)];
                (server.work, server.sweep) = (None, None);
                let incarnation = server.incarnation;
                if self.mistake != Mistake::SameIdentity {
                    server.incarnation += 1;
                    server.next_work = 1;
                }
                // What reaches somebody else can still come about; what carries out a decision that stands is left out, for others do the same at any time. Connections break; only a vote that is on its way may be faster.
                state.under_way.retain(|errand| {
                    let reaches = matches!(
                        &errand.what,
                        What::Step(
                            Step::Vote(..) | Step::Propose(..) | Step::CommitDeciding(..) | Step::Commit(..)
                        ) | What::Sweeping(Sweeping::ProposeAbort(_) | Sweeping::End(..))
                    );
                    errand.server != number || reaches
                });
                let lost: Vec<Part> = state
                    .branches
                    .iter()
                    .filter(|((_, _, executor), standing)| {
                        **standing == Standing::Active
                            && (executor.server, executor.incarnation) == (number, incarnation)
                    })
                    .map(|(part, _)| *part)
                    .filter(|part| !state.is_voting(*part) && !self.is_deciding(&state, *part))
                    .collect();
                for part in lost {
                    state.branches.remove(&part);
                }
            }
            Action::Outage(resource) => {
                state.left.outages -= 1;
                state.branches.retain(|part, standing| part.0 != resource || *standing == Standing::Prepared);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        /// Nothing more can happen.
        fn is_quiet(model: &World, state: &State) -> bool {
            let mut actions = Vec::new();
            model.actions(state, &mut actions);
            // Faults need not happen.
            actions.retain(|action| {
                !matches!(action, Action::Crash(_) | Action::Outage(_) | Action::DoBadly(_))
                    && !matches!(action, Action::Find(_, (_, attempt, executor))
                        if !state.decisions.contains_key(attempt) && state.is_working(*executor, *attempt))
            });
            actions.is_empty()
        }
        vec![
            Property::always("T.1 a client that goes on asking is answered", |model, state: &State| {
                state.delivered.is_some() || !is_quiet(model, state)
            }),
            Property::always("T.2 who voted learns the outcome", |model, state: &State| {
                state.branches.is_empty() || !is_quiet(model, state)
            }),
            Property::always("A.1 an answer is given only if all have committed", |model, state: &State| {
                let Some(Ending::Answer(answer)) = &state.delivered else { return true };
                state.decisions.iter().any(|(attempt, decision)| match decision {
                    Decision::Commit(commit) if commit.answer == *answer => (0..RESOURCES)
                        .filter(|resource| {
                            Home::Resource(*resource) == model.home
                                || commit.branches.iter().any(|branch| branch.resource == *resource)
                        })
                        .all(|resource| state.committed.contains(&(resource, *attempt, commit.executor))),
                    _ => false,
                })
            }),
            Property::always("A.2 one try commits at most", |_, state: &State| {
                let works: BTreeSet<(Try, Executor)> =
                    state.committed.iter().map(|(_, attempt, executor)| (*attempt, *executor)).collect();
                works.len() <= 1
            }),
            Property::always("A.3 no two databases disagree", |_, state: &State| {
                let is_undone = |(_, attempt, executor): &Part| {
                    state.undone.iter().any(|other| (other.1, other.2) == (*attempt, *executor))
                };
                !state.damage && !state.committed.iter().any(is_undone)
            }),
            Property::always("V.1 an answer was computed", |_, state: &State| {
                !matches!(state.delivered, Some(Ending::Mismatch | Ending::Forgotten))
            }),
            Property::always("V.2 a database commits only if all have voted yes", |_, state: &State| {
                state.committed.iter().all(|(_, attempt, executor)| {
                    (0..RESOURCES).all(|resource| state.voted.contains(&(resource, *attempt, *executor)))
                })
            }),
            Property::sometimes("a request is answered", |_, state: &State| {
                matches!(state.delivered, Some(Ending::Answer(_)))
            }),
            Property::sometimes("a second try commits", |_, state: &State| {
                state.committed.iter().any(|(_, attempt, _)| *attempt > Try::FIRST)
            }),
        ]
    }
}

impl World {
    /// Whether a commit with its decision is on its way to the database that keeps it.
    fn is_deciding(&self, state: &State, part: Part) -> bool {
        Home::Resource(part.0) == self.home
            && state.under_way.iter().any(|errand| {
                matches!(&errand.what, What::Step(Step::CommitDeciding(attempt, _))
                if (attempt.number, attempt.executor) == (part.1, part.2))
            })
    }
}
