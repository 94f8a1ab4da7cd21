//! The cluster: its nodes and stripes, and the drain of this node.

use std::time::Duration;

use axum::http::StatusCode;
use jeton_cluster::{ClusterStatus, LocalStripeStatus, NodeId, NodeStatus, StripeStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::json;
use super::problem::{ErrorCode, HttpResult, Problem};
use super::request_context::RequestContext;

#[derive(Debug, Serialize, ToSchema)]
pub struct ClusterBody {
    /// The id of the node that responds.
    node: String,
    nodes: Vec<NodeBody>,
    stripes: Vec<StripeBody>,
    /// What needs the operator, such as clocks that differ.
    alarms: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct NodeBody {
    id: String,
    /// The address for other nodes.
    address: String,
    /// The addresses for clients, as URLs: `redis`, `rediss`, `http` and `https`.
    client_addresses: Vec<String>,
    /// alive, suspected (no heartbeat) or leaving (drained).
    state: &'static str,
    /// Time since its last heartbeat, in milliseconds.
    heartbeat_age_ms: u64,
    /// Number of stripes that it owns.
    stripes: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct StripeBody {
    number: u16,
    /// The first partition, and the number of partitions.
    first_partition: u16,
    partitions: u16,
    /// The id of the node that owns it, as far as this node knows.
    owner: Option<String>,
    /// The slot of the claim of the owner.
    term: u64,
    /// The id of the node that follows its log and takes over first.
    follower: Option<String>,
    /// What only the owner knows: null at the other nodes.
    log: Option<LogBody>,
}

/// The log of a stripe, since this node became the owner.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogBody {
    next_slot: u64,
    /// Bytes of the frames in the log.
    bytes: u64,
    /// Frames written.
    writes: u64,
    operations_per_write: f64,
    /// Time of a write in milliseconds.
    write_p50_ms: f64,
    write_p99_ms: f64,
}

/// The id of a node as text.
pub fn node_text(id: NodeId) -> String {
    format!("{:032x}", id.0)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl ClusterBody {
    fn of(status: &ClusterStatus) -> Self {
        Self {
            node: node_text(status.me),
            nodes: status.nodes.iter().map(|node| NodeBody::of(node, &status.stripes)).collect(),
            stripes: status.stripes.iter().map(StripeBody::of).collect(),
            alarms: status.alarms.clone(),
        }
    }
}

impl NodeBody {
    fn of(node: &NodeStatus, stripes: &[StripeStatus]) -> Self {
        Self {
            id: node_text(node.id),
            address: node.address.clone(),
            client_addresses: node.client_addresses.clone(),
            state: match node {
                _ if node.suspected => "suspected",
                _ if node.leaving => "leaving",
                _ => "alive",
            },
            heartbeat_age_ms: u64::try_from(node.heartbeat_age.as_millis()).unwrap_or(u64::MAX),
            stripes: stripes.iter().filter(|stripe| stripe.owner == Some(node.id)).count(),
        }
    }
}

impl StripeBody {
    fn of(stripe: &StripeStatus) -> Self {
        Self {
            number: stripe.number,
            first_partition: stripe.partitions.start,
            partitions: stripe.partitions.end - stripe.partitions.start,
            owner: stripe.owner.map(node_text),
            term: stripe.term.0,
            follower: stripe.follower.map(node_text),
            log: stripe.local.as_ref().map(LogBody::of),
        }
    }
}

impl LogBody {
    fn of(log: &LocalStripeStatus) -> Self {
        Self {
            next_slot: log.next_slot.0,
            bytes: log.log_bytes,
            writes: log.writes,
            operations_per_write: log.operations_per_write(),
            write_p50_ms: millis(log.write_p50),
            write_p99_ms: millis(log.write_p99),
        }
    }
}

fn status(request: &RequestContext) -> Result<ClusterStatus, Problem> {
    request.service().engine.cluster_status().ok_or_else(|| {
        Problem::new(ErrorCode::NotFound, "this server is not a node of a cluster (setting cluster)")
    })
}

/// Lists the nodes and the stripes of the cluster, as this node sees them.
///
/// Requires the right to administer the server. The owner of a stripe reports its log.
#[utoipa::path(
    get, path = "/v1/cluster", operation_id = "readCluster", tag = "cluster",
    responses((status = 200, body = ClusterBody, description = "The cluster."))
)]
pub async fn get(request: RequestContext) -> HttpResult {
    request.administer()?;
    Ok(json::ok(&ClusterBody::of(&status(&request)?)))
}

/// Gives all stripes of this node to the other nodes.
///
/// Requires the right to administer the server. The node keeps serving clients, and passes their requests to
/// the owners; stop it to replace it. It takes stripes again after a restart. A node drains only itself: its
/// addresses are in `client_addresses` of `/v1/cluster`.
#[utoipa::path(
    post, path = "/v1/cluster/nodes/{node}:drain", operation_id = "drainNode", tag = "cluster",
    params(("node" = String, Path, description = "The id of the node.")),
    responses((status = 200, body = ClusterBody, description = "The node owns no stripe."))
)]
pub async fn post(request: RequestContext) -> HttpResult {
    request.administer()?;
    let before = status(&request)?;
    let segment = request.text_part(3)?;
    let Some(name) = segment.strip_suffix(":drain") else {
        return Err(Problem::new(ErrorCode::NotFound, "the verb of a node is :drain"));
    };
    let id = before.nodes.iter().map(|node| node.id).find(|id| node_text(*id) == name);
    match id {
        None => Err(Problem::new(ErrorCode::NotFound, format!("the cluster has no node {name:?}"))),
        Some(id) if id != before.me => {
            let addresses = before.nodes.iter().find(|node| node.id == id);
            let addresses = addresses.map(|node| node.client_addresses.join(", ")).unwrap_or_default();
            let detail = format!("this is node {}; send the request to {addresses}", node_text(before.me));
            Err(Problem::bad_request(detail))
        }
        Some(_) => {
            let service = request.app.service.clone();
            let unknown = "the node is still being drained: GET /v1/cluster shows the owners";
            request.app.complete(unknown, async move { service.engine.drain().await }).await?;
            Ok(json::response(StatusCode::OK, &ClusterBody::of(&status(&request)?)))
        }
    }
}
