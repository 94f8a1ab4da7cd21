//! Connections to PostgreSQL, encrypted as the URL says.
//!
//! | `sslmode` | encrypted | trusted server |
//! |---|---|---|
//! | `disable` | no | any |
//! | `prefer`, or none | if the server offers it | any |
//! | `require` | yes | any; with `sslrootcert` as `verify-ca` |
//! | `verify-ca` | yes | a certificate signed by one of the file `sslrootcert` |
//! | `verify-full` | yes | the same, for this host; without a file, by an authority of the system |
//!
//! The client library reads only the first three. A URL that names certificates without verification is an
//! error: the operator expects a verification.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::open_error::with_source;

/// The value of `sslrootcert` for the certificates of the system.
const SYSTEM: &str = "system";

/// The address and the settings of a database, and how its connections are encrypted.
#[derive(Clone)]
pub struct Connector {
    pub config: Config,
    tls: MakeRustlsConnect,
}

impl Connector {
    /// Parses a URL, and reads the certificates that it names.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (url, [mode, file]) = take_parameters(url, ["sslmode", "sslrootcert"])?;
        let mut config: Config = url.parse().map_err(|error| with_source(&error))?;
        if config.get_hosts().is_empty() {
            // The client library encrypts only connections to a host.
            for address in config.get_hostaddrs().to_vec() {
                config.host(address.to_string());
            }
        }
        let provider = Arc::new(ring::default_provider());
        let tls = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let any_name = |roots| Arc::new(AnyName { roots, provider });
        let tls = match (mode.as_deref(), file.as_deref()) {
            (None | Some("disable" | "prefer"), Some(_)) => {
                return Err("sslrootcert needs sslmode=verify-full, verify-ca or require".into());
            }
            (Some("verify-ca"), None) | (Some("verify-ca" | "require"), Some(SYSTEM)) => {
                return Err("without a file in sslrootcert, sslmode must be verify-full".into());
            }
            (None | Some("disable" | "prefer" | "require"), None) => {
                tls.dangerous().with_custom_certificate_verifier(any_name(None))
            }
            (Some("require" | "verify-ca"), Some(file)) => {
                tls.dangerous().with_custom_certificate_verifier(any_name(Some(roots(file)?)))
            }
            (Some("verify-full"), file) => tls.with_root_certificates(roots(file.unwrap_or(SYSTEM))?),
            (Some(other), _) => return Err(format!("{other:?} is not a valid sslmode")),
        };
        let mut tls = tls.with_no_client_auth();
        // Servers that take TLS without a request for it (`sslnegotiation=direct`) insist on the name.
        tls.alpn_protocols = vec![b"postgresql".to_vec()];
        match mode.as_deref() {
            // The client library has read it if the text is not a URL.
            None => {}
            Some("disable") => drop(config.ssl_mode(SslMode::Disable)),
            Some("prefer") => drop(config.ssl_mode(SslMode::Prefer)),
            Some(_) => drop(config.ssl_mode(SslMode::Require)),
        }
        Ok(Self { config, tls: MakeRustlsConnect::new(tls) })
    }

    /// Connects. The future beside the client reads and writes the socket.
    pub async fn connect(
        &self,
    ) -> Result<(Client, impl Future<Output = Result<(), Error>> + Send + use<>), Error> {
        self.config.connect(self.tls.clone()).await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(out)
    }
}

/// Removes parameters from the query of a URL and returns their values.
pub fn take_parameters<const N: usize>(
    url: &str,
    names: [&str; N],
) -> Result<(String, [Option<String>; N]), String> {
    let mut values = [const { None }; N];
    let Some((base, query)) = url.rsplit_once('?') else { return Ok((url.to_owned(), values)) };
    let mut kept = Vec::new();
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match names.iter().position(|known| *known == name) {
            Some(place) => {
                let value = percent_decode_str(value).decode_utf8();
                values[place] = Some(value.map_err(|error| format!("{name}: {error}"))?.into_owned());
            }
            None => kept.push(parameter),
        }
    }
    let url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    Ok((url, values))
}

/// Whether the server does not encrypt, or its certificate is not trusted. A retry does not help.
pub fn is_tls_refusal(error: &Error) -> bool {
    let Some(cause) = error.source() else { return false };
    match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => matches!(inner.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))),
        // The client library has no type for it.
        None => cause.to_string() == "server does not support TLS",
    }
}

/// The certificates in a PEM file, or those of the system.
fn roots(file: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if file == SYSTEM {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        let invalid = |error: &dyn fmt::Display| format!("sslrootcert {file}: {error}");
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| invalid(&error))? {
            let certificate = certificate.map_err(|error| invalid(&error))?;
            roots.add(certificate).map_err(|error| invalid(&error))?;
        }
    }
    match roots.is_empty() {
        true => Err(format!("sslrootcert {file}: there are no certificates")),
        false => Ok(roots),
    }
}

/// Accepts a certificate for any name: of these authorities, or without them, any at all. The second encrypts
/// without knowing to whom; then signatures prove nothing either.
#[derive(Debug)]
struct AnyName {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.roots {
            Some(_) => {
                let algorithms = &self.provider.signature_verification_algorithms;
                verify_tls12_signature(message, certificate, signed, algorithms)
            }
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.roots {
            Some(_) => {
                let algorithms = &self.provider.signature_verification_algorithms;
                verify_tls13_signature(message, certificate, signed, algorithms)
            }
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_out_of_the_url() {
        let take = |url| take_parameters(url, ["sslmode", "sslrootcert"]).unwrap();
        for (url, rest, mode, file) in [
            ("postgresql://h/d", "postgresql://h/d", None, None),
            ("postgresql://h/d?a=b", "postgresql://h/d?a=b", None, None),
            ("postgresql://h/d?sslmode=require", "postgresql://h/d", Some("require"), None),
            ("p://u:p?q@h/d?a=b&sslrootcert=%2Fa%20b&c=d", "p://u:p?q@h/d?a=b&c=d", None, Some("/a b")),
            ("host=h sslmode=require", "host=h sslmode=require", None, None),
        ] {
            let expected = (rest.to_owned(), [mode.map(str::to_owned), file.map(str::to_owned)]);
            assert_eq!(take(url), expected, "{url}");
        }
        assert!(take_parameters("p://h?sslmode=%ff", ["sslmode"]).is_err());
    }

    #[test]
    fn sslmode_is_that_of_the_url() {
        for (url, mode) in [
            ("postgresql://h/d", SslMode::Prefer),
            ("postgresql://h/d?sslmode=disable", SslMode::Disable),
            ("postgresql://h/d?sslmode=prefer", SslMode::Prefer),
            ("postgresql://h/d?sslmode=require", SslMode::Require),
            ("host=h sslmode=require", SslMode::Require),
        ] {
            assert_eq!(Connector::parse(url).ok().unwrap().config.get_ssl_mode(), mode, "{url}");
        }
        let by_address = Connector::parse("hostaddr=127.0.0.1").ok().unwrap();
        assert_eq!(by_address.config.get_hosts().len(), 1);
        for (query, reason) in [
            ("sslmode=allow", "\"allow\" is not a valid sslmode"),
            ("sslmode=verify-ca", "must be verify-full"),
            ("sslmode=verify-ca&sslrootcert=system", "must be verify-full"),
            ("sslmode=require&sslrootcert=system", "must be verify-full"),
            ("sslrootcert=ca.pem", "sslrootcert needs sslmode"),
            ("sslmode=prefer&sslrootcert=ca.pem", "sslrootcert needs sslmode"),
            ("sslmode=verify-full&sslrootcert=missing.pem", "missing.pem"),
            ("sslmode=verify-full&sslrootcert=Cargo.toml", "there are no certificates"),
        ] {
            let error = Connector::parse(&format!("postgresql://h/d?{query}")).err().unwrap();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}
