//! Every call without failures, and every error of the server.

use std::time::Duration;

use jeton_client::{Client, Error, ErrorCode, Id, OperationStatus, Options, Status, StoredValue};
use jeton_core::{Durability, TableSettings};

use crate::server::Server;

async fn pair() -> (tempfile::TempDir, Server, Client) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let client = Client::connect(Options::to([server.address.to_string()])).await.unwrap();
    (folder, server, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_works() {
    let (_folder, _server, client) = pair().await;
    let outcome = client.add("clicks", 5).await.unwrap();
    assert_eq!(
        (outcome.value, outcome.status, outcome.replayed, outcome.relaxed),
        (Some(5), Status::Applied, false, false)
    );
    let again = client.add("clicks", 5).id(outcome.id.clone()).await.unwrap();
    assert_eq!((again.value, again.replayed, &again.id), (Some(5), true, &outcome.id));

    let refused = client.add("clicks", -6).min(0).await.unwrap();
    assert_eq!((refused.value, refused.status), (Some(5), Status::Refused));
    let still = client.add("clicks", -6).min(0).id(refused.id).await.unwrap();
    assert_eq!((still.status, still.replayed), (Status::Refused, true));
    assert_eq!(client.add("clicks", 1).max(5).await.unwrap().status, Status::Refused);

    let many = client.add_many([("{a}x", 1), ("{a}y", 2)]).await.unwrap();
    assert_eq!((many.values, many.status), (vec![Some(1), Some(2)], Status::Applied));
    assert_eq!(client.set("clicks", 70).await.unwrap().value, Some(70));
    assert_eq!(client.get("clicks").await.unwrap(), Some(StoredValue::Counter(70)));
    assert_eq!(client.reset("clicks").await.unwrap().value, Some(0));
    assert!(client.delete("clicks").await.unwrap().is_applied());
    assert_eq!(client.get("clicks").await.unwrap(), None);
    client.put("name", b"a\r\nb").await.unwrap();
    assert_eq!(client.get("name").await.unwrap(), Some(StoredValue::Bytes(b"a\r\nb".to_vec())));

    let status = client.operation("clicks", &outcome.id).await.unwrap();
    assert!(
        matches!(status, OperationStatus::Known { applied: true, ref values, .. } if values == &[Some(5)]),
        "{status:?}"
    );
    assert_eq!(client.operation("clicks", &client.new_id()).await.unwrap(), OperationStatus::Unknown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_error_is_mapped() {
    let (_folder, server, client) = pair().await;
    let id = client.add("a", 1).await.unwrap().id;
    let Err(Error::Refused(error)) = client.add("a", 2).id(id.clone()).await else { panic!("a mismatch") };
    assert_eq!(error.code, Some(ErrorCode::IdMismatch));

    let old = Id::new("018bcfe5-6800-7000-8000-000000000000").unwrap();
    let Err(error @ Error::Expired { .. }) = client.add("a", 1).id(old.clone()).await else {
        panic!("expired")
    };
    assert!(!error.is_certain());
    assert!(error.to_string().contains(old.as_str()), "{error}");

    let ahead = Id::new("0fffffff-6800-7000-8000-000000000000").unwrap();
    for (call, code) in [
        (client.add("a", 1).id(ahead), ErrorCode::IdFromFuture),
        (client.add("a", 1).id(Id::new("x").unwrap()), ErrorCode::IdInvalid),
        (client.add("nowhere/a", 1), ErrorCode::UnknownTable),
    ] {
        let error = call.await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{error}");
        assert!(error.is_certain());
    }
    client.put("text", "x").await.unwrap();
    let error = client.add("text", 1).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error}");
    assert!(matches!(client.add("", 1).await, Err(Error::Invalid(_))));

    let relaxed = TableSettings { durability: Durability::Relaxed, ..TableSettings::default() };
    server.service.engine.create_table("fast", relaxed).unwrap();
    assert!(client.add("fast/a", 1).await.unwrap().relaxed);
    let id = client.add("fast/a", 1).await.unwrap().id;
    assert!(matches!(
        client.operation("fast/a", &id).await.unwrap(),
        OperationStatus::Known { applied: true, .. }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_server_is_a_certain_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let options = Options { deadline: Duration::from_millis(200), ..Options::to([address]) };
    let error = Client::connect(options.clone()).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let error = Client::new(options).unwrap().add("a", 1).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.is_certain());
}
