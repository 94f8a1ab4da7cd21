//! The service: counters over RESP and HTTP.
