//! The terminal, taken for a while and given back however that ends; and the signal to end.

use std::io;

use ratatui::DefaultTerminal;

/// The terminal while it is ours.
pub struct Screen(pub DefaultTerminal);

impl Screen {
    /// Takes it; from then on a panic gives it back, too.
    pub fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // In a panic it was given back already; once more would put the cursor onto the message.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}

/// Whether somebody has asked the process to end.
pub struct StopSignal {
    #[cfg(unix)]
    received: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

#[cfg(unix)]
impl StopSignal {
    /// Begins to listen for it.
    pub fn new() -> io::Result<Self> {
        let received = std::sync::Arc::default();
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, std::sync::Arc::clone(&received))?;
        }
        Ok(Self { received })
    }

    /// Whether it has come.
    pub fn received(&self) -> bool {
        self.received.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[cfg(not(unix))]
impl StopSignal {
    /// Begins to listen for it.
    pub fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Whether it has come.
    pub fn received(&self) -> bool {
        false
    }
}
