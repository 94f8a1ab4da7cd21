//! TLS connections.

use std::sync::Arc;
use std::time::Duration;

use jeton_client::{AttemptError, Client, Error, Options, Tls};
use jeton_server::resp;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::chaos::{add_concurrently, total};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_trusted_server_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = server.service.clone();
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let (acceptor, service) = (acceptor.clone(), service.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    resp::serve_connection(service, stream, peer.to_string()).await;
                }
            });
        }
    });

    let trusting = |pem: &str, address: String| Options {
        tls: Some(Tls::trusting(pem).unwrap()),
        deadline: Duration::from_secs(30),
        ..Options::to([address])
    };
    let by_name = format!("localhost:{}", address.port());
    let client = Client::connect(trusting(&made.cert.pem(), by_name.clone())).await.unwrap();
    add_concurrently(&client, 20, 20).await;
    assert_eq!(total(&client).await, 400);

    // The certificate is for a name, and the address is another; `server_name` sets the expected name.
    let mut options = trusting(&made.cert.pem(), address.to_string());
    options.tls = options.tls.map(|tls| tls.server_name("localhost").unwrap());
    Client::connect(options).await.unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    for options in [trusting(&made.cert.pem(), address.to_string()), trusting(&other.cert.pem(), by_name)] {
        // Reported at once, and not retried until the deadline.
        let started = std::time::Instant::now();
        let deadline = options.deadline;
        let error = Client::connect(options).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::Unreachable { last: AttemptError::Untrusted { .. } }), "{error}");
        assert!(started.elapsed() < deadline);
    }
    assert!(Tls::trusting("nothing").is_err());
}
