//! Replays an execution on clocks of any kind.

use bloom_clock::Clock;

use super::execution::{Event, EventKind, Execution};

/// Applies every event to the clock of its process and passes it on with its stamp.
pub(crate) fn replay<C: Clock>(
    execution: &Execution,
    mut clocks: Vec<C>,
    mut look: impl FnMut(usize, &Event, &C::Stamp),
) {
    let mut in_flight: Vec<Option<C::Stamp>> = vec![None; execution.slots];
    for (at, event) in execution.events.iter().enumerate() {
        let clock = &mut clocks[event.process as usize];
        match event.what {
            EventKind::Internal => look(at, event, clock.tick()),
            EventKind::Send(slot) => {
                let stamp = clock.tick();
                look(at, event, stamp);
                in_flight[slot as usize] = Some(stamp.clone());
            }
            EventKind::Receive(slot) => {
                let stamp = in_flight[slot as usize].take().expect("a message is sent before it arrives");
                let stamp = clock.receive(&stamp).expect("all clocks have equal parameters");
                look(at, event, stamp);
            }
        }
    }
}
