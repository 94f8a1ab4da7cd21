//! The rivals and ourselves under the same load.
