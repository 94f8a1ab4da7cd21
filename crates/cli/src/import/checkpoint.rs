//! How far an import came, in a file beside it.
//!
//! What must hold: a line that is written down as done was acknowledged. The file is replaced whole, so that it says one or the other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::line_reader::Line;
use crate::cli_error::CliError;

/// The time between two savings while it works.
const EVERY: Duration = Duration::from_secs(1);

/// How far an import came.
#[derive(Debug)]
pub struct State {
    /// Where it is kept, if anywhere.
    pub path: Option<PathBuf>,
    name: String,
    /// The lines that are done, or failed.
    pub lines: u64,
    /// The sum of the hashes of those that are done.
    pub sum: u64,
    /// Those that failed, and why.
    pub failed: BTreeMap<u64, String>,
    saved: Instant,
}

impl State {
    /// Nothing is done.
    pub fn new(path: Option<PathBuf>, name: String) -> Self {
        Self { path, name, lines: 0, sum: 0, failed: BTreeMap::new(), saved: Instant::now() }
    }

    /// What is written down, if anything.
    pub fn load(path: Option<PathBuf>, name: String) -> Result<Self> {
        let mut state = Self::new(path, name);
        let Some(path) = &state.path else { return Ok(state) };
        let text = match std::fs::read_to_string(path) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(state),
            text => text.map_err(|why| unusable(&state, why.into()))?,
        };
        let value: Value = serde_json::from_str(&text).map_err(|why| unusable(&state, why.into()))?;
        let number = |name: &str| {
            value[name].as_u64().ok_or_else(|| unusable(&state, anyhow!("{name} is not a number in it")))
        };
        if value["name"].as_str() != Some(&state.name) {
            return Err(unusable(
                &state,
                anyhow!("it is of an import with another --name: {}", value["name"]),
            ));
        }
        let (lines, sum) = (number("lines")?, number("sum")?);
        let failed = value["failed"].as_object().into_iter().flatten();
        let failed = failed
            .map(|(line, why)| Ok((line.parse()?, why.as_str().unwrap_or_default().to_owned())))
            .collect::<Result<_>>()
            .map_err(|why| unusable(&state, why))?;
        (state.lines, state.sum, state.failed) = (lines, sum, failed);
        Ok(state)
    }

    /// A line that was acknowledged, or asks for nothing.
    pub fn done(&mut self, line: &Line) {
        self.failed.remove(&line.number);
        self.lines = self.lines.max(line.number);
        self.sum = self.sum.wrapping_add(line.hash());
    }

    /// A line that will not be counted as it is.
    pub fn fail(&mut self, line: &Line, why: String) {
        self.lines = self.lines.max(line.number);
        self.failed.insert(line.number, why);
    }

    /// Writes it down, if it was not done for a while.
    pub fn save_now_and_then(&mut self) -> Result<()> {
        if self.saved.elapsed() < EVERY { Ok(()) } else { self.save() }
    }

    /// Writes it down.
    pub fn save(&mut self) -> Result<()> {
        self.saved = Instant::now();
        let Some(path) = &self.path else { return Ok(()) };
        let failed: serde_json::Map<String, Value> =
            self.failed.iter().map(|(line, why)| (line.to_string(), json!(why))).collect();
        let text = json!({ "name": self.name, "lines": self.lines, "sum": self.sum, "failed": failed });
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let written = std::fs::write(&new, format!("{text}\n"))
            .and_then(|()| std::fs::File::open(&new)?.sync_all())
            .and_then(|()| std::fs::rename(&new, path));
        written.map_err(|why| {
            let what = format!("how far the import came cannot be written to {}", path.display());
            CliError::of(
                why,
                what,
                "name another file with --state, or make room; what was counted is remembered by the server",
            )
        })
    }
}

fn unusable(state: &State, why: anyhow::Error) -> anyhow::Error {
    let path = state.path.as_ref().map_or(String::new(), |path| path.display().to_string());
    CliError::of(
        why,
        format!("{path} does not say how far this import came"),
        "name the right one with --state, or send all lines with --again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded_and_order_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().join("state"));
        let line = |number: u64| Line { number, text: format!("line {number}") };
        let mut state = State::new(path.clone(), "n".into());
        state.done(&line(1));
        state.fail(&line(2), "why".into());
        state.done(&line(3));
        state.save().unwrap();
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
