//! The addresses that a server may listen on.
//!
//! What must hold: a server without tokens listens on loopback addresses only, unless the operator allows
//! others.

use std::net::SocketAddr;

/// Checks whether a server may listen on an address. The error says what to do.
pub fn may_listen(address: SocketAddr, has_tokens: bool, insecure: bool) -> Result<(), String> {
    // An IPv4-mapped IPv6 address is checked as the IPv4 address.
    if has_tokens || insecure || address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "{address} can be reached from other machines, and without tokens every client could read and change all \
         counters. Create a token and set the token file, or listen on 127.0.0.1 or [::1], or, if the network itself \
         is protected, set --insecure"
    ))
}
