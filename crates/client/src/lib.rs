//! The client: ids, retries, failover, an outbox.
