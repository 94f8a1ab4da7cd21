//! Progress reports to the caller.

use crate::Figure;

/// Receives progress reports. The library prints nothing itself.
pub trait Progress {
    /// A figure starts, the `number`-th of `total`.
    fn start(&mut self, number: usize, total: usize, figure: &Figure);
    /// The current figure is done to this share, from 0 to 1.
    fn advance(&mut self, share: f64);
    /// The files of the figure are written.
    fn finish(&mut self, figure: &Figure);
}

/// Ignores progress.
pub struct Silent;

impl Progress for Silent {
    fn start(&mut self, _: usize, _: usize, _: &Figure) {}
    fn advance(&mut self, _: f64) {}
    fn finish(&mut self, _: &Figure) {}
}

/// Counts the steps of one figure.
pub(crate) struct Meter<'a> {
    progress: &'a mut dyn Progress,
    done: usize,
    steps: usize,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(progress: &'a mut dyn Progress) -> Self {
        Self { progress, done: 0, steps: 1 }
    }

    /// Sets the number of steps.
    pub(crate) fn expect(&mut self, steps: usize) {
        self.steps = steps.max(1);
    }

    pub(crate) fn step(&mut self) {
        self.steps(1);
    }

    /// Advances by several steps.
    pub(crate) fn steps(&mut self, steps: usize) {
        self.done += steps;
        self.progress.advance((self.done as f64 / self.steps as f64).min(1.0));
    }
}
