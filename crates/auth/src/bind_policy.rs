//! Where a server may listen.
//!
//! What must hold: nobody gets a server that the network can reach and anybody can write to, unless they said so.

use std::net::SocketAddr;

/// Whether a server may listen there; if not, what to do.
pub fn may_listen(address: SocketAddr, has_tokens: bool, insecure: bool) -> Result<(), String> {
    // An IPv4 address in the clothes of an IPv6 one is judged as what it is.
    if has_tokens || insecure || address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "{address} can be reached from other machines, and without tokens everybody there could read and change all \
         counters. Make a token and name the file of tokens, or listen on 127.0.0.1 or [::1], or, if the network \
         itself keeps others out, say --insecure"
    ))
}
