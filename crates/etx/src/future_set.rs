//! Steps that are under way at the same time, all carried out by the task that waits for them.
//!
//! A task for each would cost a hand-over between threads at every step, which is a good part of what a fast database takes. A step that
//! panics takes no other with it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Futures of one kind.
pub(crate) struct FutureSet<T> {
    under_way: Vec<Pin<Box<dyn Future<Output = T> + Send>>>,
}

/// What a step panicked with.
pub(crate) type Panicked = Box<dyn Any + Send>;

impl<T> Default for FutureSet<T> {
    fn default() -> Self {
        Self { under_way: Vec::new() }
    }
}

impl<T> FutureSet<T> {
    /// Begins one. It goes on whenever [`FutureSet::next`] is awaited.
    pub(crate) fn begin(&mut self, step: impl Future<Output = T> + Send + 'static) {
        self.under_way.push(Box::pin(step));
    }

    /// The next that comes to its end; none if none is left. Dropped before that, it has lost nothing.
    pub(crate) async fn next(&mut self) -> Option<Result<T, Panicked>> {
        std::future::poll_fn(|context| {
            if self.under_way.is_empty() {
                return Poll::Ready(None);
            }
            for place in 0..self.under_way.len() {
                let step = self.under_way[place].as_mut();
                // What it may have left half done is its own: it is never polled again.
                let ended = match catch_unwind(AssertUnwindSafe(|| step.poll(context))) {
                    Ok(Poll::Pending) => continue,
                    Ok(Poll::Ready(end)) => Ok(end),
                    Err(panic) => Err(panic),
                };
                drop(self.under_way.swap_remove(place));
                return Poll::Ready(Some(ended));
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_comes_to_its_end_and_one_that_panics_takes_no_other_with_it() {
        let mut together = FutureSet::default();
        let (tell, heard) = tokio::sync::oneshot::channel();
        together.begin(async move { heard.await.unwrap() });
        together.begin(async { panic!("a step") });
        together.begin(async move {
            tokio::task::yield_now().await;
            tell.send(7).unwrap();
            1
        });
        let mut ends = Vec::new();
        while let Some(end) = together.next().await {
            ends.push(end.ok());
        }
        assert_eq!(ends, [None, Some(1), Some(7)]);
    }
}
