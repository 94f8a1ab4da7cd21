//! A client of another member.

use std::io;
use std::sync::Arc;

use jeton_peer::{CallError, PeerClient};
use tokio::time::Instant;

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
    last_seen: Arc<LastSeen>,
    /// `None` if the member is not in the settings.
    client: Option<PeerClient>,
}

impl Peer {
    pub fn new(member: u64, settings: &Settings, last_seen: Arc<LastSeen>) -> Self {
        let client = |address: std::net::SocketAddr| {
            PeerClient::new(settings.endpoint(), address.to_string(), member.into())
        };
        Self { member, last_seen, client: settings.address(member).map(client) }
    }

    /// Sends a request and waits for the response until the deadline.
    pub async fn call(&self, request: &Request, deadline: Instant) -> Result<Response, PeerError> {
        self.try_call(request, deadline).await.inspect_err(|error| {
            self.last_seen.record_error(self.member, error.to_string());
        })
    }

    async fn try_call(&self, request: &Request, deadline: Instant) -> Result<Response, PeerError> {
        let unreachable = |error| PeerError::Unreachable(self.member, error);
        let no_response = |why: String| PeerError::NoResponse(self.member, io::Error::other(why));
        let missing = || unreachable(io::Error::new(io::ErrorKind::NotFound, "it is not in the settings"));
        let client = self.client.as_ref().ok_or_else(missing)?;
        let bytes = postcard::to_allocvec(request).map_err(|error| unreachable(io::Error::other(error)))?;
        let response = client.call(&bytes, deadline).await.map_err(|error| match error {
            CallError::Unreachable(error) => unreachable(error),
            CallError::Busy => unreachable(io::Error::other(error)),
            CallError::NoResponse(why) => no_response(why.into()),
        })?;
        let response = postcard::from_bytes(&response).map_err(|error| no_response(error.to_string()))?;
        self.last_seen.record(self.member);
        Ok(response)
    }
}
