//! The server: accepts connections of other nodes, and executes the requests of each concurrently.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::{Connection, Endpoint, FRAME_BYTES_MAX, FrameReader, FrameWriter, IDLE_TIMEOUT};

/// The most connections, and of these the most that are not authenticated.
const CONNECTIONS_MAX: usize = 256;
const UNAUTHENTICATED_MAX: usize = 64;
/// The most requests of a connection that are executed at a time.
const REQUESTS_MAX: usize = 256;
/// The most bytes of the requests of a connection that are executed, besides the last one, in units of
/// `UNIT`.
const UNITS_MAX: usize = (64 << 20) / UNIT;
const UNIT: usize = 1 << 10;
/// The pause after a connection could not be accepted, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Executes requests of other nodes.
pub trait Handler: Send + Sync + 'static {
    /// Whether this node may call.
    fn is_known(&self, caller: u128) -> bool;

    fn handle(&self, caller: u128, request: Bytes) -> impl Future<Output = Vec<u8>> + Send;
}

/// Accepts connections until the future is dropped, which also ends the connections.
pub async fn serve<H: Handler>(listener: TcpListener, endpoint: Endpoint, handler: Arc<H>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let unauthenticated = Arc::new(Semaphore::new(UNAUTHENTICATED_MAX));
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        // The semaphores are never closed.
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok(authenticating) = Arc::clone(&unauthenticated).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of a node");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (endpoint, handler) = (endpoint.clone(), Arc::clone(&handler));
        tasks.spawn(async move {
            if let Err(error) = serve_connection(stream, &endpoint, handler, authenticating).await {
                tracing::debug!(%error, "a connection of a node ended");
            }
            drop(permit);
        });
    }
}

async fn serve_connection<H: Handler>(
    stream: TcpStream,
    endpoint: &Endpoint,
    handler: Arc<H>,
    authenticating: OwnedSemaphorePermit,
) -> io::Result<()> {
    let (connection, caller) =
        Connection::accept(endpoint, stream, |caller| handler.is_known(caller)).await?;
    drop(authenticating);
    let (reader, writer) = connection.into_split();
    let (responses, queue) = mpsc::channel(REQUESTS_MAX);
    let mut tasks = JoinSet::new();
    tasks.spawn(send_all(writer, queue));
    let ended = execute_all(reader, caller, &handler, responses, &mut tasks).await;
    // The requests in flight complete, as if the connection were there.
    while tasks.join_next().await.is_some() {}
    ended
}

async fn execute_all<H: Handler>(
    mut reader: FrameReader,
    caller: u128,
    handler: &Arc<H>,
    responses: mpsc::Sender<Vec<u8>>,
    tasks: &mut JoinSet<io::Result<()>>,
) -> io::Result<()> {
    let units = Arc::new(Semaphore::new(UNITS_MAX));
    let places = Arc::new(Semaphore::new(REQUESTS_MAX));
    loop {
        while let Some(ended) = tasks.try_join_next() {
            ended.map_err(io::Error::other)??;
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let frame = Bytes::from(timeout(IDLE_TIMEOUT, reader.receive(FRAME_BYTES_MAX)).await??);
        let taken = frame.len().div_ceil(UNIT).min(UNITS_MAX) as u32;
        let Ok(taken) = Arc::clone(&units).acquire_many_owned(taken).await else { return Ok(()) };
        if frame.len() < 8 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (handler, responses) = (Arc::clone(handler), responses.clone());
        tasks.spawn(async move {
            let mut response = frame[..8].to_vec();
            response.extend_from_slice(&handler.handle(caller, frame.slice(8..)).await);
            let _connection_ended = responses.send(response).await;
            drop((place, taken));
            Ok(())
        });
    }
}

async fn send_all(mut writer: FrameWriter, mut queue: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(frame) = queue.recv().await {
        timeout(SEND_TIMEOUT, writer.send(&frame)).await??;
    }
    Ok(())
}
