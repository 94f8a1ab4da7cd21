//! The course of an operation under any course of events, without a network.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use jeton_client::{AttemptResult, Backoff, Policy, RetryAction, RetryOutcome, RetryState};
use proptest::prelude::*;

/// What happens to an attempt, and after how long.
#[derive(Debug, Clone, Copy)]
struct Happening {
    after: u64,
    report: AttemptResult,
}

fn report() -> impl Strategy<Value = AttemptResult> {
    prop_oneof![
        1 => Just(AttemptResult::Answered),
        1 => any::<bool>().prop_map(|may_have_applied| AttemptResult::Refused { may_have_applied }),
        1 => Just(AttemptResult::Settled),
        8 => any::<bool>().prop_map(|may_have_applied| AttemptResult::Busy { may_have_applied }),
        20 => any::<bool>().prop_map(|sent| AttemptResult::Lost { sent }),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    (0..400u64, report()).prop_map(|(after, report)| Happening { after, report })
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

prop_compose! {
    fn policy()(
        deadline in 1..3000u64,
        window in 1..4000u64,
        attempt in 1..500u64,
        hedge in prop::option::of(0..300u64),
        base in 0..50u64,
        cap in 0..500u64,
    ) -> Policy {
        Policy {
            deadline: ms(deadline),
            window: ms(window),
            attempt_timeout: ms(attempt),
            hedge_after: hedge.map(ms),
            backoff: Backoff { base: ms(base), cap: ms(cap) },
        }
    }
}

/// A whole course, as it was.
#[derive(Debug, Default)]
struct Run {
    /// When, and where to.
    sent: Vec<(Duration, usize)>,
    /// When the last of a volley failed, and when the next was sent, with the number of volleys that had failed, and whether by `Busy`.
    waits: Vec<(Duration, Duration, u32, bool)>,
    flying_max: usize,
    /// Whether any attempt may have been done.
    may_have_applied: bool,
    settled: bool,
    end: Option<(Duration, RetryOutcome)>,
}

fn run(policy: Policy, addresses: usize, first: usize, happenings: &[Happening], chances: &[u64]) -> Run {
    let begin = ms(77);
    let mut course = RetryState::new(policy, begin, addresses, first);
    let mut run = Run::default();
    let mut now = begin;
    // Attempts that are flying: number, when their report comes, the report.
    let mut flying: Vec<(u32, Duration, AttemptResult)> = Vec::new();
    let mut failed: Option<(Duration, bool)> = None;
    let mut failures = 0;
    let mut chances = chances.iter().cycle().copied();
    for _ in 0..100_000 {
        let step = course.step(now);
        match step {
            RetryAction::Send { attempt, address } => {
                assert_eq!(attempt as usize, run.sent.len());
                if let Some((when, busy)) = failed.take() {
                    run.waits.push((when, now, failures, busy));
                }
                run.sent.push((now, address));
                let happening = happenings[attempt as usize % happenings.len()];
                flying.push((attempt, now + ms(happening.after), happening.report));
                run.flying_max = run.flying_max.max(flying.len());
            }
            RetryAction::Abandon { attempt } => {
                let at = flying.iter().position(|(other, ..)| *other == attempt).expect("it is flying");
                let (_, _, report) = flying.remove(at);
                // Half of those that are given up were never sent.
                let sent = !matches!(report, AttemptResult::Lost { sent: false });
                run.may_have_applied |= sent;
                course.report(now, attempt, AttemptResult::Lost { sent }, chances.next().unwrap());
                if flying.is_empty() {
                    (failed, failures) = (Some((now, false)), failures + 1);
                }
            }
            RetryAction::Wait { until } => {
                assert!(until > now, "a wait for what is over: {now:?} {until:?}");
                assert!(until <= course.end());
                let next = flying.iter().enumerate().min_by_key(|(_, (_, when, _))| *when);
                match next {
                    Some((at, &(attempt, when, report))) if when <= until => {
                        flying.remove(at);
                        now = now.max(when);
                        match report {
                            AttemptResult::Busy { may_have_applied }
                            | AttemptResult::Refused { may_have_applied } => {
                                run.may_have_applied |= may_have_applied;
                            }
                            AttemptResult::Lost { sent } => run.may_have_applied |= sent,
                            AttemptResult::Settled => run.settled = true,
                            AttemptResult::Answered => {}
                        }
                        // What still flies when it is over may be done by whom it reaches.
                        if matches!(report, AttemptResult::Refused { .. }) {
                            run.may_have_applied |= !flying.is_empty();
                        }
                        course.report(now, attempt, report, chances.next().unwrap());
                        // A report that comes twice says nothing new.
                        course.report(now, attempt, AttemptResult::Answered, 0);
                        if flying.is_empty() {
                            let busy = matches!(report, AttemptResult::Busy { .. });
                            (failed, failures) = (Some((now, busy)), failures + 1);
                        }
                    }
                    _ => now = until,
                }
            }
            RetryAction::Over(end) => {
                assert_eq!(course.step(now + ms(1)), step, "over is over");
                run.end = Some((now, end));
                return run;
            }
        }
    }
    panic!("it never ends: {run:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_course_keeps_its_promises(
        policy in policy(),
        addresses in 1..4usize,
        first in 0..4usize,
        happenings in prop::collection::vec(happening(), 1..40),
        chances in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let run = run(policy, addresses, first, &happenings, &chances);
        let (over, end) = run.end.unwrap();
        let latest = ms(77) + policy.deadline.min(policy.window / 2);
        prop_assert!(over <= latest);
        for (at, (when, address)) in run.sent.iter().enumerate() {
            prop_assert!(*when < latest, "sent at the end or later");
            prop_assert_eq!(*address, (first + at) % addresses);
        }
        let flying_max = 1 + usize::from(policy.hedge_after.is_some());
        prop_assert!(run.flying_max <= flying_max);
        for (failed, next, failures, busy) in &run.waits {
            let ceiling = policy.backoff.ceiling((failures - 1) / addresses as u32);
            prop_assert!(*next - *failed <= ceiling, "waited longer than the back-off allows");
            if !busy && failures % addresses as u32 != 0 {
                prop_assert_eq!(next, failed, "another address was there to try");
            }
        }
        match end {
            RetryOutcome::Answered { attempt } => prop_assert!((attempt as usize) < run.sent.len()),
            RetryOutcome::Failed { may_have_applied } if run.settled => prop_assert!(!may_have_applied),
            RetryOutcome::Failed { may_have_applied } => prop_assert_eq!(may_have_applied, run.may_have_applied),
        }
    }

    #[test]
    fn waits_are_spread_over_all_of_their_ceiling(base in 1..1000u64, cap in 1..10_000u64, round in 0..40u32) {
        let backoff = Backoff { base: ms(base), cap: ms(cap) };
        let ceiling = backoff.ceiling(round);
        prop_assert_eq!(ceiling, ms((u128::from(base) << round).min(u128::from(cap)) as u64));
        prop_assert_eq!(backoff.wait(round, 0), Duration::ZERO);
        let half = backoff.wait(round, 1 << 63);
        prop_assert!(half * 2 <= ceiling && half * 2 + Duration::from_nanos(2) >= ceiling);
        prop_assert!(backoff.wait(round, u64::MAX) <= ceiling);
    }
}

#[test]
fn a_hedge_goes_elsewhere_when_its_time_has_come_and_once() {
    let policy = Policy { hedge_after: Some(ms(50)), attempt_timeout: ms(500), ..Policy::default() };
    let mut course = RetryState::new(policy, ms(0), 2, 0);
    assert_eq!(course.step(ms(0)), RetryAction::Send { attempt: 0, address: 0 });
    assert_eq!(course.step(ms(0)), RetryAction::Wait { until: ms(50) });
    assert_eq!(course.step(ms(50)), RetryAction::Send { attempt: 1, address: 1 });
    assert_eq!(course.step(ms(50)), RetryAction::Wait { until: ms(500) });
    // The hedge fails: the first attempt is still waited for.
    course.report(ms(60), 1, AttemptResult::Lost { sent: false }, 0);
    assert_eq!(course.step(ms(60)), RetryAction::Wait { until: ms(500) });
    course.report(ms(70), 0, AttemptResult::Answered, 0);
    assert_eq!(course.step(ms(70)), RetryAction::Over(RetryOutcome::Answered { attempt: 0 }));
}

#[test]
fn the_window_ends_a_course_before_the_deadline() {
    let policy = Policy { deadline: ms(10_000), window: ms(1000), ..Policy::default() };
    assert_eq!(RetryState::new(policy, ms(5), 1, 0).end(), ms(505));
}
