//! Mutual TLS: both sides present certificates of the same authority.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The certificate of a node, and the authority whose certificates it accepts.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Tls")
    }
}

/// The certificates or the key are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl Tls {
    /// Reads PEM files: the authority, the certificate chain of this node, which must name the host of its
    /// address, and its key.
    pub fn open(authority: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            let chain = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            match chain {
                Ok(chain) if !chain.is_empty() => Ok(chain),
                Ok(_) => Err(TlsError(format!("{}: no PEM block with a certificate", path.display()))),
                Err(error) => Err(TlsError(format!("{}: {error}", path.display()))),
            }
        };
        let mut roots = RootCertStore::empty();
        for root in read(authority)? {
            roots.add(root).map_err(|error| TlsError(format!("{}: {error}", authority.display())))?;
        }
        let roots = Arc::new(roots);
        let chain = read(certificate)?;
        // Without the content of the file.
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|_| TlsError(format!("{}: no PEM block with a private key", key.display())))?;
        let invalid = |error: &dyn std::fmt::Display| {
            TlsError(format!("the certificate in {}: {error}", certificate.display()))
        };
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| invalid(&error))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), private.clone_key())
            .map_err(|error| invalid(&error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, private)
            .map_err(|error| invalid(&error))?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// Encrypts a connection to an address `host:port`, whose certificate must name the host.
    pub(crate) async fn connect(
        &self,
        address: &str,
        stream: TcpStream,
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        TlsConnector::from(Arc::clone(&self.client)).connect(name, stream).await
    }

    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
        TlsAcceptor::from(Arc::clone(&self.server)).accept(stream).await
    }
}
