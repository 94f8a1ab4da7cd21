//! Text that an operator writes: the configuration file, the token file, durations and sizes. The fuzz target
//! includes this file, so that its findings fail here in the same way.
//!
//! The first byte of the input selects what the rest is.

use std::fs;
use std::path::Path;

use jeton_auth::{Access, TokenStore};
use jeton_core::units::{format_duration, format_size, parse_duration, parse_size};
use jeton_etx::{Dialect, ProcedureCall, ProcedureLogic as _};
use jeton_procedures::{Database, ProcedureRegistry};
use jeton_server::node::{DatabaseKind, TransactionsConfig};

use crate::config::{ALL, Config, Flags};

pub const TOKENS: u8 = b'T';
pub const DURATION: u8 = b'D';
pub const SIZE: u8 = b'S';
pub const FILE: u8 = b'F';

/// It is rejected, or it is equal after it was written and read again.
pub fn config(data: &[u8]) {
    let Some((choice, text)) = data.split_first() else { return };
    match (*choice, std::str::from_utf8(text)) {
        (TOKENS, _) => tokens(text),
        (DURATION, Ok(text)) => {
            let Ok(duration) = parse_duration(text) else { return };
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        (SIZE, Ok(text)) => {
            let Ok(size) = parse_size(text) else { return };
            assert_eq!(parse_size(&format_size(size)), Ok(size));
        }
        (FILE, _) => {
            let path = std::env::temp_dir().join(format!("jeton-fuzz-{}.toml", std::process::id()));
            fs::write(&path, text).expect("room");
            file(&path);
            fs::remove_file(&path).expect("a file");
        }
        _ => {}
    }
}

fn tokens(text: &[u8]) {
    let Ok(store) = TokenStore::from_json(text) else { return };
    assert_eq!(TokenStore::from_json(store.to_json().as_bytes()).as_ref(), Ok(&store));
    let access = Access::from_store(&store);
    assert!(access.has_tokens() && access.anonymous().is_err());
}

fn file(path: &Path) {
    let config = match Config::load(&Flags::default().with_config(Some(path.to_owned()))) {
        Ok(config) => config,
        Err(error) => return assert!(!format!("{error:#}").contains("parsed once"), "{error:#}"),
    };
    for setting in ALL {
        let text = config.text(setting.key);
        assert_eq!((setting.normal)(text).as_deref(), Ok(text), "{}", setting.key);
    }
    if let Some(declared) = config.node_config().transactions {
        procedures(&declared);
    }
}

/// A procedure that loads can be asked for.
fn procedures(declared: &TransactionsConfig) {
    let databases = declared.databases.iter().map(|(name, database)| Database {
        name: name.clone(),
        number: database.number,
        dialect: if database.kind == DatabaseKind::Postgres { Dialect::Numbered } else { Dialect::Question },
        keeps_decisions: database.kind != DatabaseKind::Jeton,
    });
    let databases: Vec<_> = databases.collect();
    let Ok(registry) = ProcedureRegistry::read(&declared.procedures, &databases) else { return };
    for (name, location) in registry.decision_locations() {
        assert_eq!(registry.decision_location(name), Some(location));
        for parameters in ["{}", r#"{"amount": 1, "name": "x", "from": -1.5e3}"#] {
            let call = ProcedureCall { procedure: name.to_owned(), parameters: parameters.into() };
            drop(registry.check(&call));
        }
    }
}
