//! TLS for both protocols, with certificates that can be replaced at run time.
//!
//! Invariants:
//! - A connection that does not complete its handshake in time is closed. Until then it counts against the
//!   connection limit.
//! - New certificates apply from the next handshake. If they are invalid, the previous ones stay in use.
//! - No part of a private key is logged or appears in an error.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use jeton_auth::FileVersion;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::accept_loop;
use crate::metrics::Metric;
use crate::service::Service;
use crate::{http, resp};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or does not contain what it should.
    #[error("{}: {why}", file.display())]
    File {
        file: PathBuf,
        /// Cause, without the content of the file.
        why: String,
    },
    /// The key does not belong to the certificate, or their type is not supported.
    #[error("the certificate in {} and the key in {} do not match: {source}", cert.display(), key.display())]
    Pair { cert: PathBuf, key: PathBuf, source: rustls::Error },
}

/// A certificate and key, read from files.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    config: ArcSwap<ServerConfig>,
    /// Versions of both files at the last check.
    versions: Mutex<(Option<FileVersion>, Option<FileVersion>)>,
}

impl Tls {
    /// Reads the certificate chain and the key from PEM files.
    pub fn open(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        // Before the files are read: if one is replaced meanwhile, the next check sees a new version.
        let versions = (FileVersion::of(cert), FileVersion::of(key));
        let config = ArcSwap::new(read(cert, key)?);
        Ok(Self { cert: cert.into(), key: key.into(), config, versions: Mutex::new(versions) })
    }

    /// Reads the files again if one has changed, for use from the next handshake on. Returns whether it did.
    /// If they are invalid, the previous ones stay in use, and the error is returned once.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        // A panic cannot leave the versions inconsistent.
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (FileVersion::of(&self.cert), FileVersion::of(&self.key));
        if now == *versions {
            return Ok(false);
        }
        *versions = now;
        self.config.store(read(&self.cert, &self.key)?);
        Ok(true)
    }

    fn acceptor(&self) -> TlsAcceptor {
        self.config.load_full().into()
    }
}

fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(cert, "a certificate", &error))?;
    if chain.is_empty() {
        return Err(unreadable(cert, "a certificate", &pem::Error::NoItemsFound));
    }
    let mode = std::fs::metadata(key).map_or(0, |found| found.mode() & 0o7777);
    if mode & 0o077 != 0 {
        let path = key.display();
        let why = format!("can be read or written by other users (mode {mode:03o}): chmod 600 {path}");
        return Err(TlsError::File { file: key.into(), why });
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, "a private key", &error))?;
    let pair = |source| TlsError::Pair { cert: cert.into(), key: key.into(), source };
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair)?;
    Ok(Arc::new(config))
}

/// Describes the error without the content of the file.
fn unreadable(file: &Path, expected: &str, error: &pem::Error) -> TlsError {
    let why = match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        pem::Error::NoItemsFound => format!("contains no PEM block with {expected}"),
        _ => "is not PEM".into(),
    };
    TlsError::File { file: file.into(), why }
}

/// Accepts connections until `stop` completes, and passes those with a completed handshake to `serve`.
/// Returns the connections that are still open.
async fn accept<F>(
    tls: Arc<Tls>,
    service: Arc<Service>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    serve: impl Fn(TlsStream<TcpStream>, SocketAddr) -> F + Clone + Send + 'static,
) -> JoinSet<()>
where
    F: Future<Output = ()> + Send,
{
    // Bounds handshakes. Served connections are counted again by `serve`.
    let permits = Arc::new(Semaphore::new(service.options.connections_max.min(Semaphore::MAX_PERMITS)));
    accept_loop::accept(listener, stop, |stream, peer, connections| {
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            // No error can be sent before the handshake.
            service.metrics.add(Metric::TurnedAway, 1);
            return;
        };
        let (acceptor, serve) = (tls.acceptor(), serve.clone());
        connections.spawn(async move {
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => serve(stream, peer).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "handshake failed"),
                Err(_) => tracing::debug!(%peer, "closed: handshake timeout"),
            }
            drop(permit);
        });
    })
    .await
}

/// Serves the Redis protocol over TLS until `stop` completes. Then it completes the requests in flight and
/// closes the connections.
pub async fn serve_resp(
    tls: Arc<Tls>,
    service: Arc<Service>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let connection_service = service.clone();
    let mut connections = accept(tls, service.clone(), listener, stop, move |stream, peer| {
        resp::serve_connection(connection_service.clone(), stream, peer.to_string())
    })
    .await;
    service.stop().await;
    // The connections left are idle.
    connections.shutdown().await;
    Ok(())
}

/// How long connections over HTTPS may take to end at shutdown.
const HTTPS_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves HTTP over TLS until `stop` resolves, then completes the requests in flight.
pub async fn serve_https(
    tls: Arc<Tls>,
    service: Arc<Service>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let server = Arc::new(http::Server::new(service.clone())?);
    let of_connections = server.clone();
    let connections = accept(tls, service, listener, stop, move |stream, peer| {
        let server = of_connections.clone();
        async move {
            if let Some(slot) = server.acquire_slot() {
                server.serve_connection(slot, stream, peer).await;
            }
        }
    })
    .await;
    server.close();
    accept_loop::drain(connections, HTTPS_SHUTDOWN_TIMEOUT).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn set_mode(file: &Path, mode: u32) {
        fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }

    fn pair(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::write(&cert, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        set_mode(&key, 0o600);
        (cert, key)
    }

    #[test]
    fn reloads_new_files_and_keeps_valid_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = pair(folder.path(), "one.test");
        let tls = Tls::open(&cert, &key).unwrap();
        assert!(!tls.reload_if_changed().unwrap(), "nothing has changed");
        let first = tls.config.load_full();

        fs::write(&cert, "no certificate at all").unwrap();
        assert!(tls.reload_if_changed().is_err());
        assert!(!tls.reload_if_changed().unwrap(), "the error is returned once");
        assert!(Arc::ptr_eq(&first, &tls.config.load_full()), "the previous certificate stays in use");

        pair(folder.path(), "two.test");
        assert!(tls.reload_if_changed().unwrap());
        assert!(!Arc::ptr_eq(&first, &tls.config.load_full()));
    }

    #[test]
    fn errors_name_the_file_and_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = pair(folder.path(), "one.test");
        let error = |cert: &Path, key: &Path| Tls::open(cert, key).err().unwrap().to_string();
        for mode in [0o640, 0o604] {
            set_mode(&key, mode);
            assert!(error(&cert, &key).contains(&format!("mode {mode:03o}): chmod 600 ")));
        }
        set_mode(&key, 0o600);
        let missing = folder.path().join("missing.pem");
        assert!(error(&missing, &key).contains("missing.pem: cannot be read"));
        assert!(error(&key, &key).contains("contains no PEM block with a certificate"));
        set_mode(&cert, 0o600);
        assert!(error(&cert, &cert).contains("contains no PEM block with a private key"));

        let other = tempfile::tempdir().unwrap();
        let (_, of_another) = pair(other.path(), "one.test");
        assert!(error(&cert, &of_another).contains("do not match"));
    }
}
