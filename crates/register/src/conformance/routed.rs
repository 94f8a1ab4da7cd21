//! An engine that sends each request to an engine that a function selects, and counts the successful
//! responses.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::{Batch, Blob, Error, Extent, Limits, LogId, LogKind, Registers, Slot, WritePermit, WriteResult};

type Route<R> = Box<dyn Fn() -> Result<Arc<R>, Error> + Send + Sync>;

/// An engine that selects another engine for each request.
pub struct Routed<R> {
    route: Route<R>,
    /// The number of successful responses.
    pub responses: Arc<AtomicU64>,
}

impl<R: Registers> Routed<R> {
    pub fn new(route: impl Fn() -> Result<Arc<R>, Error> + Send + Sync + 'static) -> Self {
        Self { route: Box::new(route), responses: Arc::default() }
    }

    /// Counts the response of a request, unless no engine was selected.
    fn count<T, F>(
        &self,
        request: Result<F, Error>,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'static + use<T, F, R>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let responses = Arc::clone(&self.responses);
        async move {
            let response = request?.await?;
            responses.fetch_add(1, Ordering::Relaxed);
            Ok(response)
        }
    }
}

impl<R: Registers> Registers for Routed<R> {
    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        (self.route)()?.admit(writes, value_bytes)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        // Boxed: the type of the future names the lifetime of `engine`, although it does not borrow from it.
        type Write = Pin<Box<dyn Future<Output = Result<Vec<WriteResult>, Error>> + Send>>;
        self.count((self.route)().map(|engine| -> Write { Box::pin(engine.write(batch, permit)) }))
    }

    async fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Error> {
        let engine = (self.route)();
        self.count(engine.map(|engine| async move { engine.read(log, from, limit).await })).await
    }

    async fn extent(&self, log: LogId) -> Result<Extent, Error> {
        let engine = (self.route)();
        self.count(engine.map(|engine| async move { engine.extent(log).await })).await
    }

    async fn trim(&self, log: LogId, through: Slot) -> Result<(), Error> {
        let engine = (self.route)();
        self.count(engine.map(|engine| async move { engine.trim(log, through).await })).await
    }

    async fn retire(&self, kind: LogKind, below: u128) -> Result<(), Error> {
        let engine = (self.route)();
        self.count(engine.map(|engine| async move { engine.retire(kind, below).await })).await
    }

    async fn put_blob(&self, name: &str, blob: Blob) -> Result<bool, Error> {
        let (engine, name) = ((self.route)(), name.to_owned());
        self.count(engine.map(|engine| async move { engine.put_blob(&name, blob).await })).await
    }

    async fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error> {
        let (engine, name) = ((self.route)(), name.to_owned());
        self.count(engine.map(|engine| async move { engine.get_blob(&name).await })).await
    }

    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        let (engine, name) = ((self.route)(), name.to_owned());
        self.count(engine.map(|engine| async move { engine.put_object(&name, bytes).await })).await
    }

    async fn get_object(&self, name: &str) -> Result<Option<Bytes>, Error> {
        let (engine, name) = ((self.route)(), name.to_owned());
        self.count(engine.map(|engine| async move { engine.get_object(&name).await })).await
    }

    async fn delete_objects(&self, names: Vec<String>) -> Result<(), Error> {
        let engine = (self.route)();
        self.count(engine.map(|engine| async move { engine.delete_objects(names).await })).await
    }

    async fn list_objects(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        let (engine, prefix, after) = ((self.route)(), prefix.to_owned(), after.to_owned());
        self.count(engine.map(|engine| async move { engine.list_objects(&prefix, &after, limit).await })).await
    }
}
