//! How many files may be open, which is how many clients there can be.
//!
//! Systems start a process with a low limit that it may raise itself, up to a higher one. The low one is for programs that ask the system which of
//! their files are ready in a way that ends at 1024 of them; a server does not.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;

/// Files besides connections: the log, tables of values, the index of ids.
const OTHER_FILES: u64 = 512;

/// How many files the settings may need at once.
pub fn wanted(settings: &Settings) -> u64 {
    (settings.connections_max as u64).saturating_mul(2).saturating_add(OTHER_FILES)
}

/// How many may be open once the limit is raised as far as it may be.
pub fn most() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Lets this process open as many files as it may, and says how many that are.
pub fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If it is not allowed after all, the limit is what it was.
        let _as_before = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
