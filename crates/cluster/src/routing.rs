//! Routing: requests go to the owners of their stripes, and again if the owner changed meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use jeton_engine::{BranchRequest, CreationQuota, EngineError, Request, Response};
use jeton_peer::CallError;
use jeton_register::Registers;
use tokio::time::Instant;

use crate::frame::NodeId;
use crate::node::Freshness;
use crate::node_core::NodeCore;
use crate::wire::{Submit, Submitted, encode_submit};

/// The most requests of one message, and the most bytes of these and of their responses.
const MESSAGE_REQUESTS_MAX: usize = 4096;
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// The pause before an attempt that follows a failed one, unless the owner changes before.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Where requests of a stripe go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Here(u16),
    Node(NodeId),
    Nowhere,
}

/// A request that has no final response yet.
struct Open {
    /// Its place in the batch.
    at: usize,
    request: Request,
    /// An attempt may have been executed.
    unknown: bool,
}

const NO_OWNER: EngineError = EngineError::Busy("no node owns the partition for the moment");

/// Whether a request that may have been executed can be sent again.
fn is_repeatable(request: &Request) -> bool {
    request.operation().is_none_or(|operation| operation.id().is_some())
}

/// The number of cells that a request can create.
fn cells_max(request: &Request) -> u64 {
    match request {
        Request::Apply { operation, .. } => operation.len() as u64,
        Request::Branch { what: BranchRequest::Prepare(branch), .. } => branch.additions().len() as u64,
        _ => 0,
    }
}

fn quota(request: &Request) -> Option<&Arc<dyn CreationQuota>> {
    match request {
        Request::Apply { quota, .. } | Request::Branch { quota, .. } => quota.as_ref(),
        _ => None,
    }
}

/// An upper bound of the bytes of a request and of its response.
fn bytes_max(request: &Request) -> usize {
    1024 + match request {
        Request::Read { .. } => jeton_core::limits::CELL_BYTES_MAX,
        Request::PreparedBranches { .. } => jeton_core::limits::PREPARED_BYTES_MAX,
        _ => request.value_bytes_max(),
    }
}

impl<R: Registers> NodeCore<R> {
    /// Executes requests at the owners of their partitions.
    pub async fn submit(self: Arc<Self>, requests: Vec<Request>, freshness: Freshness) -> Vec<Response> {
        let deadline = Instant::now() + self.options.timing.request_timeout;
        let bytes = requests.iter().map(|request| 256 + request.value_bytes_max()).sum();
        let Ok(_admitted) = self.admission.reserve(requests.len(), bytes) else {
            let busy = EngineError::Busy("too many requests are waiting");
            return vec![Response::Applied(Err(busy)); requests.len()];
        };
        let mut responses: Vec<Option<Response>> = requests.iter().map(|_| None).collect();
        let opened = |(at, request)| Open { at, request, unknown: false };
        let mut open: Vec<Open> = requests.into_iter().enumerate().map(opened).collect();
        let mut pause = PAUSE;
        loop {
            let mut changed = self.routes.subscribe();
            let mut parts: Vec<(Destination, Vec<Open>)> = Vec::new();
            let mut known: BTreeMap<u16, Destination> = BTreeMap::new();
            for one in open.drain(..) {
                let stripe = self.stripe_of(one.request.partition());
                let destination = *known.entry(stripe).or_insert_with(|| self.destination(stripe));
                match parts.iter_mut().find(|(known, _)| *known == destination) {
                    Some((_, part)) => part.push(one),
                    None => parts.push((destination, vec![one])),
                }
            }
            let sent = parts.into_iter().map(|(to, part)| self.send_part(to, part, freshness, deadline));
            for (one, response) in join_all(sent).await.into_iter().flatten() {
                match response {
                    Ok(response) => responses[one.at] = Some(response),
                    Err(refusal) if Instant::now() >= deadline => {
                        let error = if one.unknown { EngineError::Closed } else { refusal };
                        responses[one.at] = Some(Response::Applied(Err(error)));
                    }
                    Err(_) => open.push(one),
                }
            }
            if open.is_empty() {
                let lost = || Response::Applied(Err(EngineError::Closed));
                return responses.into_iter().map(|response| response.unwrap_or_else(lost)).collect();
            }
            open.sort_by_key(|one| one.at);
            let until = deadline.min(Instant::now() + pause);
            let _or_timeout = tokio::time::timeout_at(until, changed.changed()).await;
            pause = PAUSE_MAX.min(2 * pause);
        }
    }

    fn destination(&self, stripe: u16) -> Destination {
        if self.owned(stripe).is_some() {
            return Destination::Here(stripe);
        }
        self.live_owner(stripe).map_or(Destination::Nowhere, Destination::Node)
    }

    /// Sends requests to their destination. An error means that the request must be sent again.
    async fn send_part(
        &self,
        to: Destination,
        mut part: Vec<Open>,
        freshness: Freshness,
        deadline: Instant,
    ) -> Vec<(Open, Result<Response, EngineError>)> {
        let mut done = Vec::with_capacity(part.len());
        match to {
            Destination::Nowhere => done.extend(part.into_iter().map(|one| (one, Err(NO_OWNER)))),
            Destination::Here(stripe) => {
                let requests = part.iter().map(|one| one.request.clone()).collect();
                let executed = tokio::time::timeout_at(deadline, self.execute(stripe, requests, freshness));
                let unknown = || vec![Response::Applied(Err(EngineError::Closed)); part.len()];
                let responses = executed.await.unwrap_or_else(|_| unknown());
                done.extend(part.into_iter().zip(responses).map(|(one, response)| judge(one, response)));
            }
            Destination::Node(node) => {
                while !part.is_empty() {
                    let mut bytes = 0;
                    let fits = part.iter().take(MESSAGE_REQUESTS_MAX).take_while(|one| {
                        bytes += bytes_max(&one.request);
                        bytes <= MESSAGE_BYTES_MAX
                    });
                    let rest = part.split_off(fits.count().max(1));
                    done.extend(self.send_to_node(node, part, freshness, deadline).await);
                    part = rest;
                }
            }
        }
        done
    }

    async fn send_to_node(
        &self,
        node: NodeId,
        part: Vec<Open>,
        freshness: Freshness,
        deadline: Instant,
    ) -> Vec<(Open, Result<Response, EngineError>)> {
        // Taken from the quota here, and what the owner did not need is given back.
        let mut allowances = Vec::with_capacity(part.len());
        let mut withheld = Vec::new();
        for one in &part {
            allowances.push(quota(&one.request).map(|quota| {
                let cells = cells_max(&one.request);
                match quota.take(cells) {
                    Ok(()) => cells,
                    Err(why) => {
                        withheld.push((one.at, why));
                        0
                    }
                }
            }));
        }
        let requests: Vec<&Request> = part.iter().map(|one| &one.request).collect();
        let message = encode_submit(self.tables.version(), freshness, &requests, &allowances);
        let called = match self.peer(node) {
            Some(peer) => peer.call(&message, deadline).await,
            None => Err(CallError::Unreachable(std::io::ErrorKind::NotConnected.into())),
        };
        let submitted = called.map(|bytes| Submitted::decode(&bytes));
        let submitted = match submitted {
            Ok(Ok(submitted)) if submitted.responses.len() == part.len() => Ok(submitted),
            Ok(_) => Err(EngineError::Closed),
            Err(CallError::Busy) => Err(EngineError::Busy("too many requests are sent to the owner")),
            Err(CallError::Unreachable(_)) => Err(EngineError::Moved),
            Err(CallError::NoResponse(_)) => Err(EngineError::Closed),
        };
        let submitted = submitted.unwrap_or_else(|error| {
            let refused = |allowance: &Option<u64>| (allowance.unwrap_or(0), 0);
            let responses = vec![Response::Applied(Err(error)); part.len()];
            Submitted { responses, charges: allowances.iter().map(refused).collect(), hints: Vec::new() }
        });
        for hint in &submitted.hints {
            self.learn_owner(*hint);
        }
        let mut done = Vec::with_capacity(part.len());
        let responses = submitted.responses.into_iter().zip(submitted.charges).zip(allowances);
        for (one, ((mut response, (left, created)), allowance)) in part.into_iter().zip(responses) {
            if let (Some(quota), Some(allowance)) = (quota(&one.request), allowance) {
                quota.give_back(left.min(allowance));
                if created > 0 {
                    quota.created(created);
                }
            }
            if let Response::Applied(Err(EngineError::Withheld(why)))
            | Response::Branch(Err(EngineError::Withheld(why))) = &mut response
                && let Some((_, reason)) = withheld.iter().find(|(at, _)| *at == one.at)
            {
                why.clone_from(reason);
            }
            done.push(judge(one, response));
        }
        done
    }

    /// Executes requests of other nodes for the stripes that this node owns.
    pub async fn execute_submit(self: &Arc<Self>, submit: Submit) -> Submitted {
        let Submit { catalog, freshness, requests, allowances } = submit;
        if catalog > self.tables.version() {
            self.refresh_tables().await;
        }
        let mut responses = vec![Response::Applied(Err(EngineError::Moved)); requests.len()];
        let mut parts: Vec<(u16, Vec<usize>, Vec<Request>)> = Vec::new();
        for (at, request) in requests.into_iter().enumerate() {
            let stripe = self.stripe_of(request.partition());
            match parts.iter_mut().find(|(known, ..)| *known == stripe) {
                Some((_, places, part)) => {
                    places.push(at);
                    part.push(request);
                }
                None => parts.push((stripe, vec![at], vec![request])),
            }
        }
        let stripes: Vec<u16> = parts.iter().map(|(stripe, ..)| *stripe).collect();
        let executed = parts.into_iter().map(|(stripe, places, part)| async move {
            (places, self.execute(stripe, part, freshness).await)
        });
        for (places, part) in join_all(executed).await {
            places.into_iter().zip(part).for_each(|(at, response)| responses[at] = response);
        }
        let foreign = stripes.into_iter().filter(|stripe| self.owned(*stripe).is_none());
        let hints = foreign.filter_map(|stripe| self.hint(stripe)).collect();
        let charge = |allowance: &Option<Arc<crate::wire::Allowance>>| {
            let Some(allowance) = allowance else { return (0, 0) };
            (allowance.left.load(Ordering::Relaxed), allowance.created.load(Ordering::Relaxed))
        };
        Submitted { responses, charges: allowances.iter().map(charge).collect(), hints }
    }

    /// Executes requests for one stripe, if the node owns it.
    async fn execute(&self, stripe: u16, requests: Vec<Request>, freshness: Freshness) -> Vec<Response> {
        let Some(owned) = self.owned(stripe) else {
            return vec![Response::Applied(Err(EngineError::Moved)); requests.len()];
        };
        let responses = owned.execute(requests, freshness).await;
        if owned.log.is_deposed() {
            self.release(&owned);
        }
        responses
    }
}

/// Whether a response is final, or the request must be sent again.
fn judge(mut one: Open, response: Response) -> (Open, Result<Response, EngineError>) {
    let error = match &response {
        Response::Applied(Err(error))
        | Response::Read(Err(error))
        | Response::Recalled(Err(error))
        | Response::Branch(Err(error)) => error,
        _ => return (one, Ok(response)),
    };
    match error {
        // Not executed.
        EngineError::Moved => (one, Err(NO_OWNER)),
        EngineError::Closed if is_repeatable(&one.request) => {
            one.unknown = true;
            (one, Err(EngineError::Closed))
        }
        _ => (one, Ok(response)),
    }
}
