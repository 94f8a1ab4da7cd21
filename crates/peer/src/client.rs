//! A client of another node: many requests over one connection, which is made when it is needed and replaced
//! when it breaks.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::connection::{Connection, Endpoint, FRAME_BYTES_MAX, FrameReader, FrameWriter, IDLE_TIMEOUT};

/// The most requests in flight.
const REQUESTS_MAX: usize = 1024;
/// The most bytes of requests in flight, in units of `UNIT` bytes.
const UNITS_MAX: usize = (64 << 20) / UNIT;
const UNIT: usize = 1 << 10;
/// Requests that wait to be sent.
const QUEUE_MAX: usize = 64;
/// A frame that cannot be sent for this long ends the connection.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// After a failure no connection is attempted for this long.
const PAUSE: Duration = Duration::from_millis(50);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Too many requests are in flight. The request was not sent.
    #[error("too many requests are in flight")]
    Busy,
    /// The request was not sent.
    #[error("unreachable: {0}")]
    Unreachable(io::Error),
    /// The request may have been received.
    #[error("no response: {0}")]
    NoResponse(&'static str),
}

type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Bytes>>>>>;

/// A connection in use. It ends when this is dropped.
struct Live {
    frames: mpsc::Sender<Vec<u8>>,
    /// By request number; `None` once the connection has ended.
    pending: Pending,
}

pub struct PeerClient {
    endpoint: Endpoint,
    callee: u128,
    address: String,
    live: Mutex<Option<Arc<Live>>>,
    /// Held while a connection is made. When the last attempt failed, and why.
    connecting: tokio::sync::Mutex<Option<(Instant, io::ErrorKind, String)>>,
    next: AtomicU64,
    requests: Semaphore,
    units: Semaphore,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PeerClient {
    pub fn new(endpoint: Endpoint, address: String, callee: u128) -> Self {
        Self {
            endpoint,
            callee,
            address,
            live: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(None),
            next: AtomicU64::new(0),
            requests: Semaphore::new(REQUESTS_MAX),
            units: Semaphore::new(UNITS_MAX),
        }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request and waits for the response until the deadline.
    pub async fn call(&self, request: &[u8], deadline: Instant) -> Result<Bytes, CallError> {
        let units = request.len().div_ceil(UNIT).min(UNITS_MAX) as u32;
        let _request = self.requests.try_acquire().map_err(|_| CallError::Busy)?;
        let _units = self.units.try_acquire_many(units).map_err(|_| CallError::Busy)?;
        let live = self.connection(deadline).await.map_err(CallError::Unreachable)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut frame = Vec::with_capacity(8 + request.len());
        frame.extend_from_slice(&number.to_le_bytes());
        frame.extend_from_slice(request);
        let closed = || CallError::Unreachable(io::ErrorKind::ConnectionReset.into());
        let timed_out = || CallError::Unreachable(io::ErrorKind::TimedOut.into());
        let place = timeout_at(deadline, live.frames.reserve()).await.map_err(|_| timed_out())?;
        let place = place.map_err(|_| closed())?;
        let (reply, response) = oneshot::channel();
        lock(&live.pending).as_mut().ok_or_else(closed)?.insert(number, reply);
        let _waiting = Waiting { pending: &live.pending, number };
        place.send(frame);
        match timeout_at(deadline, response).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(CallError::NoResponse("the connection was lost")),
            Err(_) => Err(CallError::NoResponse("the deadline has passed")),
        }
    }

    /// Ends the connection. The outcome of the requests in flight is unknown.
    pub fn disconnect(&self) {
        if let Some(live) = lock(&self.live).take() {
            lock(&live.pending).take();
        }
    }

    async fn connection(&self, deadline: Instant) -> io::Result<Arc<Live>> {
        let open = || lock(&self.live).clone().filter(|live| lock(&live.pending).is_some());
        if let Some(live) = open() {
            return Ok(live);
        }
        let Ok(mut failure) = timeout_at(deadline, self.connecting.lock()).await else {
            return Err(io::ErrorKind::TimedOut.into());
        };
        if let Some(live) = open() {
            return Ok(live);
        }
        if let Some((_, kind, why)) = failure.as_ref().filter(|(at, ..)| at.elapsed() < PAUSE) {
            return Err(io::Error::new(*kind, why.clone()));
        }
        let deadline = deadline.min(Instant::now() + self.endpoint.connect_timeout);
        let connect = Connection::connect(&self.endpoint, &self.address, self.callee);
        let connected = timeout_at(deadline, connect).await.map_err(io::Error::from).flatten();
        let connection = connected.inspect_err(|error| {
            *failure = Some((Instant::now(), error.kind(), error.to_string()));
        })?;
        *failure = None;
        let (frames, queue) = mpsc::channel(QUEUE_MAX);
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let live = Arc::new(Live { frames, pending: Arc::clone(&pending) });
        *lock(&self.live) = Some(Arc::clone(&live));
        let (reader, writer) = connection.into_split();
        tokio::spawn(async move {
            let ended = tokio::select! {
                result = receive_all(reader, &pending) => result,
                result = send_all(writer, queue) => result,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection to a node ended");
            }
            // Wakes all that wait.
            lock(&pending).take();
        });
        Ok(live)
    }
}

/// Removes a request that no caller waits for.
struct Waiting<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(pending) = &mut *lock(self.pending) {
            pending.remove(&self.number);
        }
    }
}

async fn receive_all(mut reader: FrameReader, pending: &Pending) -> io::Result<()> {
    loop {
        let frame = Bytes::from(timeout(IDLE_TIMEOUT, reader.receive(FRAME_BYTES_MAX)).await??);
        let Some(number) = frame.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let Some(waiting) = &mut *lock(pending) else { return Ok(()) };
        if let Some(reply) = waiting.remove(&number) {
            let _caller_gone = reply.send(frame.slice(8..));
        }
    }
}

async fn send_all(mut writer: FrameWriter, mut queue: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(frame) = queue.recv().await {
        timeout(SEND_TIMEOUT, writer.send(&frame)).await??;
    }
    Ok(())
}
