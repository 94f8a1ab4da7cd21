//! e-Transactions: the servers execute a procedure over several databases exactly once, and the client gets
//! its outcome.
//!
//! ```no_run
//! # async fn example() -> Result<(), jeton_client::transactions::Error> {
//! use jeton_client::transactions::{Outcome, Transactions};
//!
//! let transactions = Transactions::to(["http://10.0.0.1:6381", "http://10.0.0.2:6381"])?;
//! let session = transactions.session();
//! match session.execute("transfer", &serde_json::json!({"from": 1, "to": 2, "amount": 40})).await? {
//!     Outcome::Done(result) => println!("{} left", result["left"]),
//!     other => println!("nothing was moved: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! - *One transaction, one id.* The id exists before the first attempt, and every attempt carries it.
//! - *Retries go on.* One server first; if it does not respond, all servers at the same time; until the
//!   caller drops the future or the deadline passes.
//! - *Only a decision is an outcome.* Every error says whether it is certain that nothing takes effect.
//!
//! The pure parts: the [retry state machine](crate::RetryState), the parser of responses, and the request
//! numbers of a session.

mod ack_watermark;
mod error;
mod execute;
mod options;
mod response;
mod session;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

pub use self::error::{AttemptError, Error, ServerError};
pub use self::execute::Execute;
pub use self::options::Options;
pub use self::response::Outcome;
pub use self::session::Session;
use crate::http::{HttpClient, HttpOptions, Uri};
use crate::id::Id;
use crate::id_generator::IdGenerator;

/// A client of transactions. Clones share its connections.
#[derive(Clone)]
pub struct Transactions(Arc<Inner>);

struct Inner {
    options: Options,
    /// URLs of the servers, without a slash at the end.
    servers: Vec<String>,
    http: HttpClient,
    /// Index of the server that responded last; the next transaction starts there.
    preferred: AtomicUsize,
    id_generator: Mutex<IdGenerator>,
}

impl Transactions {
    /// Creates a client of these servers, each as `http://host:port`, with default options.
    pub fn to<A: Into<String>>(servers: impl IntoIterator<Item = A>) -> Result<Self, Error> {
        Self::new(Options::to(servers))
    }

    /// Creates a client. It connects at its first use, and then needs a tokio runtime with I/O and time.
    pub fn new(options: Options) -> Result<Self, Error> {
        options.check()?;
        let urls = options.servers.iter().map(|server| url(server, cfg!(feature = "tls")));
        let servers = urls.collect::<Result<Vec<String>, _>>()?;
        #[cfg(feature = "tls")]
        let tls = match options.tls.clone() {
            None if servers.iter().any(|url| url.starts_with("https")) => {
                Some(crate::tls::Tls::system().map_err(|error| Error::Invalid(error.to_string()))?)
            }
            given => given,
        };
        let http = HttpClient::new(HttpOptions {
            connect_timeout: options.connect_timeout,
            #[cfg(feature = "tls")]
            tls,
            ..HttpOptions::default()
        });
        Ok(Self(Arc::new(Inner {
            options,
            servers,
            http,
            preferred: AtomicUsize::new(0),
            id_generator: Mutex::default(),
        })))
    }

    /// Creates a session, dated now. Most programs need one.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Executes a procedure under an existing id: one that an earlier process stored, or the id of a message.
    /// It must be a UUID of version 7, optionally followed by a colon and a number. Every request under one
    /// id must be the same.
    pub fn execute_with_id<P: Serialize + ?Sized>(&self, id: Id, procedure: &str, parameters: &P) -> Execute {
        Execute::new(self.clone(), id, None, procedure, parameters)
    }

    fn new_session_id(&self) -> u128 {
        self.0.id_generator.lock().unwrap_or_else(PoisonError::into_inner).generate()
    }
}

fn url(server: &str, has_tls: bool) -> Result<String, Error> {
    let url = server.trim_end_matches('/');
    let is_valid = url.parse::<Uri>().is_ok_and(|uri| {
        (uri.scheme_str() == Some("http") || has_tls && uri.scheme_str() == Some("https"))
            && uri.host().is_some()
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none()
    });
    match is_valid {
        true => Ok(url.to_owned()),
        false => Err(Error::Invalid(format!(
            "{server:?} is not the URL of a server, such as http://10.0.0.2:6381 (https:// needs the feature tls)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_http_urls_without_a_path() {
        assert_eq!(url("http://127.0.0.1:6381/", false).unwrap(), "http://127.0.0.1:6381");
        assert_eq!(url("https://127.0.0.1:6381", true).unwrap(), "https://127.0.0.1:6381");
        for wrong in ["", "127.0.0.1:6381", "https://127.0.0.1", "http://", "http://a/b", "http://a?b"] {
            assert!(url(wrong, false).is_err(), "{wrong}");
        }
    }
}
