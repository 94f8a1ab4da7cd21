//! Encrypted connections: whom to trust.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Whom to trust.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

/// Why certificates cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl Tls {
    /// As it is configured elsewhere.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        Self { config, name: None }
    }

    /// Trusts the certificates in this text (PEM), and those that they have signed; nobody else.
    pub fn trusting(pem: impl AsRef<[u8]>) -> Result<Self, TlsError> {
        let failed = |error: &dyn fmt::Display| TlsError(format!("cannot trust these certificates: {error}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_ref()) {
            let certificate = certificate.map_err(|error| failed(&error))?;
            roots.add(certificate).map_err(|error| failed(&error))?;
        }
        if roots.is_empty() {
            return Err(failed(&"there are none"));
        }
        // The provider is named, because a program may have linked several.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self::new(Arc::new(config)))
    }

    /// The name that the certificate of the server must have, if it is not the host of its address.
    pub fn server_name(mut self, name: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(name.to_owned());
        self.name = Some(name.map_err(|error| TlsError(format!("not the name of a server: {error}")))?);
        Ok(self)
    }

    pub(crate) async fn connect(&self, address: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                ServerName::try_from(host.to_owned())
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?
            }
        };
        TlsConnector::from(self.config.clone()).connect(name, stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}
