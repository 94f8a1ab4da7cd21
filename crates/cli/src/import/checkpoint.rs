//! The checkpoint of an import: which records are done or failed.
//!
//! A record in it was acknowledged. The file is replaced atomically.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::line_reader::Line;
use crate::cli_error::CliError;

/// Time between two writes during an import.
const INTERVAL: Duration = Duration::from_secs(1);

/// Progress of an import.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// The checkpoint file, if there is one.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    /// Failed lines and their errors.
    pub failed: BTreeMap<u64, String>,
    /// Number of the last line that is done or failed.
    pub lines: u64,
    name: String,
    /// Sum of the hashes of the records that are done.
    pub sum: u64,
    #[serde(skip, default = "Instant::now")]
    saved: Instant,
}

impl State {
    pub fn new(path: Option<PathBuf>, name: String) -> Self {
        Self { path, name, lines: 0, sum: 0, failed: BTreeMap::new(), saved: Instant::now() }
    }

    /// Loads the checkpoint, if it exists.
    pub fn load(path: Option<PathBuf>, name: String) -> Result<Self> {
        let Some(file) = &path else { return Ok(Self::new(path, name)) };
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::new(path, name)),
            text => text.map_err(|error| unusable(file, error.into()))?,
        };
        let state: Self = serde_json::from_str(&text).map_err(|error| unusable(file, error.into()))?;
        if state.name != name {
            return Err(unusable(file, anyhow!("it belongs to the import named {:?}", state.name)));
        }
        Ok(Self { path, ..state })
    }

    /// Records an acknowledged or empty record.
    pub fn done(&mut self, line: &Line) {
        self.failed.remove(&line.number);
        self.lines = self.lines.max(line.number);
        self.sum = self.sum.wrapping_add(line.hash());
    }

    /// Records a permanent error of a record.
    pub fn fail(&mut self, line: &Line, error: String) {
        self.lines = self.lines.max(line.number);
        self.failed.insert(line.number, error);
    }

    /// Saves at most once per interval.
    pub fn save_periodically(&mut self) -> Result<()> {
        if self.saved.elapsed() < INTERVAL { Ok(()) } else { self.save() }
    }

    pub fn save(&mut self) -> Result<()> {
        self.saved = Instant::now();
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_string(self)?;
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let written = std::fs::write(&new, format!("{text}\n"))
            .and_then(|()| std::fs::File::open(&new)?.sync_all())
            .and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| {
            let what = format!("the checkpoint {} was not written", path.display());
            CliError::of(
                error,
                what,
                "name another file with --state, or free disk space; the server remembers the applied ids",
            )
        })
    }
}

fn unusable(file: &Path, cause: anyhow::Error) -> anyhow::Error {
    CliError::of(
        cause,
        format!("{} is not a checkpoint of this import", file.display()),
        "name the right one with --state, or send all lines with --again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_loaded_and_order_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().join("state"));
        let line = |number: u64| Line { number, text: format!("line {number}") };
        let mut state = State::new(path.clone(), "n".into());
        state.done(&line(1));
        state.fail(&line(2), "why".into());
        state.done(&line(3));
        state.save().unwrap();
        let text = std::fs::read_to_string(path.as_ref().unwrap()).unwrap();
        let expected =
            format!("{{\"failed\":{{\"2\":\"why\"}},\"lines\":3,\"name\":\"n\",\"sum\":{}}}\n", state.sum);
        assert_eq!(text, expected);
        let mut again = State::load(path.clone(), "n".into()).unwrap();
        assert_eq!((again.lines, again.sum), (3, state.sum));
        assert_eq!(again.failed, state.failed);

        again.done(&line(2));
        let mut straight = State::new(None, "n".into());
        (1..=3).for_each(|number| straight.done(&line(number)));
        assert_eq!((again.lines, again.sum, again.failed.len()), (3, straight.sum, 0));
        assert!(State::load(path, "other".into()).is_err());
    }
}
