//! The Redis serialisation protocol, both ends of it, without I/O.
