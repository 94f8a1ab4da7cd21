//! The demo on a full screen: takes the terminal, draws, listens to keys, and gives the terminal back.
//!
//! What must hold: however the demo ends (by itself, by a key, by a signal, by an error, by a panic), the terminal is as
//! it was before; and a key or a resize is answered within a frame, however slow the machine.

use std::io;
use std::time::{Duration, Instant};

use forgetful_filter::Moment;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::show::Show;
use super::view;
use crate::terminal::{Screen, StopSignal};

/// Time between two pictures, and the part of it that may be spent on the load.
const FRAME: Duration = Duration::from_millis(50);
const PLAY_MAX: Duration = Duration::from_millis(30);

/// Arrivals between two looks at the clock.
const ARRIVALS: usize = 512;

/// Plays the show until it is over or the user has seen enough.
pub fn play(show: &mut Show, speed: f64) -> io::Result<()> {
    let stopped = StopSignal::new()?;
    let mut screen = Screen::take()?;
    let mut due = Moment::ZERO;
    let mut paused = false;
    let mut last = Instant::now();
    while !show.is_over() && !stopped.received() {
        let frame_began = Instant::now();
        if !paused {
            due = due.after((frame_began - last).mul_f64(speed));
        }
        last = frame_began;
        while show.now() < due && !show.is_over() && frame_began.elapsed() < PLAY_MAX {
            show.play(due, ARRIVALS);
        }
        // A machine that cannot keep the pace plays more slowly: better than falling behind more and more.
        due = due.min(show.now());
        screen.0.draw(|frame| view::draw(frame, show, paused))?;

        while event::poll(FRAME.saturating_sub(frame_began.elapsed()))? {
            match event::read()? {
                Event::Key(key) if is_quit(&key) => return Ok(()),
                Event::Key(KeyEvent { code: KeyCode::Char(' '), kind: KeyEventKind::Press, .. }) => {
                    paused = !paused;
                }
                // The next picture has the new size; draw it now.
                Event::Resize(..) => break,
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_quit(key: &KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc | KeyCode::Char('q' | 'Q') => true,
        KeyCode::Char('c' | 'd') => control,
        _ => false,
    }
}
