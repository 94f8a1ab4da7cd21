//! Authentication of clients and reload of the token file.
//!
//! What must hold: authentication takes no lock and never blocks, also during a reload. When a reload
//! returns, every context whose secret is not in the new token store is revoked.

use std::fmt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use crate::auth_context::AuthContext;
use crate::auth_error::AuthError;
use crate::file_version::FileVersion;
use crate::secret_index::SecretIndex;
use crate::token::Token;
use crate::token_file::{FileError, TokenFile};
use crate::token_store::TokenStore;
use crate::usage::Quota;

pub struct Access {
    /// `None`: every client has every right.
    control: Option<Control>,
}

struct Control {
    index: ArcSwap<SecretIndex>,
    source: Option<Source>,
}

/// The file that the token store is loaded from.
struct Source {
    file: TokenFile,
    /// Locked during a reload: of two concurrent reloads, the one with the older file could finish last.
    last: Mutex<Last>,
}

/// The version of the file at the last reload, and the error of that reload.
struct Last {
    version: Option<FileVersion>,
    error: Option<String>,
}

/// The number of tables and counters that a token has created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    pub name: String,
    pub tables: u64,
    pub counters: u64,
}

impl Access {
    /// A server without tokens: every client has every right. See [`may_listen`](crate::may_listen).
    pub fn open_to_all() -> Self {
        Self { control: None }
    }

    /// Loads the token store from this file, which must exist.
    pub fn from_file(path: &Path) -> Result<Self, FileError> {
        let file = TokenFile::new(path);
        // The version first: if the file is replaced in between, the next check sees another version and
        // reloads.
        let version = FileVersion::of(file.path());
        let tokens = file.read()?;
        let last = Mutex::new(Last { version, error: None });
        Ok(Self::new(&tokens, Some(Source { file, last })))
    }

    /// Uses this token store, without reload.
    pub fn from_store(tokens: &TokenStore) -> Self {
        Self::new(tokens, None)
    }

    fn new(tokens: &TokenStore, source: Option<Source>) -> Self {
        let index = ArcSwap::from_pointee(SecretIndex::default().next(tokens));
        Self { control: Some(Control { index, source }) }
    }

    pub fn has_tokens(&self) -> bool {
        self.control.is_some()
    }

    /// The context of a client that has sent no token.
    pub fn anonymous(&self) -> Result<AuthContext, AuthError> {
        if self.has_tokens() { Err(AuthError::NoToken) } else { Ok(AuthContext::EVERYTHING) }
    }

    /// The context of a token. A server without tokens accepts any text, so that clients need no special
    /// configuration.
    pub fn authenticate(&self, token: impl AsRef<[u8]>, now: u64) -> Result<AuthContext, AuthError> {
        let Some(control) = &self.control else { return Ok(AuthContext::EVERYTHING) };
        let token = Token::parse(token)?;
        let index = control.index.load();
        let secret = index.find(&token).ok_or(AuthError::Unknown)?;
        secret.check(now)?;
        Ok(AuthContext::of(secret.clone()))
    }

    /// Reloads the token file if it has changed, and returns whether it has. Costs one `stat` if nothing has
    /// changed. If the new file cannot be read, the previous token store stays current and the error is
    /// returned once; [`trouble`](Self::trouble) returns it until the file is repaired.
    pub fn reload_if_changed(&self) -> Result<bool, FileError> {
        let Some(Control { index, source: Some(source) }) = &self.control else { return Ok(false) };
        // A panic leaves no partial update in there.
        let mut last = source.last.lock().unwrap_or_else(PoisonError::into_inner);
        let version = FileVersion::of(source.file.path());
        if version == last.version {
            return Ok(false);
        }
        last.version = version;
        let tokens = source.file.read().inspect_err(|error| last.error = Some(error.to_string()))?;
        last.error = None;
        let before = index.load_full();
        let next = Arc::new(before.next(&tokens));
        index.store(next.clone());
        // After the new index is current: otherwise a client could get a secret that is about to be revoked
        // although the new index has another entry for the same token.
        before.revoke(&next);
        Ok(true)
    }

    /// The error of the last reload, until a reload succeeds.
    pub fn trouble(&self) -> Option<String> {
        let last = &self.control.as_ref()?.source.as_ref()?.last;
        last.lock().unwrap_or_else(PoisonError::into_inner).error.clone()
    }

    /// The usage of each token, sorted by name: to be stored, and restored with [`set_used`](Self::set_used)
    /// when the server restarts.
    pub fn used(&self) -> Vec<Used> {
        let Some(control) = &self.control else { return Vec::new() };
        let index = control.index.load();
        let used = index.principals().map(|principal| Used {
            name: principal.name.clone(),
            tables: principal.usage.used(Quota::Tables).load(Ordering::Relaxed),
            counters: principal.usage.used(Quota::Counters).load(Ordering::Relaxed),
        });
        let mut used: Vec<Used> = used.collect();
        used.sort_by(|a, b| a.name.cmp(&b.name));
        used
    }

    /// Sets the usage of a token, and returns whether a token of this name exists.
    pub fn set_used(&self, used: &Used) -> bool {
        let Some(control) = &self.control else { return false };
        let index = control.index.load();
        let Some(principal) = index.principal(&used.name) else { return false };
        principal.usage.used(Quota::Tables).store(used.tables, Ordering::Relaxed);
        principal.usage.used(Quota::Counters).store(used.counters, Ordering::Relaxed);
        true
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.control {
            None => f.write_str("Access(open to all)"),
            Some(control) => write!(f, "Access({} tokens)", control.index.load().principals().count()),
        }
    }
}
