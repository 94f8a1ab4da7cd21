//! A connection to a server: TCP, or TLS on it.

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

/// Something to read from and write to.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// Connects, or says why not. `flag` is how the address is given; `silence` is how long the other end may say nothing.
pub fn connect(
    address: &str,
    flag: &str,
    ca: Option<&Path>,
    timeout: Duration,
    silence: Duration,
) -> Result<Box<dyn Stream>> {
    let stream = reach(address, timeout).map_err(|why| {
        let fix = match why.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("start one (jeton serve), or say where it is with {flag} ADDRESS")
            }
            _ => format!("say where it is with {flag}, as in {flag} 127.0.0.1:6380"),
        };
        // Told as text: a broken connection is never mistaken for a closed output.
        CliError::of(anyhow!("{why}"), format!("no server answers at {address}"), fix)
    })?;
    let set = stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(silence)))
        .and_then(|()| stream.set_write_timeout(Some(timeout)));
    set.map_err(|why| anyhow!("{why}"))?;
    match ca {
        None => Ok(Box::new(stream)),
        Some(ca) => Ok(Box::new(secure(stream, address, ca)?)),
    }
}

fn reach(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for place in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn secure(stream: TcpStream, address: &str, ca: &Path) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let unusable = |why: String| {
        let what = format!("the certificates in {} cannot be used", ca.display());
        CliError::of(
            anyhow!(why),
            what,
            "name a PEM file with the certificate of the server or of its issuer",
        )
    };
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(ca).map_err(|why| unusable(why.to_string()))? {
        let cert = cert.map_err(|why| unusable(why.to_string()))?;
        roots.add(cert).map_err(|why| unusable(why.to_string()))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| unusable(why.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(|why| unusable(why.to_string()))?;
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(|why| unusable(why.to_string()))?;
    let mut stream = StreamOwned::new(connection, stream);
    // Now, so that what is wrong is told as what it is.
    stream.conn.complete_io(&mut stream.sock).map_err(|why| {
        let what = format!("there is no trust in the server at {address}");
        CliError::of(
            anyhow!("{why}"),
            what,
            "name the certificate of the server or of its issuer with --tls-ca, and a TLS address",
        )
    })?;
    Ok(stream)
}
