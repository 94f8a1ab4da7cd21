//! The `jeton` binary.

fn main() {}
