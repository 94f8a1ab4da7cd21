//! The protocol of Redis, served.
