//! A client of another member, with one connection that is made when it is needed and replaced when it
//! breaks.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::connection::{Connection, IDLE_TIMEOUT};
use crate::membership_view::LastSeen;
use crate::message::{Request, Response};
use crate::settings::Settings;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The request was not sent.
    #[error("member {0} is unreachable: {1}")]
    Unreachable(u64, io::Error),
    /// The request may have been received.
    #[error("member {0} did not respond: {1}")]
    NoResponse(u64, io::Error),
}

/// A client of another member.
pub struct Peer {
    member: u64,
    settings: Arc<Settings>,
    last_seen: Arc<LastSeen>,
    /// The connection, and when it was last used.
    connection: Option<(Connection, Instant)>,
}

impl Peer {
    pub fn new(member: u64, settings: Arc<Settings>, last_seen: Arc<LastSeen>) -> Self {
        Self { member, settings, last_seen, connection: None }
    }

    /// Sends a request and waits for the response until the deadline.
    pub async fn call(&mut self, request: &Request, deadline: Instant) -> Result<Response, PeerError> {
        // Taken out while it is in use: a dropped call must not leave a connection with a part of a response
        // in it.
        let unused = self.connection.take().filter(|(_, used)| used.elapsed() < IDLE_TIMEOUT / 2);
        let mut connection = match unused {
            Some((connection, _)) => connection,
            None => self.connect(deadline).await.map_err(|error| self.fail(PeerError::Unreachable, error))?,
        };
        let exchange = async {
            connection.send(request).await?;
            connection.receive().await
        };
        let response = timeout_at(deadline, exchange).await.map_err(io::Error::from).flatten();
        let response = response.map_err(|error| self.fail(PeerError::NoResponse, error))?;
        self.connection = Some((connection, Instant::now()));
        self.last_seen.record(self.member);
        Ok(response)
    }

    fn fail(&self, kind: impl FnOnce(u64, io::Error) -> PeerError, error: io::Error) -> PeerError {
        let error = kind(self.member, error);
        self.last_seen.record_error(self.member, error.to_string());
        error
    }

    async fn connect(&self, deadline: Instant) -> io::Result<Connection> {
        let Some(address) = self.settings.address(self.member) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it is not in the settings"));
        };
        let deadline = deadline.min(Instant::now() + self.settings.timing.connect);
        let connect = async {
            let stream = TcpStream::connect(address).await?;
            Connection::connect(stream, &self.settings.secret, self.settings.me, self.member).await
        };
        timeout_at(deadline, connect).await?
    }
}
