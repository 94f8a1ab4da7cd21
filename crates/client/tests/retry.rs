//! The retry state machine under any sequence of events, without a network.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use jeton_client::{AttemptResult, Backoff, FanOut, Policy, RetryAction, RetryOutcome, RetryState};
use proptest::prelude::*;

const START: Duration = Duration::from_millis(77);

/// The result of an attempt, and after how many milliseconds it arrives.
#[derive(Debug, Clone, Copy)]
struct Event {
    after: u64,
    result: AttemptResult,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn result() -> impl Strategy<Value = AttemptResult> {
    prop_oneof![
        1 => Just(AttemptResult::Answered),
        1 => any::<bool>().prop_map(|may_have_applied| AttemptResult::Refused { may_have_applied }),
        1 => Just(AttemptResult::NeverApplied),
        8 => any::<bool>().prop_map(|may_have_applied| AttemptResult::Busy { may_have_applied }),
        20 => any::<bool>().prop_map(|sent| AttemptResult::Lost { sent }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (0..400u64, result()).prop_map(|(after, result)| Event { after, result })
}

fn fan_out() -> impl Strategy<Value = FanOut> {
    prop_oneof![
        prop::option::of(0..300u64).prop_map(|hedge| FanOut::One { hedge_after: hedge.map(ms) }),
        (0..300u64).prop_map(|widen| FanOut::All { widen_after: ms(widen) }),
    ]
}

prop_compose! {
    fn policy()(
        deadline in prop::option::of(1..3000u64),
        window in prop::option::of(1..4000u64),
        attempt in 1..500u64,
        fan_out in fan_out(),
        base in 0..50u64,
        cap in 0..500u64,
    ) -> Policy {
        Policy {
            deadline: deadline.map(ms),
            window: window.map(ms),
            attempt_timeout: ms(attempt),
            fan_out,
            backoff: Backoff { base: ms(base), cap: ms(cap) },
        }
    }
}

/// The wait between the failure of an attempt and the next attempt of the same lane.
#[derive(Debug)]
struct Wait {
    failed_at: Duration,
    sent_at: Duration,
    /// Failures before it in this lane.
    failures: u32,
    is_busy: bool,
}

/// Everything a run did.
#[derive(Debug, Default)]
struct Run {
    /// Time and server of each attempt.
    sent: Vec<(Duration, usize)>,
    waits: Vec<Wait>,
    in_flight_max: usize,
    /// Whether two attempts were in flight to one server.
    is_doubled: bool,
    may_have_applied: bool,
    is_never_applied: bool,
    is_refused: bool,
    /// Time and outcome; `None` if the run was stopped before its end.
    end: Option<(Duration, RetryOutcome)>,
}

/// A request with its test oracle.
struct Driver<'a> {
    retry: RetryState,
    policy: Policy,
    now: Duration,
    run: Run,
    /// Number, server, time of the result, result.
    in_flight: Vec<(u32, usize, Duration, AttemptResult)>,
    /// Last failure of each lane, its number of failures, and whether the server was busy.
    failed: Vec<(Option<(Duration, bool)>, u32)>,
    random: std::iter::Cycle<std::slice::Iter<'a, u64>>,
}

impl Driver<'_> {
    fn lane(&self, server: usize) -> usize {
        if matches!(self.policy.fan_out, FanOut::One { .. }) { 0 } else { server }
    }

    fn send(&mut self, attempt: u32, server: usize, events: &[Event]) {
        assert_eq!(attempt as usize, self.run.sent.len());
        let lane = self.lane(server);
        if let (Some((failed_at, is_busy)), failures) = &mut self.failed[lane] {
            let (failed_at, is_busy, failures) = (*failed_at, *is_busy, *failures);
            self.run.waits.push(Wait { failed_at, sent_at: self.now, failures, is_busy });
            self.failed[lane].0 = None;
        }
        self.run.sent.push((self.now, server));
        self.run.is_doubled |= self.in_flight.iter().any(|(_, other, ..)| *other == server);
        let event = events[attempt as usize % events.len()];
        self.in_flight.push((attempt, server, self.now + ms(event.after), event.result));
        self.run.in_flight_max = self.run.in_flight_max.max(self.in_flight.len());
    }

    fn report(&mut self, at: usize, result: AttemptResult) {
        let (attempt, server, ..) = self.in_flight.remove(at);
        match result {
            AttemptResult::Busy { may_have_applied } => self.run.may_have_applied |= may_have_applied,
            AttemptResult::Lost { sent } => self.run.may_have_applied |= sent,
            AttemptResult::Refused { may_have_applied } => {
                self.run.is_refused = true;
                // A server may still apply an attempt that is in flight at the end.
                self.run.may_have_applied |= may_have_applied || !self.in_flight.is_empty();
            }
            AttemptResult::NeverApplied => self.run.is_never_applied = true,
            AttemptResult::Answered => {}
        }
        self.retry.report(self.now, attempt, result, *self.random.next().unwrap());
        // A second report of one attempt changes nothing.
        self.retry.report(self.now, attempt, AttemptResult::Answered, 0);
        let lane = self.lane(server);
        if !self.in_flight.iter().any(|(_, other, ..)| self.lane(*other) == lane) {
            let is_busy = matches!(result, AttemptResult::Busy { .. });
            self.failed[lane] = (Some((self.now, is_busy)), self.failed[lane].1 + 1);
        }
    }

    fn wait(&mut self, until: Option<Duration>) {
        if let (Some(until), Some(end)) = (until, self.retry.end()) {
            assert!(until <= end);
        }
        assert!(until.is_none_or(|until| until > self.now), "waits for a time in the past");
        let next = self.in_flight.iter().enumerate().min_by_key(|(_, (_, _, when, _))| *when);
        match (next, until) {
            (Some((at, &(_, _, when, result))), until) if until.is_none_or(|until| when <= until) => {
                self.now = self.now.max(when);
                self.report(at, result);
            }
            (_, Some(until)) => self.now = until,
            (_, None) => panic!("waits without anything in flight"),
        }
    }
}

fn run(
    policy: Policy,
    servers: usize,
    first: usize,
    may_have_applied: bool,
    events: &[Event],
    random: &[u64],
) -> Run {
    let mut driver = Driver {
        retry: RetryState::new(policy, START, servers, first, may_have_applied),
        policy,
        now: START,
        run: Run { may_have_applied, ..Run::default() },
        in_flight: Vec::new(),
        failed: vec![(None, 0); servers],
        random: random.iter().cycle(),
    };
    // Without a deadline only a result ends the run: it is stopped after a while.
    let is_endless = driver.retry.end().is_none();
    for _ in 0..if is_endless { 500 } else { 100_000 } {
        let action = driver.retry.step(driver.now);
        match action {
            RetryAction::Send { attempt, server } => driver.send(attempt, server, events),
            RetryAction::Abandon { attempt } => {
                let at = driver.in_flight.iter().position(|(other, ..)| *other == attempt);
                let at = at.expect("only attempts in flight are abandoned");
                // Some of the abandoned attempts were never sent.
                let sent = !matches!(driver.in_flight[at].3, AttemptResult::Lost { sent: false });
                driver.report(at, AttemptResult::Lost { sent });
            }
            RetryAction::Wait { until } => driver.wait(until),
            RetryAction::Finished(outcome) => {
                assert_eq!(driver.retry.step(driver.now + ms(1)), action, "the outcome changed");
                assert_eq!(driver.retry.attempts() as usize, driver.run.sent.len());
                driver.run.end = Some((driver.now, outcome));
                return driver.run;
            }
        }
    }
    assert!(is_endless, "it does not end: {:?}", driver.run);
    // A machine without pauses would get nowhere in as many steps.
    assert!(driver.now > START || policy.backoff.ceiling(0).is_zero());
    driver.run
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_invariants_hold_under_any_events(
        policy in policy(),
        servers in 1..6usize,
        first in 0..6usize,
        may_have_applied: bool,
        events in prop::collection::vec(event(), 1..40),
        random in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let run = run(policy, servers, first, may_have_applied, &events, &random);
        let limits = [policy.deadline, policy.window.map(|window| window / 2)];
        let latest = limits.into_iter().flatten().min().map(|limit| START + limit);
        for (at, (when, server)) in run.sent.iter().enumerate() {
            prop_assert!(latest.is_none_or(|latest| *when < latest), "sent at the end or later");
            if at == 0 || matches!(policy.fan_out, FanOut::One { .. }) {
                prop_assert_eq!(*server, (first + at) % servers);
            }
        }
        let servers_of_lane = match policy.fan_out {
            FanOut::One { hedge_after } => {
                prop_assert!(run.in_flight_max <= 1 + usize::from(hedge_after.is_some()));
                servers as u32
            }
            FanOut::All { .. } => {
                prop_assert!(!run.is_doubled, "two attempts are in flight to one server");
                1
            }
        };
        for Wait { failed_at, sent_at, failures, is_busy } in &run.waits {
            let ceiling = policy.backoff.ceiling((failures - 1) / servers_of_lane);
            prop_assert!(*sent_at - *failed_at <= ceiling, "waited longer than the backoff allows");
            if !is_busy && failures % servers_of_lane != 0 {
                prop_assert_eq!(sent_at, failed_at, "another server was there to try");
            }
        }
        let Some((end, outcome)) = run.end else { return Ok(()) };
        prop_assert!(latest.is_none_or(|latest| end <= latest));
        match outcome {
            RetryOutcome::Answered { attempt, server } => {
                prop_assert_eq!(run.sent[attempt as usize].1, server);
            }
            RetryOutcome::Failed { may_have_applied } => {
                prop_assert_eq!(may_have_applied, run.may_have_applied && !run.is_never_applied);
                prop_assert!(latest.is_some() || run.is_refused || run.is_never_applied);
            }
        }
    }

    #[test]
    fn waits_cover_the_whole_range_below_the_ceiling(base in 1..1000u64, cap in 1..10_000u64, round in 0..40u32) {
        let backoff = Backoff { base: ms(base), cap: ms(cap) };
        let ceiling = backoff.ceiling(round);
        prop_assert_eq!(ceiling, ms((u128::from(base) << round).min(u128::from(cap)) as u64));
        prop_assert_eq!(backoff.wait(round, 0), Duration::ZERO);
        let half = backoff.wait(round, 1 << 63);
        prop_assert!(half * 2 <= ceiling && half * 2 + Duration::from_nanos(2) >= ceiling);
        prop_assert!(backoff.wait(round, u64::MAX) <= ceiling);
    }
}

fn one_policy() -> Policy {
    Policy {
        deadline: Some(ms(10_000)),
        window: None,
        attempt_timeout: ms(500),
        fan_out: FanOut::One { hedge_after: Some(ms(50)) },
        backoff: Backoff::default(),
    }
}

fn all_policy() -> Policy {
    Policy {
        deadline: None,
        window: None,
        attempt_timeout: ms(1000),
        fan_out: FanOut::All { widen_after: ms(100) },
        backoff: Backoff { base: ms(10), cap: ms(50) },
    }
}

fn send(attempt: u32, server: usize) -> RetryAction {
    RetryAction::Send { attempt, server }
}

fn wait(millis: u64) -> RetryAction {
    RetryAction::Wait { until: Some(ms(millis)) }
}

fn answered(attempt: u32, server: usize) -> RetryAction {
    RetryAction::Finished(RetryOutcome::Answered { attempt, server })
}

fn failed(may_have_applied: bool) -> RetryAction {
    RetryAction::Finished(RetryOutcome::Failed { may_have_applied })
}

const REFUSED: AttemptResult = AttemptResult::Refused { may_have_applied: false };

#[test]
fn a_hedge_is_sent_once_to_the_next_server() {
    let mut retry = RetryState::new(one_policy(), ms(0), 2, 0, false);
    assert_eq!(retry.step(ms(0)), send(0, 0));
    assert_eq!(retry.step(ms(0)), wait(50));
    assert_eq!(retry.step(ms(50)), send(1, 1));
    assert_eq!(retry.step(ms(50)), wait(500));
    // The hedge fails: the first attempt is still in flight.
    retry.report(ms(60), 1, AttemptResult::Lost { sent: false }, 0);
    assert_eq!(retry.step(ms(60)), wait(500));
    retry.report(ms(70), 0, AttemptResult::Answered, 0);
    assert_eq!(retry.step(ms(70)), answered(0, 0));
}

#[test]
fn half_the_window_limits_the_deadline() {
    let policy = Policy { window: Some(ms(1000)), ..one_policy() };
    assert_eq!(RetryState::new(policy, ms(5), 1, 0, false).end(), Some(ms(505)));
}

#[test]
fn a_silent_server_widens_the_request_to_all() {
    let mut retry = RetryState::new(all_policy(), ms(0), 3, 1, false);
    assert_eq!(retry.step(ms(0)), send(0, 1));
    assert_eq!(retry.step(ms(0)), wait(100));
    assert_eq!(retry.step(ms(100)), send(1, 0));
    assert_eq!(retry.step(ms(100)), send(2, 2));
    assert_eq!(retry.step(ms(100)), wait(1000));
    retry.report(ms(110), 2, AttemptResult::Answered, 0);
    assert_eq!(retry.step(ms(110)), answered(2, 2));
    retry.report(ms(120), 0, REFUSED, 0);
    assert_eq!(retry.step(ms(120)), answered(2, 2), "the outcome changed");
}

#[test]
fn an_unreachable_server_does_not_delay_the_others() {
    let mut retry = RetryState::new(all_policy(), ms(0), 2, 0, false);
    assert_eq!(retry.step(ms(0)), send(0, 0));
    retry.report(ms(3), 0, AttemptResult::Lost { sent: false }, u64::MAX);
    assert_eq!(retry.step(ms(3)), send(1, 1));
    // The first server is retried after a backoff, concurrently with the other.
    assert!(matches!(retry.step(ms(3)), RetryAction::Wait { until: Some(until) } if until <= ms(13)));
    assert_eq!(retry.step(ms(13)), send(2, 0));
}

#[test]
fn a_busy_server_delays_all_servers() {
    let mut retry = RetryState::new(all_policy(), ms(0), 2, 0, false);
    assert_eq!(retry.step(ms(0)), send(0, 0));
    retry.report(ms(3), 0, AttemptResult::Busy { may_have_applied: false }, 1 << 63);
    assert_eq!(retry.step(ms(3)), wait(8));
    assert_eq!(retry.step(ms(8)), send(1, 0));
    assert_eq!(retry.step(ms(8)), send(2, 1));
}

#[test]
fn a_refusal_is_certain_only_if_no_server_has_it() {
    let refused = |lost: Option<AttemptResult>| {
        let mut retry = RetryState::new(all_policy(), ms(0), 2, 0, false);
        assert_eq!(retry.step(ms(0)), send(0, 0));
        if let Some(lost) = lost {
            retry.report(ms(1), 0, lost, 0);
        }
        let mut attempt = 0;
        while let RetryAction::Send { attempt: next, .. } = retry.step(ms(200)) {
            attempt = next;
        }
        retry.report(ms(201), attempt, REFUSED, 0);
        retry.step(ms(201))
    };
    assert_eq!(refused(None), failed(true), "the first attempt is still in flight");
    assert_eq!(refused(Some(AttemptResult::Lost { sent: true })), failed(true));
    let mut alone = RetryState::new(all_policy(), ms(0), 1, 0, false);
    alone.step(ms(0));
    alone.report(ms(1), 0, AttemptResult::Busy { may_have_applied: false }, 0);
    alone.step(ms(1));
    alone.report(ms(2), 1, REFUSED, 0);
    assert_eq!(alone.step(ms(2)), failed(false));
}

#[test]
fn an_earlier_process_may_have_applied_the_request() {
    let mut retry = RetryState::new(all_policy(), ms(0), 1, 0, true);
    assert_eq!(retry.step(ms(0)), send(0, 0));
    retry.report(ms(1), 0, REFUSED, 0);
    assert_eq!(retry.step(ms(1)), failed(true));
}
