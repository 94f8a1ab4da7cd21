//! The terminal in full-screen mode, restored on every exit, and the stop signal.

use std::io;

use ratatui::DefaultTerminal;

/// The terminal in full-screen mode.
pub struct Screen(pub DefaultTerminal);

impl Screen {
    /// Enters full-screen mode. A panic restores the terminal.
    pub fn take() -> io::Result<Self> {
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

/// SIGTERM or SIGINT.
pub struct StopSignal {
    #[cfg(unix)]
    received: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

#[cfg(unix)]
impl StopSignal {
    /// Installs the handlers.
    pub fn new() -> io::Result<Self> {
        let received = std::sync::Arc::default();
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, std::sync::Arc::clone(&received))?;
        }
        Ok(Self { received })
    }

    /// Whether a signal was received.
    pub fn received(&self) -> bool {
        self.received.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[cfg(not(unix))]
impl StopSignal {
    /// Installs the handlers.
    pub fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Whether a signal was received.
    pub fn received(&self) -> bool {
        false
    }
}
