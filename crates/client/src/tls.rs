//! Trusted certificates of encrypted connections.

use std::fmt;
use std::io;
use std::sync::Arc;

#[cfg(feature = "http")]
pub use hyper_rustls::HttpsConnector;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Trusted certificates, and the expected name of the server.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

/// A certificate or server name is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl Tls {
    /// Uses an existing rustls configuration.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        Self { config, name: None }
    }

    /// Trusts the certificate authorities of the operating system.
    pub fn system() -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(TlsError(format!("the operating system has no trusted certificates{why}")));
        }
        Ok(Self::new(Arc::new(config(roots).map_err(|error| TlsError(error.to_string()))?)))
    }

    /// Trusts only the certificates in this PEM text, and those they have signed.
    pub fn trusting(pem: impl AsRef<[u8]>) -> Result<Self, TlsError> {
        let invalid = |error: &dyn fmt::Display| TlsError(format!("invalid certificates: {error}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_ref()) {
            let certificate = certificate.map_err(|error| invalid(&error))?;
            roots.add(certificate).map_err(|error| invalid(&error))?;
        }
        if roots.is_empty() {
            return Err(invalid(&"the text contains none"));
        }
        Ok(Self::new(Arc::new(config(roots).map_err(|error| invalid(&error))?)))
    }

    /// Expects this name in the server's certificate instead of the host of its address.
    pub fn server_name(mut self, name: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(name.to_owned());
        self.name = Some(name.map_err(|error| TlsError(format!("invalid server name: {error}")))?);
        Ok(self)
    }

    /// Encrypts a connection to an address `host:port`.
    pub async fn connect(&self, address: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
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

/// Whether a connection failed because the certificate of the server is not trusted.
pub fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    if let Some(inner) = inner {
        return is_untrusted(inner);
    }
    matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
        || error.source().is_some_and(is_untrusted)
}

/// A configuration that trusts these certificates.
fn config(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    // An explicit provider: a program may have linked several.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Wraps an HTTP connector of hyper so that it also opens `https` connections. Without `tls` it trusts no
/// certificate.
#[cfg(feature = "http")]
pub fn https_connector(
    mut connector: hyper_util::client::legacy::connect::HttpConnector,
    tls: Option<&Tls>,
) -> HttpsConnector<hyper_util::client::legacy::connect::HttpConnector> {
    connector.enforce_http(false);
    let client_config = match tls {
        Some(tls) => (*tls.config).clone(),
        None => config(RootCertStore::empty()).expect("the ring provider supports the default versions"),
    };
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(client_config).https_or_http();
    match tls.and_then(|tls| tls.name.clone()) {
        Some(name) => builder
            .with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name))
            .enable_http1()
            .wrap_connector(connector),
        None => builder.enable_http1().wrap_connector(connector),
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}
