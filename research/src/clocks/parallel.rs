//! Runs the same work on many items, on all processors.
//!
//! Invariant: results are in the order of the items.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Processes each item; calls `done` for each on the caller's thread.
pub(crate) fn map<T: Sync, R: Send>(
    things: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(&T),
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<R>> = things.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, results_of_all) = mpsc::channel();
        for _ in 0..threads.min(things.len()) {
            let sender = sender.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                while let Some((at, thing)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    things.get(at).map(|thing| (at, thing))
                } {
                    // The receiver is gone if the caller panicked.
                    let _ = sender.send((at, work(thing)));
                }
            });
        }
        drop(sender);
        for (at, result) in results_of_all {
            results[at] = Some(result);
            done(&things[at]);
        }
    });
    results.into_iter().map(|result| result.expect("a thread that panics ends the scope")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_each_is_reported() {
        let mut reported = 0;
        let squares = map(&(0..100_u64).collect::<Vec<_>>(), |number| number * number, |_| reported += 1);
        assert_eq!(squares, (0..100).map(|number| number * number).collect::<Vec<_>>());
        assert_eq!(reported, 100);
    }
}
