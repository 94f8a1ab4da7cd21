//! Folders and addresses for servers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// Below the ephemeral range, so that the system does not assign the port of a server that restarts.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A temporary folder that other users may traverse, because databases run as users of their own. It is
/// deleted on drop.
pub fn folder() -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("jeton-").permissions(std::fs::Permissions::from_mode(0o711));
    builder.tempdir().context("cannot create a temporary folder")
}

/// A free address, different at every call in one process.
pub fn free_address() -> Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let ports = PORTS.end - PORTS.start;
    // Processes start at different ports, so that they do not try the same ones at the same time.
    let first = (std::process::id().wrapping_mul(7_919) % u32::from(ports)) as u16;
    for _ in 0..ports {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % ports;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + (first + step) % ports));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port of {PORTS:?} is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_free_and_differ() {
        let [one, other] = [free_address().unwrap(), free_address().unwrap()];
        assert_ne!(one, other);
        let _taken = TcpListener::bind(one).unwrap();
        TcpListener::bind(other).unwrap();
    }
}
