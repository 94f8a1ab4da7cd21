//! The screen: drawn again and again until somebody presses q.

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

use crate::terminal::{Screen, StopSignal};

/// The longest time until a signal is heard.
const LOOK: Duration = Duration::from_millis(100);

/// Shows what `lines` gives, anew every so often.
pub fn show(every: Duration, mut lines: impl FnMut() -> Vec<String>) -> io::Result<()> {
    let stopped = StopSignal::new()?;
    let mut screen = Screen::take()?;
    loop {
        let mut text = lines();
        text.extend([String::new(), "q ends it".into()]);
        let text: Text<'_> = text.into_iter().map(Line::from).collect();
        screen.0.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area()))?;
        let until = Instant::now() + every;
        while Instant::now() < until {
            if is_quit(until.saturating_duration_since(Instant::now()).min(LOOK))? || stopped.received() {
                return Ok(());
            }
        }
    }
}

/// Waits for a key; whether it is one to leave by.
fn is_quit(wait: Duration) -> io::Result<bool> {
    if !event::poll(wait)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(interrupt || matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc))
}
