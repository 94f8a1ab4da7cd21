//! The version of this build.

/// The version, with the commit if it was built from a git clone.
pub fn long() -> String {
    match env!("JETON_COMMIT") {
        "" => env!("CARGO_PKG_VERSION").into(),
        commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    }
}
