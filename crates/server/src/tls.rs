//! TLS for both protocols: certificates that can be replaced while it serves, and a door that nobody can block.
//!
//! What must hold:
//! - A connection that does not complete its handshake in time is closed, and takes a place like any other until then.
//! - New certificates are in force for the next handshake; if they cannot be used, the ones before stay.
//! - Nothing of a private key is logged or repeated.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
pub use tokio_rustls::server::TlsStream;

use crate::accept_loop;
use crate::metrics::Metric;
use crate::resp;
use crate::service::Service;

/// How long a client may take to agree on keys.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read, or holds no such thing.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key is not the one of the certificate, or they are of a kind that is not known.
    #[error("the certificate in {} and the key in {} do not go together: {source}", cert.display(), key.display())]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What the library said.
        source: rustls::Error,
    },
}

/// A certificate with its key, from files.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    config: ArcSwap<ServerConfig>,
    /// The versions of both files that were looked at last.
    seen: Mutex<(Option<Stamp>, Option<Stamp>)>,
}

/// What tells one version of a file from another without reading it: inode, length, and times of change.
type Stamp = (u64, u64, (i64, i64), (i64, i64));

fn stamp(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.size(), (file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec())))
}

impl Tls {
    /// The certificate and key in these files, in PEM.
    pub fn open(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        // The stamps first: if a file is replaced in between, the next look sees another one and reads it again.
        let seen = (stamp(cert), stamp(key));
        let config = ArcSwap::new(read(cert, key)?);
        Ok(Self { cert: cert.into(), key: key.into(), config, seen: Mutex::new(seen) })
    }

    /// Looks whether a file is another than before, and if so uses it from the next handshake on; says whether it did. If what is there cannot be
    /// used, what was used before stays, and the error is returned once.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        // Nothing is left half done in there by a panic.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (stamp(&self.cert), stamp(&self.key));
        if now == *seen {
            return Ok(false);
        }
        *seen = now;
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

/// Said without what the file holds.
fn unreadable(file: &Path, wanted: &str, error: &pem::Error) -> TlsError {
    let why = match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        pem::Error::NoItemsFound => format!("{wanted} in PEM is not in it"),
        _ => "is not PEM".into(),
    };
    TlsError::File { file: file.into(), why }
}

/// Welcomes clients until it is told to stop, and hands those who completed their handshake to `serve`. Returns the connections that are
/// still open.
pub async fn accept<F>(
    tls: Arc<Tls>,
    service: Arc<Service>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    serve: impl Fn(TlsStream<TcpStream>, SocketAddr) -> F + Clone + Send + 'static,
) -> JoinSet<()>
where
    F: Future<Output = ()> + Send,
{
    // Those that are served are counted again where they are served: handshakes have to be bounded before that.
    let places = Arc::new(Semaphore::new(service.options.connections_max.min(Semaphore::MAX_PERMITS)));
    accept_loop::accept(listener, stop, |stream, peer, connections| {
        let Ok(place) = places.clone().try_acquire_owned() else {
            // Whoever speaks TLS cannot be told anything before the handshake: it is closed.
            service.metrics.add(Metric::TurnedAway, 1);
            return;
        };
        let (acceptor, serve) = (tls.acceptor(), serve.clone());
        connections.spawn(async move {
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => serve(stream, peer).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "no handshake"),
                Err(_) => tracing::debug!(%peer, "closed: no handshake in time"),
            }
            drop(place);
        });
    })
    .await
}

/// Serves the Redis protocol through TLS, until it is told to stop: then what is under way is answered, and the connections are closed.
pub async fn serve_resp(
    tls: Arc<Tls>,
    service: Arc<Service>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let of_connections = service.clone();
    let mut connections = accept(tls, service.clone(), listener, stop, move |stream, peer| {
        resp::serve_connection(of_connections.clone(), stream, peer.to_string())
    })
    .await;
    service.stop().await;
    // Those that are left wait for a client that says nothing.
    connections.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn pair(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::write(&cert, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (cert, key)
    }

    #[test]
    fn new_files_are_used_and_broken_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = pair(folder.path(), "one.test");
        let tls = Tls::open(&cert, &key).unwrap();
        assert!(!tls.reload_if_changed().unwrap(), "nothing has changed");
        let first = tls.config.load_full();

        fs::write(&cert, "no certificate at all").unwrap();
        assert!(tls.reload_if_changed().is_err());
        assert!(!tls.reload_if_changed().unwrap(), "said once");
        assert!(Arc::ptr_eq(&first, &tls.config.load_full()), "the old one stays");

        pair(folder.path(), "two.test");
        assert!(tls.reload_if_changed().unwrap());
        assert!(!Arc::ptr_eq(&first, &tls.config.load_full()));
    }

    #[test]
    fn what_cannot_be_used_says_which_file_and_why() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = pair(folder.path(), "one.test");
        let told = |cert: &Path, key: &Path| Tls::open(cert, key).err().unwrap().to_string();
        let missing = folder.path().join("missing.pem");
        assert!(told(&missing, &key).contains("missing.pem: cannot be read"));
        assert!(told(&key, &key).contains("a certificate in PEM is not in it"));
        assert!(told(&cert, &cert).contains("a private key in PEM is not in it"));

        let other = tempfile::tempdir().unwrap();
        let (_, of_another) = pair(other.path(), "one.test");
        assert!(told(&cert, &of_another).contains("do not go together"));
    }
}
