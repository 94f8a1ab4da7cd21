//! The RPC server: executes the requests of other members.

use std::sync::Arc;

use bytes::Bytes;
use jeton_peer::Handler;
use tokio::net::TcpListener;

use crate::bootstrap;
use crate::message::{Refusal, Request, Response};
use crate::node::{Node, barrier_response, proposal_response};

/// Accepts connections until shutdown.
pub async fn serve(listener: TcpListener, node: Arc<Node>) {
    jeton_peer::serve(listener, node.settings.endpoint(), Arc::new(RequestHandler(node))).await;
}

struct RequestHandler(Arc<Node>);

impl Handler for RequestHandler {
    fn is_known(&self, caller: u128) -> bool {
        self.0.settings.others().any(|member| u128::from(member) == caller)
    }

    async fn handle(&self, caller: u128, request: Bytes) -> Vec<u8> {
        if let Ok(member) = u64::try_from(caller) {
            self.0.last_seen.record(member);
        }
        let response = match postcard::from_bytes(&request) {
            Ok(request) => execute(&self.0, request).await,
            Err(error) => Response::Refused(Refusal::Rejected(error.to_string())),
        };
        // The caller cannot read an empty response as one to its request.
        postcard::to_allocvec(&response).unwrap_or_default()
    }
}

async fn execute(node: &Node, request: Request) -> Response {
    match request {
        Request::Append { to, .. } | Request::Vote { to, .. } | Request::Snapshot { to, .. }
            if to != node.identity =>
        {
            Response::Refused(Refusal::OtherIdentity)
        }
        Request::Append { request, .. } => Response::Append(node.raft.append_entries(request).await),
        Request::Vote { request, .. } => Response::Vote(node.raft.vote(request).await),
        Request::Snapshot { request, .. } => Response::Snapshot(node.raft.install_snapshot(request).await),
        Request::Propose(proposal) if node.leads() => proposal_response(node.propose_here(proposal).await),
        Request::Barrier if node.leads() => barrier_response(node.barrier_here().await),
        Request::Admit { member, identity } if node.leads() => {
            let admitted = bootstrap::admit(node, member, identity).await;
            admitted.map_or_else(Response::Refused, |()| Response::Admitted)
        }
        // Not `NotLeader`: this request certainly has no effect.
        Request::Propose(_) | Request::Barrier | Request::Admit { .. } => {
            Response::Refused(Refusal::Rejected("it does not lead".into()))
        }
        Request::Status => Response::Status(node.status()),
    }
}
