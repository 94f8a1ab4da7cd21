//! Rate limits and quotas of tokens. `rate_limiter.rs` tests the rate itself.

use std::sync::Barrier;
use std::time::Duration;

use jeton_auth::{Access, Exhausted, Grant, Limits, Quota, Rate, Throttled, Used};

use crate::common::{NOW, TokenDir, everything, store_with};

fn limited(limits: Limits) -> (Access, String) {
    let (store, token) = store_with(Grant { limits, ..everything("a") });
    (Access::from_store(&store), token.reveal())
}

#[test]
fn all_contexts_of_a_token_share_one_rate_limit() {
    let operations = Some(Rate { per_second: 10, burst: 3 });
    let (access, token) = limited(Limits { operations, ..Limits::default() });
    let (one, other) = (access.authenticate(&token, NOW).unwrap(), access.authenticate(&token, NOW).unwrap());
    one.spend(NOW, 2).unwrap();
    other.spend(NOW, 1).unwrap();
    let throttled = one.clone().spend(NOW, 1).unwrap_err();
    assert_eq!(throttled, Throttled::Wait { retry_after: Duration::from_millis(100) });
    assert_eq!(throttled.to_string(), "over the rate limit of this token, try again in 100 ms");
    assert!(other.spend(NOW + 99, 1).is_err());
    other.spend(NOW + 100, 1).unwrap();
    assert_eq!(one.spend(NOW + 1000, 4), Err(Throttled::TooLarge { burst: 3 }));
}

#[test]
fn quotas_are_separate_and_inclusive() {
    let (access, token) = limited(Limits { tables: Some(2), counters: Some(10), ..Limits::default() });
    let context = access.authenticate(&token, NOW).unwrap();
    context.take(Quota::Tables, 2).unwrap();
    assert_eq!(context.take(Quota::Tables, 1), Err(Exhausted { quota: Quota::Tables, limit: 2 }));
    context.take(Quota::Counters, 9).unwrap();
    // All or none: two do not fit, and one still does.
    let exhausted = context.take(Quota::Counters, 2).unwrap_err();
    assert_eq!(exhausted.to_string(), "this token may create 10 counters; the request exceeds this quota");
    context.take(Quota::Counters, 1).unwrap();
    context.take(Quota::Counters, 0).unwrap();
    assert!(context.take(Quota::Counters, u64::MAX).is_err());

    context.give_back(Quota::Counters, 1);
    context.take(Quota::Counters, 1).unwrap();
    context.give_back(Quota::Counters, 1000);
    assert!(context.take(Quota::Counters, 11).is_err(), "the usage is never below zero");
    context.take(Quota::Counters, 10).unwrap();
}

#[test]
fn concurrent_threads_share_one_quota() {
    let (access, token) = limited(Limits { counters: Some(2_000_000), ..Limits::default() });
    let start = Barrier::new(4);
    let take = || {
        let context = access.authenticate(&token, NOW).unwrap();
        start.wait();
        std::iter::from_fn(|| context.take(Quota::Counters, 1).ok()).count()
    };
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 2_000_000);
}

#[test]
fn usage_is_restored_after_a_restart() {
    let limits = Limits { tables: Some(2), counters: Some(10), ..Limits::default() };
    let (dir, tokens) = TokenDir::new(&[Grant { limits, ..everything("b") }, everything("a")]);
    let before = dir.access();
    before.authenticate(tokens[0].reveal(), NOW).unwrap().take(Quota::Counters, 7).unwrap();
    // Counted without a limit too.
    before.authenticate(tokens[1].reveal(), NOW).unwrap().take(Quota::Tables, 3).unwrap();
    let used = before.used();
    let expected = [
        Used { name: "a".into(), tables: 3, counters: 0 },
        Used { name: "b".into(), tables: 0, counters: 7 },
    ];
    assert_eq!(used, expected);

    let after = dir.access();
    assert!(used.iter().all(|used| after.set_used(used)));
    assert!(!after.set_used(&Used { name: "gone".into(), tables: 1, counters: 1 }));
    assert_eq!(after.used(), expected);
    let context = after.authenticate(tokens[0].reveal(), NOW).unwrap();
    assert!(context.take(Quota::Counters, 4).is_err());
    context.take(Quota::Counters, 3).unwrap();

    // The limit was lowered below the usage: only zero fits.
    assert!(after.set_used(&Used { name: "b".into(), tables: 5, counters: 0 }));
    assert!(context.take(Quota::Tables, 1).is_err());
    context.take(Quota::Tables, 0).unwrap();
}
