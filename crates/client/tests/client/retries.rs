//! Retries after specific failures.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jeton_auth::{Access, Grant, RANDOM_BYTES, TableRule, TokenStore};
use jeton_client::{AttemptError, Backoff, Client, Error, ErrorCode, OperationStatus, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::chaos::{Faults, short_timeouts};
use crate::server::Server;

/// The requests that a scripted server received, without handshakes.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<Vec<u8>>>>);

impl Requests {
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap().concat()).into_owned()
    }

    fn are_all_the_same(&self) -> bool {
        self.0.lock().unwrap().windows(2).all(|pair| pair[0] == pair[1])
    }
}

/// A server that accepts handshakes and sends these replies in order; then it does not reply any more.
async fn scripted_server(replies: Vec<&'static [u8]>) -> (SocketAddr, Requests) {
    scripted_server_behind(Arc::new(Semaphore::new(1000)), replies).await
}

/// Like [`scripted_server`], but each handshake needs a permit.
async fn scripted_server_behind(gate: Arc<Semaphore>, replies: Vec<&'static [u8]>) -> (SocketAddr, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Requests::default());
    let log = requests.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (log, replies, gate) = (log.clone(), replies.clone(), gate.clone());
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    if bytes[..read].windows(5).any(|window| window == b"HELLO") {
                        gate.acquire().await.unwrap().forget();
                        stream.write_all(b"%0\r\n").await.unwrap();
                        continue;
                    }
                    let number = {
                        let mut log = log.0.lock().unwrap();
                        log.push(bytes[..read].to_vec());
                        log.len() - 1
                    };
                    if let Some(reply) = replies.get(number) {
                        let _closed = stream.write_all(reply).await;
                    }
                }
            });
        }
    });
    (address, requests)
}

/// Longer than every deadline: a random wait below it exceeds a minute with a probability of 1 - 1e-8.
const NEVER: Duration = Duration::from_secs(10_000_000_000);

/// Timeouts that no test reaches, on a slow machine either.
fn slow_timeouts(address: SocketAddr) -> Options {
    let (attempt_timeout, deadline) = (Duration::from_secs(60), Duration::from_secs(60));
    Options { connections: 1, attempt_timeout, deadline, ..short_timeouts([address.to_string()]) }
}

fn one_connection(address: SocketAddr) -> Options {
    Options { connections: 1, deadline: Duration::from_secs(2), ..short_timeouts([address.to_string()]) }
}

#[tokio::test]
async fn busy_is_retried_and_then_returned() {
    let (address, requests) =
        scripted_server(vec![b"-BUSY a\r\n", b"-MISCONF b\r\n", b"*2\r\n:3\r\n+applied\r\n"]).await;
    let client = Client::new(one_connection(address)).unwrap();
    assert_eq!(client.add("a", 1).await.unwrap().value, Some(3));
    assert_eq!(requests.len(), 3);
    assert!(requests.are_all_the_same(), "attempts differ: {}", requests.text());

    // The backoff exceeds the deadline, so no attempt can be in flight at the deadline, on a slow machine
    // either.
    let (address, _) = scripted_server(vec![b"-BUSY still\r\n"]).await;
    let options = Options { backoff: Backoff { base: NEVER, cap: NEVER }, ..slow_timeouts(address) };
    let error = Client::new(options).unwrap().add("a", 1).await.unwrap_err();
    assert_eq!(error, Error::Busy { message: "BUSY still".into() });
    assert!(error.is_certain());
}

#[tokio::test]
async fn a_refusal_after_a_lost_attempt_is_not_certain() {
    // The first attempt gets no reply: it may have been applied before the token lost its right.
    let (address, _) = scripted_server(vec![b"", b"-NOPERM not any more\r\n"]).await;
    let client = Client::new(one_connection(address)).unwrap();
    let id = client.new_id();
    let error = client.add("a", 1).id(id.clone()).await.unwrap_err();
    let Error::Unknown { id: carried, last: AttemptError::Server(refusal) } = error else {
        panic!("{error}")
    };
    assert_eq!((carried, refusal.code), (id, Some(ErrorCode::Forbidden)));
    // A read has no unknown outcome.
    let (address, _) = scripted_server(vec![b"", b"-NOPERM not any more\r\n"]).await;
    let error = Client::new(one_connection(address)).unwrap().get("a").await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error}");
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    for reply in [
        &b"-IDEXPIRED no\r\n"[..],
        b"-IDMISMATCH no\r\n",
        b"-IDFUTURE no\r\n",
        b"-IDREQUIRED no\r\n",
        b"-IDFORMAT no\r\n",
        b"-NOSESSION no\r\n",
        b"-FENCED no\r\n",
        b"-NOAUTH no\r\n",
        b"-WRONGPASS no\r\n",
        b"-NOPERM no\r\n",
        b"-NOTABLE no\r\n",
        b"-ERR no\r\n",
    ] {
        let (address, requests) = scripted_server(vec![reply, b"*2\r\n:3\r\n+applied\r\n"]).await;
        let error = Client::new(one_connection(address)).unwrap().add("a", 1).await.unwrap_err();
        let is_right = match &error {
            Error::Expired { .. } => reply.starts_with(b"-IDEXPIRED"),
            Error::Refused(error) => error.message.as_bytes() == &reply[1..reply.len() - 2],
            _ => false,
        };
        assert!(is_right, "{error:?}");
        assert_eq!(requests.len(), 1, "{error}");
    }
}

#[tokio::test]
async fn no_reply_is_an_unknown_outcome_at_the_deadline() {
    let (address, requests) = scripted_server(vec![]).await;
    let client = Client::new(one_connection(address)).unwrap();
    let error = client.add("a", 1).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert!(requests.len() >= 2, "it did not try again");
    assert!(requests.are_all_the_same(), "attempts differ: {}", requests.text());
    // A server that stops does not know the outcome of operations in flight.
    let (address, _) = scripted_server(vec![b"-LOADING the engine is closed\r\n"; 1000]).await;
    let error = Client::new(one_connection(address)).unwrap().add("a", 1).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
}

#[tokio::test]
async fn an_unexpected_reply_is_an_unknown_outcome() {
    let (address, _) = scripted_server(vec![b"*2\r\n:1\r\n+perhaps\r\n"]).await;
    let error = Client::new(one_connection(address)).unwrap().add("a", 1).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { last: AttemptError::UnexpectedReply(_), .. }), "{error}");
    // Malformed RESP ends the connection, and the next attempt succeeds.
    let (address, _) = scripted_server(vec![b"what?\r\n", b"*2\r\n:3\r\n+replayed\r\n"]).await;
    let outcome = Client::new(one_connection(address)).unwrap().add("a", 1).await.unwrap();
    assert!(outcome.replayed);
}

#[tokio::test]
async fn an_attempt_abandoned_in_the_queue_is_never_sent() {
    let gate = Arc::new(Semaphore::new(0));
    let (address, requests) = scripted_server_behind(gate.clone(), vec![b"*2\r\n:3\r\n+applied\r\n"]).await;
    let options = Options { attempt_timeout: Duration::from_secs(60), ..one_connection(address) };
    let client = Client::new(options).unwrap();
    let error = client.add("given-up", 1).deadline(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_certain(), "{error}");
    let _dropped = tokio::time::timeout(Duration::from_millis(50), client.add("gone-away", 1)).await;
    // The error said that nothing changed: nothing may be sent afterwards.
    gate.add_permits(1000);
    client.add("sent", 1).deadline(Duration::from_secs(60)).await.unwrap();
    assert!(
        !requests.text().contains("given-up") && !requests.text().contains("gone-away"),
        "{}",
        requests.text()
    );
    assert_eq!(requests.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_does_not_affect_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let slow = Faults { cut: 0, drop_responses: 0, delay: 100, replay: 0, bytes: 1 << 40 };
    let proxy = slow.proxy(server.address, 5).await;
    let options = Options { connections: 1, ..Options::to([proxy.address().to_string()]) };
    let client = Client::connect(options).await.unwrap();
    for round in 0..30 {
        let key = format!("own:{round}");
        let cancelled = tokio::time::timeout(Duration::from_millis(round % 7), client.add("gone", 1));
        let (own, _cancelled) = tokio::join!(client.add(&key, round as i64), cancelled);
        // A wrong order of replies would return the value of another operation.
        assert_eq!(own.unwrap().value, Some(round as i64));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_address_is_tried_at_once_and_preferred() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let (dead, requests) = scripted_server(vec![]).await;
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = [unused.to_string(), dead.to_string(), server.address.to_string()];
    let client = Client::connect(Options::to(addresses).clone()).await.unwrap();
    let before = requests.len();
    for _ in 0..20 {
        client.add("a", 1).await.unwrap();
    }
    assert_eq!(requests.len(), before, "the silent server receives requests");
    assert_eq!(client.get("a").await.unwrap().unwrap().counter(), Some(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hedge_wins_over_a_silent_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let (silent, requests) = scripted_server(vec![]).await;
    let options = Options {
        hedge_after: Some(Duration::from_millis(10)),
        attempt_timeout: Duration::from_secs(60),
        deadline: Duration::from_secs(60),
        ..Options::to([silent.to_string(), server.address.to_string()])
    };
    let client = Client::new(options).unwrap();
    let started = Instant::now();
    let outcome = client.add("a", 1).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(30), "the client waited for the silent server");
    assert_eq!((outcome.value, requests.len()), (Some(1), 1));
    let known = client.operation("a", &outcome.id).await.unwrap();
    assert!(matches!(known, OperationStatus::Known { applied: true, .. }), "{known:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (store, token) = one_token();
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::start_at(folder.path(), address, Access::from_store(&store)).await;
    let options = Options { deadline: Duration::from_secs(60), ..Options::to([server.address.to_string()]) };
    let with = |token: Option<String>| Options { token, ..options.clone() };
    let client = Client::connect(with(Some(token.clone()))).await.unwrap();
    assert_eq!(client.add("a", 1).await.unwrap().value, Some(1));
    let error = client.delete("a").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Forbidden), "{error}");
    let error = Client::connect(with(None)).await.map(drop).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Unauthorized), "{error}");
    let error = Client::connect(with(Some("wrong".into()))).await.map(drop).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TokenInvalid), "{error}");
    assert!(!format!("{:?}", with(Some(token.clone()))).contains(&token), "the token is in the log");
}

/// A token store with one token that may read and add in all tables, and the token.
fn one_token() -> (TokenStore, String) {
    let mut store = TokenStore::new();
    let rule = TableRule { pattern: "*".parse().unwrap(), rights: "read add".parse().unwrap() };
    let grant = Grant { tables: vec![rule], ..Grant::new("a") };
    let token = store.add(grant, &[7; RANDOM_BYTES], 1).unwrap();
    (store, token.reveal())
}
