//! e-Transactions: a procedure of the servers is carried out over several databases, exactly once, and its one answer arrives.
//!
//! ```no_run
//! # async fn example() -> Result<(), jeton_client::transactions::Error> {
//! use jeton_client::transactions::{Outcome, Transactions};
//!
//! let transactions = Transactions::to(["http://10.0.0.1:6381", "http://10.0.0.2:6381"])?;
//! let session = transactions.session();
//! match session.issue("transfer", &serde_json::json!({"from": 1, "to": 2, "amount": 40})).await? {
//!     Outcome::Done(result) => println!("{} left", result["left"]),
//!     other => println!("nothing was moved: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What always holds here:
//! - *One transaction, one id.* The id is there before the first question, and every question has the same.
//! - *It goes on asking.* One server first; if that is silent, all at the same time; for as long as the caller waits. Whoever has enough drops the future or sets a deadline.
//! - *Only what is decided is an outcome.* Of everything else the error says whether it is certain that nothing takes effect.
//!
//! Plain HTTP only: between machines that do not trust their network, put something around it that encrypts.
//!
//! The pure parts (no clock, no chance, no I/O): [`RetryState`], what an answer means, the numbers of a session.

mod ack_watermark;
mod error;
mod issue;
mod options;
mod response;
mod retry;
mod session;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;

pub use self::error::{AttemptError, Error, Problem, ServerError};
pub use self::issue::Issue;
pub use self::options::Options;
pub use self::response::Outcome;
pub use self::retry::{AttemptResult, Policy, RetryAction, RetryOutcome, RetryState};
pub use self::session::Session;
use crate::client::mint;
use crate::id::Id;
use crate::id_generator::IdGenerator;

type Http = Client<HttpConnector, Full<Bytes>>;

/// A client of transactions. Clones are the same client: they share its connections.
#[derive(Clone)]
pub struct Transactions(Arc<Inside>);

struct Inside {
    options: Options,
    /// Where the servers are, without a slash at the end.
    servers: Vec<String>,
    http: Http,
    /// The server that answered last: the next transaction begins there.
    preferred: AtomicUsize,
    mint: Mutex<IdGenerator>,
}

impl Transactions {
    /// A client of these servers, each as `http://host:port`, with everything else as usual.
    pub fn to<A: Into<String>>(servers: impl IntoIterator<Item = A>) -> Result<Self, Error> {
        Self::new(Options::to(servers))
    }

    /// A client. It connects when it is first used, and needs a tokio runtime with I/O and time then.
    pub fn new(options: Options) -> Result<Self, Error> {
        options.check()?;
        let servers = options.servers.iter().map(|server| url(server)).collect::<Result<_, _>>()?;
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(options.connect_timeout));
        connector.set_nodelay(true);
        let http = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Self(Arc::new(Inside {
            options,
            servers,
            http,
            preferred: AtomicUsize::new(0),
            mint: Mutex::default(),
        })))
    }

    /// A session, dated now. For most programs one is enough.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Asks for a transaction under an id that comes from elsewhere: of an earlier life of the program, or of the message that asks for it. It must be a UUID of
    /// version 7, which may be followed by a colon and a number. Whatever was asked under it before must have been the same.
    pub fn issue_with<P: Serialize + ?Sized>(&self, id: Id, procedure: &str, parameters: &P) -> Issue {
        Issue::new(self.clone(), id, None, procedure, parameters)
    }

    fn options(&self) -> &Options {
        &self.0.options
    }

    fn servers(&self) -> &[String] {
        &self.0.servers
    }

    fn http(&self) -> &Http {
        &self.0.http
    }

    fn preferred(&self) -> usize {
        self.0.preferred.load(Ordering::Relaxed)
    }

    fn prefer(&self, server: usize) {
        self.0.preferred.store(server, Ordering::Relaxed);
    }

    fn mint(&self) -> u128 {
        mint(&mut self.0.mint.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn url(server: &str) -> Result<String, Error> {
    let url = server.trim_end_matches('/');
    let is_usable = url.parse::<Uri>().is_ok_and(|uri| {
        uri.scheme_str() == Some("http")
            && uri.host().is_some()
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none()
    });
    match is_usable {
        true => Ok(url.to_owned()),
        false => Err(Error::Invalid(format!(
            "{server:?} is not where a server is found, such as http://10.0.0.2:6381"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_over_http() {
        assert_eq!(url("http://127.0.0.1:6381/").unwrap(), "http://127.0.0.1:6381");
        for wrong in ["", "127.0.0.1:6381", "https://127.0.0.1", "http://", "http://a/b", "http://a?b"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
