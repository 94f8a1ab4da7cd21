//! A way through the model, in sentences.

use super::figures::Action;
use super::path::Path;
use super::state::{Cleaning, Decision, Execution, ExecutionResult, Letter, Life, Stage, State};
use super::variant::Variant;

/// A sentence for each step, and one for what is wrong at the end.
pub fn story(variant: &Variant, property: &str, path: &Path) -> Vec<String> {
    let mut sentences = Vec::new();
    for pair in path.windows(2) {
        let [(before, Some(action)), (after, _)] = pair else { continue };
        sentences.push(Step { variant, before, after }.sentence(*action));
    }
    if let Some((last, _)) = path.last() {
        sentences.push(format!("so {}", moral(property, last)));
    }
    sentences
}

/// What happened between two states.
struct Step<'a> {
    variant: &'a Variant,
    before: &'a State,
    after: &'a State,
}

fn server(number: u8) -> String {
    format!("server {}", number + 1)
}

fn database(number: usize) -> String {
    format!("database {}", number + 1)
}

fn result(ExecutionResult { attempt, run }: ExecutionResult) -> String {
    let letter = char::from(b'a' - 1 + run);
    format!("result {attempt}{letter}")
}

fn verdict(decision: Decision) -> String {
    match decision {
        Decision::Abort => "abort".into(),
        Decision::Commit(computed) => format!("commit, {}", result(computed)),
    }
}

impl Step<'_> {
    fn sentence(&self, action: Action) -> String {
        match action {
            Action::Issue => format!("the client asks {} for try 1", server(0)),
            Action::Timeout => {
                let is_hasty = self.before.left.haste > self.after.left.haste;
                let how = if is_hasty { "loses patience" } else { "has waited long enough" };
                format!("the client {how} and asks all servers for try {}", self.before.client.attempt)
            }
            Action::Deliver(letter) => self.delivered(letter),
            Action::DeliverBadly(Letter::Prepare { to, computed, .. }) => {
                format!("{} votes no to {}", database(to), result(computed))
            }
            Action::DeliverBadly(letter) => self.hidden(letter),
            Action::Lose(letter) => self.lost(letter),
            Action::Compute(number) => self.computed(number),
            Action::Write(number) => self.wrote(number),
            Action::Suspect(number, name) => {
                let (who, whom) = (server(number), self.name(name));
                let mistaken = if self.variant.is_dead(self.before, name) { "" } else { ", by mistake" };
                format!("{who} suspects {whom}{mistaken}: {}", self.cleaned(number))
            }
            Action::Walk(number) => format!("{} goes on cleaning: {}", server(number), self.cleaned(number)),
            Action::Sweep(number, attempt) => {
                let stands = verdict(self.after.decisions[&attempt]);
                let deed = if self.before.decisions.contains_key(&attempt) { "finds" } else { "writes" };
                let ended = self.ended(number, attempt);
                let place = database(number);
                format!(
                    "a sweeper finds try {attempt} prepared in {place} and {deed} ({stands}) in regD[{attempt}], which {place} obeys: {ended}"
                )
            }
            Action::Crash(number) => format!("{} crashes", server(number)),
            Action::Restart(number) => {
                let how = if self.variant.new_names { "a new name" } else { "the same name" };
                format!("{} starts again, under {how}, and remembers nothing", server(number))
            }
            Action::Outage(number) => {
                format!("{} crashes and comes back; what was not prepared is lost", database(number))
            }
        }
    }

    /// How a server is called in a register.
    fn name(&self, life: Life) -> String {
        if self.variant.new_names {
            format!("{} in its life {}", server(life.server), life.number)
        } else {
            server(life.server)
        }
    }

    fn delivered(&self, letter: Letter) -> String {
        match letter {
            Letter::Request { to, attempt, .. } => self.requested(to, attempt),
            Letter::Prepare { from, to, computed } => {
                let heard = if self.before.is_alive(from) { "" } else { "; nobody hears it" };
                let (who, what) = (database(to), result(computed));
                if self.after.databases[to].voted.contains(&computed) {
                    format!("{who} prepares {what} and votes yes{heard}")
                } else {
                    format!("{who} has no work of {what} and votes no{heard}")
                }
            }
            Letter::Decide { from, to, attempt, decision } => {
                let order = if decision == Decision::Abort { "abort" } else { "commit" };
                let (who, whom) = (database(to), server(from.server));
                let told =
                    format!("{who} is told by {whom} to {order} try {attempt}: {}", self.ended(to, attempt));
                self.with_answer(told, from)
            }
            Letter::Result { attempt, .. } => match self.after.client.stage {
                Stage::Delivered(computed) => format!("the client gets {} and delivers it", result(computed)),
                _ if self.after.client.attempt > attempt => {
                    format!(
                        "the client learns that try {attempt} is aborted, and asks {} for try {}",
                        server(0),
                        attempt + 1
                    )
                }
                _ => format!("the client gets an answer about try {attempt}, which it has left behind"),
            },
            Letter::Ready { from, to } => format!("{} hears that {} is back", server(to), database(from)),
        }
    }

    fn requested(&self, to: u8, attempt: u8) -> String {
        let who = server(to);
        let got = format!("{who} gets the request for try {attempt}");
        if let Some(computed) = self.before.server(to).decision {
            return format!("{got} and answers with {}", result(computed));
        }
        let owner = self.name(self.after.claims[&attempt]);
        match (self.before.claims.contains_key(&attempt), self.after.server(to).execution) {
            (false, _) => format!("{got} and writes itself into regA[{attempt}]"),
            (true, Execution::Claimed(_)) => {
                format!("{got}, finds {owner} in regA[{attempt}], which is itself, and goes to work")
            }
            (true, _) => format!("{got}, finds {owner} in regA[{attempt}], and does nothing"),
        }
    }

    fn computed(&self, number: u8) -> String {
        let Execution::Voting { computed, .. } = self.after.server(number).execution else {
            return format!("{} computes", server(number));
        };
        format!("{} computes {} and asks both databases to prepare it", server(number), result(computed))
    }

    fn wrote(&self, number: u8) -> String {
        let Execution::Terminating(termination) = self.after.server(number).execution else {
            return format!("{} writes", server(number));
        };
        let (who, attempt) = (server(number), termination.attempt);
        let stands = verdict(termination.decision);
        if self.before.decisions.contains_key(&attempt) {
            format!("{who} has all votes, finds regD[{attempt}] = ({stands}), and tells both databases so")
        } else {
            format!(
                "{who} has all votes, writes ({stands}) into regD[{attempt}], and tells both databases so"
            )
        }
    }

    fn cleaned(&self, number: u8) -> String {
        match self.after.server(number).cleaning {
            Cleaning::Terminating { of, termination } => {
                let attempt = termination.attempt;
                let deed = if self.before.decisions.contains_key(&attempt) { "finds" } else { "writes" };
                let stands = verdict(termination.decision);
                let owner = self.name(of);
                format!(
                    "it finds {owner} in regA[{attempt}], {deed} ({stands}) in regD[{attempt}], and tells both databases so"
                )
            }
            Cleaning::Spinning(attempt) => {
                let is_cleaned = self.before.server(number).clist.contains(&attempt);
                let owner = self.name(self.before.claims[&attempt]);
                let why = if is_cleaned {
                    format!("it has cleaned try {attempt} before")
                } else {
                    format!("it finds {owner} in regA[{attempt}]")
                };
                format!("{why}, so it does not advance, and spins for ever")
            }
            Cleaning::Idle | Cleaning::Walking { .. } => "there is no further try, and the round ends".into(),
        }
    }

    /// What became of a branch.
    fn ended(&self, number: usize, attempt: u8) -> String {
        let (before, after) = (&self.before.databases[number], &self.after.databases[number]);
        match (before.branches.get(&attempt), after.branches.get(&attempt)) {
            (None, _) => "it knows no such branch, and acknowledges".into(),
            (Some(_), Some(_)) => {
                "the branch is still at work, which only its own connection can end; it says that it knows none, and acknowledges".into()
            }
            (Some(branch), None) if after.committed.contains(&branch.computed) => {
                format!("it commits {}", result(branch.computed))
            }
            (Some(branch), None) => format!("it rolls {} back", result(branch.computed)),
        }
    }

    fn hidden(&self, letter: Letter) -> String {
        let Letter::Decide { from, to, attempt, .. } = letter else { return "something goes wrong".into() };
        let (who, whom) = (database(to), server(from.server));
        let says = "it says that there is no such branch, because whoever made it is still connected";
        let told =
            format!("{who} is told by {whom} to commit try {attempt}: {says}; {whom} takes that for done");
        self.with_answer(told, from)
    }

    /// Adds that the client is answered, if it is.
    fn with_answer(&self, told: String, by: Life) -> String {
        let mut sent = self.after.letters.difference(&self.before.letters);
        let is_answered = sent.any(|letter| matches!(letter, Letter::Result { .. }));
        if is_answered { format!("{told}; {} sends the client its answer", server(by.server)) } else { told }
    }

    fn lost(&self, letter: Letter) -> String {
        match letter {
            Letter::Prepare { to, computed, .. } => {
                format!(
                    "the connection to {} breaks before {} is prepared there; its work is gone",
                    database(to),
                    result(computed)
                )
            }
            Letter::Decide { to, attempt, .. } => {
                format!("what was decided about try {attempt} does not reach {}", database(to))
            }
            _ => "the answer does not reach the client".into(),
        }
    }
}

/// What is prepared.
fn stuck(state: &State) -> String {
    let mut names = Vec::new();
    for (number, held) in state.databases.iter().enumerate() {
        let prepared = held.branches.values().filter(|branch| branch.is_prepared);
        names.extend(prepared.map(|branch| format!("{} in {}", result(branch.computed), database(number))));
    }
    names.join(" and ")
}

/// What is wrong at the end.
fn moral(property: &str, state: &State) -> String {
    let committed = |database: usize| -> Vec<String> {
        state.databases[database].committed.iter().map(|computed| result(*computed)).collect()
    };
    let each: Vec<String> = (0..state.databases.len())
        .map(|number| {
            let names = committed(number);
            let names = if names.is_empty() { "nothing".into() } else { names.join(" and ") };
            format!("{} has committed {names}", database(number))
        })
        .collect();
    let each = each.join(", ");
    match &property[..3] {
        "T.1" => {
            format!("nothing more happens, and the client waits for try {} for ever", state.client.attempt)
        }
        "T.2" => {
            format!("nothing more happens, and {} will be prepared, and hold locks, for ever", stuck(state))
        }
        "A.1" => format!("the client has its answer, but {each}"),
        _ => each,
    }
}
