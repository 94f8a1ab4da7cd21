//! Connections to a server: TCP or TLS.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::cli_error::CliError;

/// A byte stream.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// Connects. `flag` names the address in errors; `read_timeout` is the longest time without data.
pub fn connect(
    address: &str,
    flag: &str,
    ca: Option<&Path>,
    timeout: Duration,
    read_timeout: Duration,
) -> Result<Box<dyn Stream>> {
    let stream = reach(address, timeout).map_err(|error| {
        let fix = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("start one (jeton serve), or name its address with {flag} ADDRESS")
            }
            _ => format!("name its address, such as {flag} 127.0.0.1:6380"),
        };
        // As text: `main` must not take it for a closed standard output.
        CliError::of(anyhow!("{error}"), format!("no server responds at {address}"), fix)
    })?;
    let set = stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(read_timeout)))
        .and_then(|()| stream.set_write_timeout(Some(timeout)));
    set.map_err(|error| anyhow!("{error}"))?;
    match ca {
        None => Ok(Box::new(stream)),
        Some(ca) => Ok(Box::new(secure(stream, address, ca)?)),
    }
}

fn reach(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn secure(stream: TcpStream, address: &str, ca: &Path) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let unusable = |reason: String| {
        let what = format!("the certificates in {} are not usable", ca.display());
        CliError::of(
            anyhow!(reason),
            what,
            "name a PEM file with the certificate of the server or of its issuer",
        )
    };
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(ca).map_err(|error| unusable(error.to_string()))? {
        let cert = cert.map_err(|error| unusable(error.to_string()))?;
        roots.add(cert).map_err(|error| unusable(error.to_string()))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| unusable(error.to_string()))?;
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| unusable(error.to_string()))?;
    let mut stream = StreamOwned::new(connection, stream);
    // The handshake runs now, so that its errors are reported as such.
    stream.conn.complete_io(&mut stream.sock).map_err(|error| {
        let what = format!("the certificate of the server at {address} is not trusted");
        CliError::of(
            anyhow!("{error}"),
            what,
            "name the certificate of the server or of its issuer with --tls-ca, and a TLS address",
        )
    })?;
    Ok(stream)
}
