//! The memory of a connection that no handler charges: replies until they are sent, and request heads until
//! they are complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;
use tokio::sync::Notify;

use super::body::out_of_memory;
use super::problem::{ErrorCode, Problem};
use crate::client_memory::CHUNK_BYTES;
use crate::{Account, Service};

/// The memory of a connection; all clones share it.
#[derive(Debug, Clone, Default)]
pub struct ConnectionMemory {
    /// Notified when the connection must close because others need the memory.
    pub must_close: Arc<Notify>,
    /// Bytes received since the last complete head.
    received: Arc<AtomicUsize>,
}

/// A reply that is charged until it is dropped, which the HTTP library does when it is sent.
struct ChargedReply {
    bytes: Bytes,
    _account: Account,
}

impl AsRef<[u8]> for ChargedReply {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ConnectionMemory {
    pub fn account(&self, service: &Service) -> Account {
        Account::waking(service.client_memory.clone(), self.must_close.clone())
    }

    /// Adds bytes that were received, and returns their number since the last complete head.
    pub fn receive(&self, bytes: usize) -> usize {
        self.received.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    pub fn head_complete(&self) {
        self.received.store(0, Ordering::Relaxed);
    }

    /// Charges the body of a response until it is sent. Streams charge themselves.
    pub async fn charge_reply(&self, service: &Service, method: &Method, response: Response) -> Response {
        let is_large = |bytes| bytes >= CHUNK_BYTES as u64;
        if !response.body().size_hint().exact().is_some_and(is_large) {
            return response;
        }
        let (parts, body) = response.into_parts();
        // The body is one piece in memory, which is not copied.
        let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
            unreachable!("a body in memory cannot fail");
        };
        let mut account = self.account(service);
        if let Err(exceeded) = account.charge(bytes.len()) {
            if *method == Method::GET {
                return out_of_memory(exceeded).into_response();
            }
            let detail = format!("the response was dropped: {exceeded}; retry with the same ids");
            return Problem::new(ErrorCode::OutcomeUnknown, detail).into_response();
        }
        Response::from_parts(parts, Body::from(Bytes::from_owner(ChargedReply { bytes, _account: account })))
    }
}
