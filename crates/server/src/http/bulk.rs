//! A runtime for requests with large bodies. They take many milliseconds of processor time, which would delay
//! every other connection on the runtime of the server.

use std::io;

use axum::extract::Request;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// Bytes of a body from which on a request runs on the bulk runtime.
pub const BULK_BYTES: u64 = 64 << 10;

/// Priority of the threads, as in `nice`: requests of ordinary size go first.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

pub struct BulkRuntime(Option<Runtime>);

impl BulkRuntime {
    /// Starts the threads: half as many as there are processors.
    pub fn new() -> io::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(threads).thread_name("jeton-bulk").enable_all();
        #[cfg(target_os = "linux")]
        runtime.on_thread_start(|| {
            let _unchanged_on_error = rustix::process::setpriority_process(None, NICE);
        });
        Ok(Self(Some(runtime.build()?)))
    }

    /// Whether the body of a request is large or has no stated length.
    pub fn takes<B: hyper::body::Body>(request: &Request<B>) -> bool {
        request.body().size_hint().exact().is_none_or(|bytes| bytes >= BULK_BYTES)
    }

    /// Runs `work` on the bulk runtime. It ends when the future is dropped.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self.0.as_ref().unwrap_or_else(|| unreachable!("dropped with self only"));
        let mut task = JoinSet::new();
        task.spawn_on(work, runtime.handle());
        match task.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => unreachable!("it has a task"),
        }
    }
}

impl Drop for BulkRuntime {
    fn drop(&mut self) {
        // A runtime must not be dropped by a task, which cannot wait for its threads.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use axum::body::Bytes;
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn requests_with_large_bodies_run_on_bulk_threads() {
        for (bytes, is_bulk) in [(0, false), (BULK_BYTES - 1, false), (BULK_BYTES, true)] {
            let request = Request::new(Full::new(Bytes::from(vec![0; bytes as usize])));
            assert_eq!(BulkRuntime::takes(&request), is_bulk, "{bytes}");
        }
        // Dropped in a task, as with a server.
        let bulk = BulkRuntime::new().unwrap();
        let name = bulk.run(async { std::thread::current().name().map(str::to_owned) }).await;
        assert_eq!(name.as_deref(), Some("jeton-bulk"));
    }
}
