//! Describes a path through the model in sentences.

use super::figures::Action;
use super::path::Path;
use super::state::{
    Cleaning, Decision, Execution, ExecutionResult, Incarnation, Message, Stage, State, Termination,
};
use super::variant::Variant;

/// A sentence for each step, and one for the violation at the end.
pub fn explain(variant: &Variant, property: &str, path: &Path) -> Vec<String> {
    let mut sentences = Vec::new();
    for pair in path.windows(2) {
        let [(before, Some(action)), (after, _)] = pair else { continue };
        sentences.push(Step { variant, before, after }.sentence(*action));
    }
    if let Some((last, _)) = path.last() {
        sentences.push(format!("so {}", violation(property, last)));
    }
    sentences
}

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
    let run = char::from(b'a' - 1 + run);
    format!("result {attempt}{run}")
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
            Action::Issue => format!("the client sends {} the request for attempt 1", server(0)),
            Action::Timeout => {
                let is_hasty = self.before.left.haste > self.after.left.haste;
                let how = if is_hasty { "times out early" } else { "times out" };
                format!(
                    "the client {how} and sends all servers the request for attempt {}",
                    self.before.client.attempt
                )
            }
            Action::Deliver(message) => self.delivered(message),
            Action::DeliverBadly(Message::Prepare { to, computed, .. }) => {
                format!("{} votes no to {}", database(to), result(computed))
            }
            Action::DeliverBadly(message) => self.hidden(message),
            Action::Lose(message) => self.lost(message),
            Action::Compute(number) => self.computed(number),
            Action::Write(number) => self.wrote(number),
            Action::Suspect(number, suspect) => {
                let (name, by) = (self.name(suspect), server(number));
                let wrongly = if self.variant.is_dead(self.before, suspect) { "" } else { "wrongly " };
                format!("{by} {wrongly}suspects {name}: {}", self.cleaned(number))
            }
            Action::Walk(number) => {
                format!("{} continues to clean: {}", server(number), self.cleaned(number))
            }
            Action::Sweep(number, attempt) => {
                let (database, ended) = (database(number), self.ended(number, attempt));
                let decided = self.decided(attempt, self.after.decisions[&attempt]);
                format!("recovery finds attempt {attempt} prepared in {database}, and {decided}: {ended}")
            }
            Action::Crash(number) => format!("{} crashes", server(number)),
            Action::Restart(number) => {
                let how = if self.variant.new_names { "a new name" } else { "the same name" };
                format!("{} restarts under {how}, without its state", server(number))
            }
            Action::Outage(number) => {
                format!("{} crashes and restarts; branches that are not prepared are lost", database(number))
            }
        }
    }

    /// The name of a server in a register.
    fn name(&self, incarnation: Incarnation) -> String {
        if self.variant.new_names {
            format!("{} in incarnation {}", server(incarnation.server), incarnation.number)
        } else {
            server(incarnation.server)
        }
    }

    fn delivered(&self, message: Message) -> String {
        match message {
            Message::Request { to, attempt, .. } => self.requested(to, attempt),
            Message::Prepare { from, to, computed } => {
                let lost = if self.before.is_alive(from) { "" } else { "; no server receives the vote" };
                let (database, result) = (database(to), result(computed));
                if self.after.databases[to].voted.contains(&computed) {
                    format!("{database} prepares {result} and votes yes{lost}")
                } else {
                    format!("{database} has no branch of {result} and votes no{lost}")
                }
            }
            Message::Decide { from, to, attempt, decision } => {
                let order = if decision == Decision::Abort { "abort" } else { "commit" };
                let (database, ended) = (database(to), self.ended(to, attempt));
                let from_server = server(from.server);
                let text = format!("{from_server} lets {database} {order} attempt {attempt}: {ended}");
                self.with_response(text, from)
            }
            Message::Result { attempt, .. } => match self.after.client.stage {
                Stage::Delivered(computed) => format!("the client gets {} and delivers it", result(computed)),
                _ if self.after.client.attempt > attempt => {
                    let (first, next) = (server(0), attempt + 1);
                    format!(
                        "attempt {attempt} is aborted; the client sends {first} the request for attempt {next}"
                    )
                }
                _ => format!("the client ignores a late response for attempt {attempt}"),
            },
            Message::Ready { from, to } => {
                format!("{} is notified that {} has restarted", server(to), database(from))
            }
        }
    }

    fn requested(&self, to: u8, attempt: u8) -> String {
        let got = format!("{} gets the request for attempt {attempt}", server(to));
        if let Some(computed) = self.before.server(to).decision {
            return format!("{got} and responds with {}", result(computed));
        }
        let owner = self.name(self.after.claims[&attempt]);
        match (self.before.claims.contains_key(&attempt), self.after.server(to).execution) {
            (false, _) => format!("{got} and writes itself into regA[{attempt}]"),
            (true, Execution::Claimed(_)) => {
                format!("{got}, finds {owner} in regA[{attempt}], which is itself, and executes")
            }
            (true, _) => format!("{got}, finds {owner} in regA[{attempt}], and does nothing"),
        }
    }

    fn computed(&self, number: u8) -> String {
        let Execution::Voting { computed, .. } = self.after.server(number).execution else {
            return format!("{} computes", server(number));
        };
        format!("{} computes {} and sends prepare to both databases", server(number), result(computed))
    }

    fn wrote(&self, number: u8) -> String {
        let Execution::Terminating(termination) = self.after.server(number).execution else {
            return format!("{} writes", server(number));
        };
        let decided = self.decided(termination.attempt, termination.decision);
        format!("{} has all votes, {decided}, and sends it to both databases", server(number))
    }

    /// How the decision of an attempt was reached in this step.
    fn decided(&self, attempt: u8, decision: Decision) -> String {
        let verb = if self.before.decisions.contains_key(&attempt) { "finds" } else { "writes" };
        format!("{verb} ({}) in regD[{attempt}]", verdict(decision))
    }

    fn cleaned(&self, number: u8) -> String {
        match self.after.server(number).cleaning {
            Cleaning::Terminating { of, termination } => {
                let Termination { attempt, decision, .. } = termination;
                let (owner, decided) = (self.name(of), self.decided(attempt, decision));
                format!("it finds {owner} in regA[{attempt}], {decided}, and sends it to both databases")
            }
            Cleaning::Spinning(attempt) => {
                let why = match self.before.server(number).clist.contains(&attempt) {
                    true => format!("it has cleaned attempt {attempt} before"),
                    false => {
                        format!("it finds {} in regA[{attempt}]", self.name(self.before.claims[&attempt]))
                    }
                };
                format!("{why}, does not advance, and spins")
            }
            Cleaning::Idle | Cleaning::Walking { .. } => "there is no further attempt".into(),
        }
    }

    /// The end of a branch.
    fn ended(&self, number: usize, attempt: u8) -> String {
        let (before, after) = (&self.before.databases[number], &self.after.databases[number]);
        match (before.branches.get(&attempt), after.branches.get(&attempt)) {
            (None, _) => "it has no such branch, and acknowledges".into(),
            (Some(_), Some(_)) => {
                "the branch is open, only its own connection can end it; the database acknowledges".into()
            }
            (Some(branch), None) if after.committed.contains(&branch.computed) => {
                format!("it commits {}", result(branch.computed))
            }
            (Some(branch), None) => format!("it rolls {} back", result(branch.computed)),
        }
    }

    fn hidden(&self, message: Message) -> String {
        let Message::Decide { from, to, attempt, .. } = message else { return "a fault".into() };
        let (database, server) = (database(to), server(from.server));
        let text = format!(
            "{server} lets {database} commit attempt {attempt}: the database reports no such branch, because the \
             session of its owner is open; {server} takes it for committed"
        );
        self.with_response(text, from)
    }

    /// Adds the response to the client, if there is one.
    fn with_response(&self, text: String, by: Incarnation) -> String {
        let mut sent = self.after.messages.difference(&self.before.messages);
        match sent.any(|message| matches!(message, Message::Result { .. })) {
            true => format!("{text}; {} responds to the client", server(by.server)),
            false => text,
        }
    }

    fn lost(&self, message: Message) -> String {
        match message {
            Message::Prepare { to, computed, .. } => {
                let (database, result) = (database(to), result(computed));
                format!(
                    "the connection to {database} breaks before {result} is prepared, and the branch is lost"
                )
            }
            Message::Decide { to, attempt, .. } => {
                format!("the decision of attempt {attempt} does not reach {}", database(to))
            }
            _ => "the response does not reach the client".into(),
        }
    }
}

/// The prepared branches.
fn in_doubt(state: &State) -> String {
    let mut names = Vec::new();
    for (number, participant) in state.databases.iter().enumerate() {
        let prepared = participant.branches.values().filter(|branch| branch.is_prepared);
        names.extend(prepared.map(|branch| format!("{} in {}", result(branch.computed), database(number))));
    }
    names.join(" and ")
}

/// The violation in the last state.
fn violation(property: &str, state: &State) -> String {
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
        "T.1" => format!("nothing more happens, and attempt {} gets no response", state.client.attempt),
        "T.2" => format!("nothing more happens, and {} stays prepared with its locks", in_doubt(state)),
        "A.1" => format!("the client has its result, but {each}"),
        _ => each,
    }
}
