//! A gate at which threads wait, for hooks of a [`FaultDisk`](jeton_wal::disk::FaultDisk).

use std::sync::{Condvar, Mutex};

/// Lets all threads pass, or none.
#[derive(Default)]
pub struct Gate {
    /// Whether it is closed, and how many wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    pub fn set_closed(&self, closed: bool) {
        self.state.lock().unwrap().0 = closed;
        self.changed.notify_all();
    }

    pub fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        state = self.changed.wait_while(state, |(closed, _)| *closed).unwrap();
        state.1 -= 1;
    }

    pub fn await_waiter(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |(_, waiting)| *waiting == 0).unwrap());
    }
}
