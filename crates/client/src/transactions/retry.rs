//! The course of a transaction as its client sees it: whom to ask, when, and when to give up. Pure: what happens comes in, what to do goes out;
//! times are counted from any fixed moment.
//!
//! One server is asked first. If it fails, or is silent for a while, all are asked at the same time, and each of them again and again; the first decided answer is the
//! answer. What must hold:
//! - At most one question is on its way to each server.
//! - No question is begun at the end or later.
//! - "For the first time" is said once, with the first question of all.
//! - A course ends with a certain failure only if no question can have been taken up by a server.

use std::time::Duration;

use crate::retry::Backoff;

/// How hard to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long to try; nothing for as long as somebody waits.
    pub deadline: Option<Duration>,
    /// After which silence of the first server all are asked.
    pub widen_after: Duration,
    /// How long to wait for the answer to one question.
    pub attempt_timeout: Duration,
    /// How long to wait before a server that failed is asked again.
    pub backoff: Backoff,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            deadline: None,
            widen_after: Duration::from_millis(500),
            // A server says by itself that there is no answer yet, after 30 s as it comes.
            attempt_timeout: Duration::from_secs(40),
            backoff: Backoff { base: Duration::from_millis(50), cap: Duration::from_secs(5) },
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAction {
    /// Ask the server of this number.
    Ask {
        /// The number of the question, from 0.
        attempt: u32,
        /// The number of the server.
        server: usize,
        /// Whether nobody can have been asked before.
        is_first_time: bool,
    },
    /// Give this question up, and [report](Course::report) it as lost.
    Abandon {
        /// The number of the question.
        attempt: u32,
    },
    /// Wait for a report, but not beyond this time, if there is one.
    Wait {
        /// Until when.
        until: Option<Duration>,
    },
    /// It is over.
    Over(RetryOutcome),
}

/// How a course ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryOutcome {
    /// With the answer of this server.
    Answered {
        /// The number of the server.
        server: usize,
    },
    /// With a failure.
    Failed {
        /// Whether a server may do it, or have done it, all the same.
        may_have_applied: bool,
    },
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptResult {
    /// It is decided, and this is the answer.
    Answered,
    /// The server cannot answer now.
    Busy {
        /// Whether it may have taken it up all the same.
        may_have_applied: bool,
    },
    /// The server will not do it.
    Refused,
    /// No answer.
    Lost {
        /// Whether it may have been sent.
        sent: bool,
    },
}

#[derive(Debug, Clone, Copy)]
enum Server {
    /// It is asked at this time.
    Due(Duration),
    /// This question is on its way since then.
    Asked(u32, Duration),
}

/// The course of one transaction.
#[derive(Debug)]
pub struct RetryState {
    policy: Policy,
    end: Option<Duration>,
    first: usize,
    servers: Vec<Server>,
    /// How often each has failed.
    failures: Vec<u32>,
    attempts: u32,
    may_be_first_time: bool,
    may_have_applied: bool,
    over: Option<RetryOutcome>,
}

impl RetryState {
    /// A course that begins now, with the server of number `first` of so many. `is_new` says that nobody can have been asked about this transaction before.
    pub fn new(policy: Policy, now: Duration, servers: usize, first: usize, is_new: bool) -> Self {
        let count = servers.max(1);
        let mut servers = vec![Server::Due(now.saturating_add(policy.widen_after)); count];
        servers[first % count] = Server::Due(now);
        Self {
            end: policy.deadline.map(|deadline| now.saturating_add(deadline)),
            policy,
            first: first % count,
            servers,
            failures: vec![0; count],
            attempts: 0,
            may_be_first_time: is_new,
            // Whoever asked before may have been heard.
            may_have_applied: !is_new,
            over: None,
        }
    }

    /// What to do now.
    pub fn step(&mut self, now: Duration) -> RetryAction {
        if let Some(end) = self.over {
            return RetryAction::Over(end);
        }
        let is_at_end = self.end.is_some_and(|end| now >= end);
        let timeout = self.policy.attempt_timeout;
        let mut until = self.end;
        let mut wait = |time: Duration| until = Some(until.map_or(time, |until| until.min(time)));
        let mut due = None;
        for (number, server) in self.servers.iter().enumerate() {
            match *server {
                Server::Asked(attempt, since) if is_at_end || now >= since.saturating_add(timeout) => {
                    return RetryAction::Abandon { attempt };
                }
                Server::Asked(_, since) => wait(since.saturating_add(timeout)),
                // The first one before all others, which may be due at the same time.
                Server::Due(time) if now >= time && (due.is_none() || number == self.first) => {
                    due = Some(number);
                }
                Server::Due(time) => wait(time),
            }
        }
        if is_at_end {
            return self.finish(RetryOutcome::Failed { may_have_applied: self.may_have_applied });
        }
        match due {
            Some(server) => self.ask(now, server),
            None => RetryAction::Wait { until },
        }
    }

    /// What became of a question. Reports about questions that are not on their way say nothing new.
    pub fn report(&mut self, now: Duration, attempt: u32, report: AttemptResult, chance: u64) {
        let is_this = |server: &Server| matches!(server, Server::Asked(other, _) if *other == attempt);
        let Some(number) = self.servers.iter().position(is_this) else { return };
        if self.over.is_some() {
            return;
        }
        let pause = self.policy.backoff.wait(self.failures[number], chance);
        self.failures[number] = self.failures[number].saturating_add(1);
        self.servers[number] = Server::Due(now.saturating_add(pause));
        let (others_from, may_have_applied) = match report {
            AttemptResult::Answered => {
                self.finish(RetryOutcome::Answered { server: number });
                return;
            }
            AttemptResult::Refused => {
                // Another may be at work on it, or have answered and not been heard.
                let is_alone = !self.servers.iter().any(|server| matches!(server, Server::Asked(..)));
                self.finish(RetryOutcome::Failed { may_have_applied: self.may_have_applied || !is_alone });
                return;
            }
            // It is there, and has its hands full: so may the others.
            AttemptResult::Busy { may_have_applied } => (now.saturating_add(pause), may_have_applied),
            AttemptResult::Lost { sent } => (now, sent),
        };
        self.may_have_applied |= may_have_applied;
        // Those that nobody has asked yet were waiting for this one.
        for (server, failures) in self.servers.iter_mut().zip(&self.failures) {
            if let (Server::Due(time), 0) = (server, failures) {
                *time = (*time).min(others_from);
            }
        }
    }

    fn ask(&mut self, now: Duration, server: usize) -> RetryAction {
        let attempt = self.attempts;
        self.attempts += 1;
        self.servers[server] = Server::Asked(attempt, now);
        RetryAction::Ask { attempt, server, is_first_time: std::mem::take(&mut self.may_be_first_time) }
    }

    fn finish(&mut self, end: RetryOutcome) -> RetryAction {
        self.over = Some(end);
        RetryAction::Over(end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn policy() -> Policy {
        Policy {
            deadline: None,
            widen_after: ms(100),
            attempt_timeout: ms(1000),
            backoff: Backoff { base: ms(10), cap: ms(50) },
        }
    }

    fn ask(attempt: u32, server: usize, is_first_time: bool) -> RetryAction {
        RetryAction::Ask { attempt, server, is_first_time }
    }

    #[test]
    fn one_is_asked_then_all_and_the_first_answer_counts() {
        let mut course = RetryState::new(policy(), ms(0), 3, 1, true);
        assert_eq!(course.step(ms(0)), ask(0, 1, true));
        assert_eq!(course.step(ms(0)), RetryAction::Wait { until: Some(ms(100)) });
        assert_eq!(course.step(ms(100)), ask(1, 0, false));
        assert_eq!(course.step(ms(100)), ask(2, 2, false));
        assert_eq!(course.step(ms(100)), RetryAction::Wait { until: Some(ms(1000)) });
        course.report(ms(110), 2, AttemptResult::Answered, 0);
        assert_eq!(course.step(ms(110)), RetryAction::Over(RetryOutcome::Answered { server: 2 }));
        course.report(ms(120), 0, AttemptResult::Refused, 0);
        assert_eq!(
            course.step(ms(120)),
            RetryAction::Over(RetryOutcome::Answered { server: 2 }),
            "over is over"
        );
    }

    #[test]
    fn a_server_that_is_not_there_is_no_reason_to_wait() {
        let mut course = RetryState::new(policy(), ms(0), 2, 0, true);
        assert_eq!(course.step(ms(0)), ask(0, 0, true));
        course.report(ms(3), 0, AttemptResult::Lost { sent: false }, u64::MAX);
        assert_eq!(course.step(ms(3)), ask(1, 1, false));
        // The first one is asked again after a back-off, beside the other.
        assert!(matches!(course.step(ms(3)), RetryAction::Wait { until: Some(until) } if until <= ms(13)));
        assert_eq!(course.step(ms(13)), ask(2, 0, false));
    }

    #[test]
    fn a_server_that_is_busy_is_given_time_and_so_are_the_others() {
        let mut course = RetryState::new(policy(), ms(0), 2, 0, true);
        assert_eq!(course.step(ms(0)), ask(0, 0, true));
        course.report(ms(3), 0, AttemptResult::Busy { may_have_applied: false }, 1 << 63);
        assert_eq!(course.step(ms(3)), RetryAction::Wait { until: Some(ms(8)) });
        assert_eq!(course.step(ms(8)), ask(1, 0, false));
        assert_eq!(course.step(ms(8)), ask(2, 1, false));
    }

    #[test]
    fn a_refusal_is_certain_only_if_nobody_else_can_have_taken_it_up() {
        let refused = |lost: Option<AttemptResult>| {
            let mut course = RetryState::new(policy(), ms(0), 2, 0, true);
            assert_eq!(course.step(ms(0)), ask(0, 0, true));
            if let Some(lost) = lost {
                course.report(ms(1), 0, lost, 0);
            }
            let mut attempt = 0;
            while let RetryAction::Ask { attempt: next, .. } = course.step(ms(200)) {
                attempt = next;
            }
            course.report(ms(201), attempt, AttemptResult::Refused, 0);
            course.step(ms(201))
        };
        let failed = |may_have_applied| RetryAction::Over(RetryOutcome::Failed { may_have_applied });
        assert_eq!(refused(None), failed(true), "the first is still at it");
        assert_eq!(refused(Some(AttemptResult::Lost { sent: true })), failed(true));
        let mut alone = RetryState::new(policy(), ms(0), 1, 0, true);
        alone.step(ms(0));
        alone.report(ms(1), 0, AttemptResult::Busy { may_have_applied: false }, 0);
        alone.step(ms(1));
        alone.report(ms(2), 1, AttemptResult::Refused, 0);
        assert_eq!(alone.step(ms(2)), failed(false));
    }

    #[test]
    fn what_is_not_new_is_never_called_so() {
        assert_eq!(RetryState::new(policy(), ms(0), 1, 0, false).step(ms(0)), ask(0, 0, false));
    }

    fn report() -> impl Strategy<Value = AttemptResult> {
        prop_oneof![
            1 => Just(AttemptResult::Answered),
            1 => Just(AttemptResult::Refused),
            10 => any::<bool>().prop_map(|may_have_applied| AttemptResult::Busy { may_have_applied }),
            20 => any::<bool>().prop_map(|sent| AttemptResult::Lost { sent }),
        ]
    }

    proptest! {
        #[test]
        fn a_course_keeps_its_promises(
            deadline in prop::option::of(1..5000_u64),
            servers in 1..6_usize,
            first in 0..6_usize,
            is_new: bool,
            happenings in prop::collection::vec((0..1500_u64, report()), 1..40),
            chances in prop::collection::vec(any::<u64>(), 1..20),
        ) {
            let policy = Policy { deadline: deadline.map(ms), ..policy() };
            let mut course = RetryState::new(policy, ms(7), servers, first, is_new);
            // What is not new may have been done long ago.
            let (mut now, mut asked, mut may_have_applied) = (ms(7), 0_u32, !is_new);
            let mut flying: Vec<(u32, usize, Duration, AttemptResult)> = Vec::new();
            let mut chances = chances.iter().cycle().copied();
            let mut refused = false;
            // Without a deadline it goes on for ever: so long as the machine is looked at.
            for _ in 0..500 {
                match course.step(now) {
                    RetryAction::Ask { attempt, server, is_first_time } => {
                        prop_assert_eq!(attempt, asked);
                        prop_assert_eq!(is_first_time, is_new && asked == 0);
                        prop_assert!(deadline.is_none_or(|deadline| now < ms(7 + deadline)));
                        prop_assert!(flying.iter().all(|(_, other, ..)| *other != server));
                        prop_assert!(asked > 0 || server == first % servers);
                        let (after, report) = happenings[asked as usize % happenings.len()];
                        flying.push((attempt, server, now + ms(after), report));
                        asked += 1;
                    }
                    RetryAction::Abandon { attempt } => {
                        flying.retain(|(other, ..)| *other != attempt);
                        may_have_applied = true;
                        course.report(now, attempt, AttemptResult::Lost { sent: true }, chances.next().unwrap());
                    }
                    RetryAction::Wait { until } => {
                        let next = flying.iter().enumerate().min_by_key(|(_, (_, _, when, _))| *when);
                        match (next, until) {
                            (Some((at, &(attempt, _, when, report))), until) if until.is_none_or(|until| when <= until) => {
                                flying.remove(at);
                                now = now.max(when);
                                match report {
                                    AttemptResult::Busy { may_have_applied: perhaps } | AttemptResult::Lost { sent: perhaps } => may_have_applied |= perhaps,
                                    AttemptResult::Refused => (refused, may_have_applied) = (true, may_have_applied || !flying.is_empty()),
                                    AttemptResult::Answered => {}
                                }
                                course.report(now, attempt, report, chances.next().unwrap());
                            }
                            (_, Some(until)) => {
                                prop_assert!(until > now, "a wait for what is over");
                                now = until;
                            }
                            (_, None) => prop_assert!(false, "it waits for nothing, for ever"),
                        }
                    }
                    RetryAction::Over(RetryOutcome::Answered { server }) => {
                        prop_assert!(server < servers);
                        return Ok(());
                    }
                    RetryAction::Over(RetryOutcome::Failed { may_have_applied: told }) => {
                        prop_assert_eq!(told, may_have_applied);
                        prop_assert!(refused || deadline.is_some());
                        return Ok(());
                    }
                }
            }
            // So many steps in so many servers take time: it does not ask without a pause.
            prop_assert!(now > ms(7));
        }
    }
}
