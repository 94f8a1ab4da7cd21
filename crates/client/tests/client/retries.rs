//! When things go wrong in one particular way.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jeton_auth::{Access, Grant, RANDOM_BYTES, TableRule, TokenStore};
use jeton_client::{AttemptError, Client, Code, Error, OperationStatus, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::chaos::impatient;
use crate::proxy::{Proxy, Weather};
use crate::server::Server;

/// What a puppet was asked, greetings aside.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Vec<u8>>>>);

impl Asked {
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

/// A server that greets, and answers everything else with these bytes, one after the other; at the end it says nothing any more.
async fn puppet(answers: Vec<&'static [u8]>) -> (SocketAddr, Asked) {
    puppet_behind(Arc::new(Semaphore::new(1000)), answers).await
}

/// As a puppet, but each greeting takes a permit.
async fn puppet_behind(gate: Arc<Semaphore>, answers: Vec<&'static [u8]>) -> (SocketAddr, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Asked::default());
    let heard = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (heard, answers, gate) = (heard.clone(), answers.clone(), gate.clone());
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    if bytes[..read].windows(5).any(|window| window == b"HELLO") {
                        gate.acquire().await.unwrap().forget();
                        stream.write_all(b"%0\r\n").await.unwrap();
                        continue;
                    }
                    let number = {
                        let mut heard = heard.0.lock().unwrap();
                        heard.push(bytes[..read].to_vec());
                        heard.len() - 1
                    };
                    if let Some(answer) = answers.get(number) {
                        let _gone = stream.write_all(answer).await;
                    }
                }
            });
        }
    });
    (address, asked)
}

fn one_line(address: SocketAddr) -> Options {
    Options { connections: 1, deadline: Duration::from_millis(700), ..impatient([address.to_string()]) }
}

#[tokio::test]
async fn busy_is_retried_and_then_said() {
    let (address, asked) = puppet(vec![b"-BUSY a\r\n", b"-MISCONF b\r\n", b"*2\r\n:3\r\n+applied\r\n"]).await;
    let client = Client::new(one_line(address)).unwrap();
    assert_eq!(client.add("a", 1).await.unwrap().value, Some(3));
    assert_eq!(asked.len(), 3);
    assert!(asked.are_all_the_same(), "attempts differ: {}", asked.text());

    let (address, asked) = puppet(vec![b"-BUSY still\r\n"; 10_000]).await;
    let client = Client::new(one_line(address)).unwrap();
    let error = client.add("a", 1).await.unwrap_err();
    assert_eq!(error, Error::Busy { message: "BUSY still".into() });
    assert!(error.is_certain());
    assert!(asked.len() > 5, "there was time for more");
}

#[tokio::test]
async fn a_refusal_after_a_lost_attempt_is_not_certain() {
    // The first attempt gets no answer: it may have been done before the right to it was taken away.
    let (address, _) = puppet(vec![b"", b"-NOPERM not any more\r\n"]).await;
    let client = Client::new(one_line(address)).unwrap();
    let id = client.mint();
    let error = client.add("a", 1).id(id.clone()).await.unwrap_err();
    let Error::Unknown { id: carried, last: AttemptError::Said(said) } = error else { panic!("{error}") };
    assert_eq!((carried, said.code), (id, Code::NoPermission));
    // A read has no outcome to be unsure of.
    let (address, _) = puppet(vec![b"", b"-NOPERM not any more\r\n"]).await;
    let error = Client::new(one_line(address)).unwrap().get("a").await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error}");
}

#[tokio::test]
async fn what_time_does_not_mend_is_said_at_once() {
    for answer in [
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
        let (address, asked) = puppet(vec![answer, b"*2\r\n:3\r\n+applied\r\n"]).await;
        let error = Client::new(one_line(address)).unwrap().add("a", 1).await.unwrap_err();
        let is_right = match &error {
            Error::Expired { .. } => answer.starts_with(b"-IDEXPIRED"),
            Error::Refused(said) => said.message.as_bytes() == &answer[1..answer.len() - 2],
            _ => false,
        };
        assert!(is_right, "{error:?}");
        assert_eq!(asked.len(), 1, "{error}");
    }
}

#[tokio::test]
async fn silence_is_an_unknown_outcome_in_time() {
    let (address, asked) = puppet(vec![]).await;
    let client = Client::new(one_line(address)).unwrap();
    let begun = Instant::now();
    let error = client.add("a", 1).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(400), "it gave up early");
    assert!(asked.len() >= 2, "it did not try again");
    assert!(asked.are_all_the_same(), "attempts differ: {}", asked.text());
    // A server that stops while something is under way does not know either.
    let (address, _) = puppet(vec![b"-LOADING the engine is closed\r\n"; 1000]).await;
    let error = Client::new(one_line(address)).unwrap().add("a", 1).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
}

#[tokio::test]
async fn nonsense_is_an_unknown_outcome() {
    let (address, _) = puppet(vec![b"*2\r\n:1\r\n+perhaps\r\n"]).await;
    let error = Client::new(one_line(address)).unwrap().add("a", 1).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { last: AttemptError::Nonsense(_), .. }), "{error}");
    // What is not even an answer ends the connection, and another attempt gets through.
    let (address, _) = puppet(vec![b"what?\r\n", b"*2\r\n:3\r\n+replayed\r\n"]).await;
    let outcome = Client::new(one_line(address)).unwrap().add("a", 1).await.unwrap();
    assert!(outcome.replayed);
}

#[tokio::test]
async fn what_was_given_up_before_it_was_sent_is_never_sent() {
    let gate = Arc::new(Semaphore::new(0));
    let (address, asked) = puppet_behind(gate.clone(), vec![b"*2\r\n:3\r\n+applied\r\n"]).await;
    let options = Options { attempt_timeout: Duration::from_secs(60), ..one_line(address) };
    let client = Client::new(options).unwrap();
    let error = client.add("given-up", 1).deadline(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_certain(), "{error}");
    let _gone = tokio::time::timeout(Duration::from_millis(50), client.add("gone-away", 1)).await;
    // Whoever was told that nothing changed must be able to rely on it.
    gate.add_permits(1000);
    client.add("sent", 1).deadline(Duration::from_secs(60)).await.unwrap();
    assert!(!asked.text().contains("given-up") && !asked.text().contains("gone-away"), "{}", asked.text());
    assert_eq!(asked.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_disturbs_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let slow = Weather { delay: 100, ..Weather::default() };
    let proxy = Proxy::start(server.address, slow, 5).await;
    let options = Options { connections: 1, ..Options::to([proxy.address.to_string()]) };
    let client = Client::connect(options).await.unwrap();
    for round in 0..30 {
        let own = format!("own:{round}");
        let gone = tokio::time::timeout(Duration::from_millis(round % 7), client.add("gone", 1));
        let (kept, _gone) = tokio::join!(client.add(&own, round as i64), gone);
        // With answers out of step, this would be the answer to another.
        assert_eq!(kept.unwrap().value, Some(round as i64));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_address_is_tried_at_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let (dead, asked) = puppet(vec![]).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = [nobody.to_string(), dead.to_string(), server.address.to_string()];
    let client = Client::connect(Options::to(addresses).clone()).await.unwrap();
    let before = asked.len();
    for _ in 0..20 {
        client.add("a", 1).await.unwrap();
    }
    assert_eq!(asked.len(), before, "the silent one is asked again and again");
    assert_eq!(client.get("a").await.unwrap().unwrap().counter(), Some(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hedge_wins_over_a_silent_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let (silent, asked) = puppet(vec![]).await;
    let options = Options {
        hedge_after: Some(Duration::from_millis(10)),
        attempt_timeout: Duration::from_secs(60),
        deadline: Duration::from_secs(60),
        ..Options::to([silent.to_string(), server.address.to_string()])
    };
    let client = Client::new(options).unwrap();
    let begun = Instant::now();
    let outcome = client.add("a", 1).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30), "the silent one was waited for");
    assert_eq!((outcome.value, asked.len()), (Some(1), 1));
    let known = client.operation(&outcome.id).await.unwrap();
    assert!(matches!(known, OperationStatus::Known { applied: true, .. }), "{known:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_shown_and_a_wrong_one_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (book, token) = one_token();
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::start_at(folder.path(), address, Access::from_book(&book)).await;
    let options = Options { deadline: Duration::from_secs(60), ..Options::to([server.address.to_string()]) };
    let with = |token: Option<String>| Options { token, ..options.clone() };
    let client = Client::connect(with(Some(token.clone()))).await.unwrap();
    assert_eq!(client.add("a", 1).await.unwrap().value, Some(1));
    let error = client.delete("a").await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::NoPermission), "{error}");
    let error = Client::connect(with(None)).await.map(drop).unwrap_err();
    assert_eq!(error.code(), Some(&Code::NoAuth), "{error}");
    let error = Client::connect(with(Some("wrong".into()))).await.map(drop).unwrap_err();
    assert_eq!(error.code(), Some(&Code::WrongPass), "{error}");
    assert!(!format!("{:?}", with(Some(token.clone()))).contains(&token), "the token is in the log");
}

/// A book with one token, which may read and add everywhere; and the token.
fn one_token() -> (TokenStore, String) {
    let mut book = TokenStore::new();
    let rule = TableRule { pattern: "*".parse().unwrap(), rights: "read add".parse().unwrap() };
    let grant = Grant { tables: vec![rule], ..Grant::new("a") };
    let token = book.add(grant, &[7; RANDOM_BYTES], 1).unwrap();
    (book, token.reveal())
}
