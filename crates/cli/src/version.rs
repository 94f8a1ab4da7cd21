//! Which Jeton this is.

/// The version, and the commit if the sources were a clone.
pub fn long() -> String {
    match env!("JETON_COMMIT") {
        "" => env!("CARGO_PKG_VERSION").into(),
        commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    }
}
