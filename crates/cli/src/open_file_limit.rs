//! The limit of open files, which limits the number of clients.
//!
//! A process starts with a low soft limit, for programs that use `select`, and may raise it to the hard
//! limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;

/// Files other than connections: log, values, id index.
const OTHER_FILES: u64 = 512;

/// Open files that the settings may need.
pub fn needed(settings: &Settings) -> u64 {
    (settings.connections_max as u64).saturating_mul(2).saturating_add(OTHER_FILES)
}

/// The hard limit.
pub fn hard_limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Raises the soft limit to the hard limit. Returns the new limit.
pub fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // On an error the limit stays as it was.
        let _unchanged = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
