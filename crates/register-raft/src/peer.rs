//! Another member, as one that asks it things sees it: one connection, made when it is needed, and made again when it broke.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::connection::{Connection, IDLE_TIME};
use crate::membership_view::LastSeen;
use crate::message::{Reply, Request};
use crate::settings::Settings;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It was not reached: it was not asked.
    #[error("member {0} cannot be reached: {1}")]
    Unreached(u64, io::Error),
    /// It was asked.
    #[error("member {0} did not answer: {1}")]
    Unanswered(u64, io::Error),
}

/// Another member.
pub struct Peer {
    member: u64,
    settings: Arc<Settings>,
    heard: Arc<LastSeen>,
    /// With the time when it was used last.
    connection: Option<(Connection, Instant)>,
}

impl Peer {
    pub fn new(member: u64, settings: Arc<Settings>, heard: Arc<LastSeen>) -> Self {
        Self { member, settings, heard, connection: None }
    }

    /// Asks, and waits for the reply until the deadline.
    pub async fn ask(&mut self, request: &Request, deadline: Instant) -> Result<Reply, PeerError> {
        // Out of its place while it is used: whoever stops waiting for the reply leaves no connection with half a reply in it.
        let kept = self.connection.take().filter(|(_, used)| used.elapsed() < IDLE_TIME / 2);
        let mut connection = match kept {
            Some((connection, _)) => connection,
            None => self.connect(deadline).await.map_err(|error| self.silent(PeerError::Unreached, error))?,
        };
        let exchange = async {
            connection.say(request).await?;
            connection.hear().await
        };
        let reply = timeout_at(deadline, exchange).await.map_err(io::Error::from).flatten();
        let reply = reply.map_err(|error| self.silent(PeerError::Unanswered, error))?;
        self.connection = Some((connection, Instant::now()));
        self.heard.note(self.member);
        Ok(reply)
    }

    fn silent(&self, silence: impl FnOnce(u64, io::Error) -> PeerError, error: io::Error) -> PeerError {
        let silence = silence(self.member, error);
        self.heard.note_trouble(self.member, silence.to_string());
        silence
    }

    async fn connect(&self, deadline: Instant) -> io::Result<Connection> {
        let Some(address) = self.settings.address(self.member) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it is not in the settings"));
        };
        let deadline = deadline.min(Instant::now() + self.settings.timing.connect);
        let connect = async {
            let stream = TcpStream::connect(address).await?;
            Connection::call(stream, &self.settings.secret, self.settings.me, self.member).await
        };
        timeout_at(deadline, connect).await?
    }
}
