//! Redraws the screen until the user presses q.

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

use crate::terminal::{Screen, StopSignal};

/// Longest delay until a signal is handled.
const SIGNAL_POLL: Duration = Duration::from_millis(100);

/// Shows the result of `lines`, refreshed after each interval.
pub fn show(every: Duration, mut lines: impl FnMut() -> Vec<String>) -> io::Result<()> {
    let stopped = StopSignal::new()?;
    let mut screen = Screen::take()?;
    loop {
        let mut text = lines();
        text.extend([String::new(), "q quits".into()]);
        let text: Text<'_> = text.into_iter().map(Line::from).collect();
        screen.0.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area()))?;
        let until = Instant::now() + every;
        while Instant::now() < until {
            if is_quit(until.saturating_duration_since(Instant::now()).min(SIGNAL_POLL))?
                || stopped.received()
            {
                return Ok(());
            }
        }
    }
}

/// Waits for a key. Whether it is q, Esc or Ctrl-C.
fn is_quit(wait: Duration) -> io::Result<bool> {
    if !event::poll(wait)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(interrupt || matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc))
}
