//! What a server asks: who is this, and is there a newer book?
//!
//! What must hold: asking takes no lock and waits for nobody, also while a book is reloaded. When a reload returns, no
//! pass works any more that the new book does not have.

use std::fmt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::auth_context::AuthContext;
use crate::auth_error::AuthError;
use crate::file_version::FileVersion;
use crate::secret_index::SecretIndex;
use crate::token::Token;
use crate::token_file::{FileError, TokenFile};
use crate::token_store::TokenStore;
use crate::usage::Quota;

/// Who may do what on this server.
pub struct Access {
    /// `None`: everybody everything.
    door: Option<Door>,
}

struct Door {
    keyring: ArcSwap<SecretIndex>,
    source: Option<Source>,
}

/// Where the book comes from.
struct Source {
    file: TokenFile,
    /// Locked while a book is loaded: two reloads at once could put the older book in force.
    last: Mutex<Last>,
}

/// The last version of the file that was looked at, and what was wrong with it.
struct Last {
    stamp: Option<FileVersion>,
    trouble: Option<String>,
}

/// What a token has created so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// The name of the token.
    pub name: String,
    /// Tables.
    pub tables: u64,
    /// Counters.
    pub counters: u64,
}

impl Access {
    /// On a server without tokens: everybody may do everything. See [`may_listen`](crate::may_listen).
    pub fn open_to_all() -> Self {
        Self { door: None }
    }

    /// By the book in this file, which must be there.
    pub fn from_file(path: &Path) -> Result<Self, FileError> {
        let file = TokenFile::new(path);
        // The stamp first: if the file is replaced in between, the next look sees another one and reads it again.
        let stamp = FileVersion::of(file.path());
        let book = file.read()?;
        let last = Mutex::new(Last { stamp, trouble: None });
        Ok(Self::new(&book, Some(Source { file, last })))
    }

    /// By this book, for ever.
    pub fn from_book(book: &TokenStore) -> Self {
        Self::new(book, None)
    }

    fn new(book: &TokenStore, source: Option<Source>) -> Self {
        let keyring = ArcSwap::from_pointee(SecretIndex::default().next(book));
        Self { door: Some(Door { keyring, source }) }
    }

    /// Whether a token is needed here.
    pub fn has_tokens(&self) -> bool {
        self.door.is_some()
    }

    /// The pass of somebody who has shown nothing (yet).
    pub fn anonymous(&self) -> Result<AuthContext, AuthError> {
        if self.has_tokens() { Err(AuthError::NoToken) } else { Ok(AuthContext::EVERYTHING) }
    }

    /// The pass for a token. On a server without tokens any text will do, so that a client need not be told to show none.
    pub fn authenticate(&self, token: impl AsRef<[u8]>, now: u64) -> Result<AuthContext, AuthError> {
        let Some(door) = &self.door else { return Ok(AuthContext::EVERYTHING) };
        let token = Token::parse(token)?;
        let keyring = door.keyring.load();
        let key = keyring.find(&token).ok_or(AuthError::Unknown)?;
        key.check(now)?;
        Ok(AuthContext::of(key.clone()))
    }

    /// Looks whether the file of tokens is another than before, and if so puts its book in force; says whether it did.
    /// Costs one `stat` if nothing has changed. If the new file cannot be read, the book before stays in force, and the
    /// error is returned once: [`trouble`](Self::trouble) repeats it until the file is mended.
    pub fn reload_if_changed(&self) -> Result<bool, FileError> {
        let Some((door, source)) = self.door.as_ref().and_then(|door| Some((door, door.source.as_ref()?)))
        else {
            return Ok(false);
        };
        // Nothing is left half done in there by a panic.
        let mut last = source.last.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = FileVersion::of(source.file.path());
        if stamp == last.stamp {
            return Ok(false);
        }
        last.stamp = stamp;
        let book = source.file.read().inspect_err(|error| last.trouble = Some(error.to_string()))?;
        last.trouble = None;
        let before = door.keyring.load_full();
        let next = Arc::new(before.next(&book));
        door.keyring.store(next.clone());
        // After the new keyring is in force, so that nobody takes out a key that is about to end and finds it "withdrawn"
        // although the new one has another for the same token.
        before.withdraw(&next);
        Ok(true)
    }

    /// What is wrong with the file of tokens, as long as it is.
    pub fn trouble(&self) -> Option<String> {
        let last = &self.door.as_ref()?.source.as_ref()?.last;
        last.lock().unwrap_or_else(PoisonError::into_inner).trouble.clone()
    }

    /// What each token has created so far, by name: to be stored, and given back with [`set_used`](Self::set_used) when
    /// the server starts again.
    pub fn used(&self) -> Vec<Used> {
        let Some(door) = &self.door else { return Vec::new() };
        let keyring = door.keyring.load();
        let used = keyring.holders().map(|holder| Used {
            name: holder.name.clone(),
            tables: holder.account.used(Quota::Tables).load(Ordering::Relaxed),
            counters: holder.account.used(Quota::Counters).load(Ordering::Relaxed),
        });
        let mut used: Vec<Used> = used.collect();
        used.sort_by(|a, b| a.name.cmp(&b.name));
        used
    }

    /// Sets what a token has created so far; says whether there is a token with this name.
    pub fn set_used(&self, used: &Used) -> bool {
        let Some(door) = &self.door else { return false };
        let keyring = door.keyring.load();
        let Some(holder) = keyring.holder(&used.name) else { return false };
        holder.account.used(Quota::Tables).store(used.tables, Ordering::Relaxed);
        holder.account.used(Quota::Counters).store(used.counters, Ordering::Relaxed);
        true
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.door {
            None => f.write_str("Access(open to all)"),
            Some(door) => write!(f, "Access({} tokens)", door.keyring.load().holders().count()),
        }
    }
}
