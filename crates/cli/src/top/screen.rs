//! The terminal: drawn again and again until somebody presses q.

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

/// Shows what `lines` gives, anew every so often.
pub fn show(every: Duration, mut lines: impl FnMut() -> Vec<String>) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let shown = loop {
        let mut text = lines();
        text.push(String::new());
        text.push("q ends it".into());
        let text: Text<'_> = text.into_iter().map(Line::from).collect();
        if let Err(error) = terminal.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area())) {
            break Err(error);
        }
        match is_over(Instant::now() + every) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    ratatui::try_restore()?;
    shown
}

/// Waits until then; whether somebody wants to leave.
fn is_over(until: Instant) -> io::Result<bool> {
    while event::poll(until.saturating_duration_since(Instant::now()))? {
        if let Event::Key(key) = event::read()? {
            let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
