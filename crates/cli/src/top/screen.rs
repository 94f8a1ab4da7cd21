//! The terminal in full-screen mode, redrawn until the user presses q or a signal stops the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Longest delay until a signal is handled.
const SIGNAL_POLL: Duration = Duration::from_millis(100);

/// The terminal in full-screen mode, restored on drop.
struct Screen(DefaultTerminal);

impl Screen {
    /// Enters full-screen mode. A panic restores the terminal.
    fn enter() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The panic hook has restored it; a second time would move the cursor onto the message.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}

/// Shows the result of `lines`, refreshed after each interval.
pub fn show(every: Duration, mut lines: impl FnMut() -> Vec<String>) -> io::Result<()> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    let mut screen = Screen::enter()?;
    loop {
        let mut text = lines();
        text.extend([String::new(), "q quits".into()]);
        let text: Text<'_> = text.into_iter().map(Line::from).collect();
        screen.0.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area()))?;
        let until = Instant::now() + every;
        while Instant::now() < until {
            if is_quit(until.saturating_duration_since(Instant::now()).min(SIGNAL_POLL))?
                || stopped.load(Ordering::Relaxed)
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
