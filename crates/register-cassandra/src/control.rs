//! The control row of a log, and what a group of writes does to it. Pure.

use std::collections::HashMap;

use jeton_register::{Extent, LogId, Slot};

/// The control row of a log. The default is a log that was never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control {
    /// The number of changes of the log; 0 if there is no row.
    pub version: u64,
    /// The highest slot ever written.
    pub last: Slot,
    pub trimmed: Slot,
}

impl Control {
    pub fn extent(&self) -> Extent {
        Extent { trimmed: self.trimmed, last: self.last }
    }

    /// The slot before the only one that a dense log accepts.
    fn end(&self) -> Slot {
        self.last.max(self.trimmed)
    }

    /// After a trim.
    pub fn trimmed_to(&self, through: Slot) -> Self {
        Self { version: self.version + 1, trimmed: through, ..*self }
    }
}

/// What is known about a write before the next conditional batch. A slot is never below `last` later, and
/// never above the trim point, so all but `Insert` and `Gap` hold also if the control row has changed
/// meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Trimmed,
    /// The register may have a value, which must be read.
    LookUp,
    /// The register is empty if the control row is this one.
    Insert,
    /// As the write at this position, which comes first.
    SameAs(usize),
    /// The register before it is empty if the control row is this one.
    Gap,
}

/// The steps of a group of writes, and the control row after the inserts.
pub struct Plan {
    pub steps: Vec<Step>,
    pub after: Control,
}

/// Plans the writes at `slots`, in order. `empty` are registers below the end that were found empty, in a log
/// that is not dense.
pub fn plan(log: LogId, control: Control, slots: impl Iterator<Item = Slot>, empty: &[Slot]) -> Plan {
    let mut after = control;
    let mut first: HashMap<Slot, usize> = HashMap::new();
    let mut steps = Vec::new();
    for (place, slot) in slots.enumerate() {
        let is_first = !first.contains_key(&slot);
        let step = if slot <= control.trimmed {
            Step::Trimmed
        } else if let Some(place) = first.get(&slot) {
            Step::SameAs(*place)
        } else if log.kind.is_dense() {
            match slot.cmp(&after.end().next()) {
                std::cmp::Ordering::Less => Step::LookUp,
                std::cmp::Ordering::Equal => Step::Insert,
                std::cmp::Ordering::Greater => Step::Gap,
            }
        } else if slot > control.last || empty.contains(&slot) {
            Step::Insert
        } else {
            Step::LookUp
        };
        // A gap may be filled by a later write of the group.
        if is_first && matches!(step, Step::Insert | Step::LookUp) {
            first.insert(slot, place);
        }
        if step == Step::Insert {
            after.last = after.last.max(slot);
        }
        steps.push(step);
    }
    after.version += 1;
    Plan { steps, after }
}

#[cfg(test)]
mod tests {
    use super::Step::{Gap, Insert, LookUp, SameAs, Trimmed};
    use super::*;

    fn steps(log: LogId, control: Control, slots: &[u64], empty: &[Slot]) -> (Vec<Step>, Slot) {
        let plan = plan(log, control, slots.iter().copied().map(Slot), empty);
        assert_eq!((plan.after.version, plan.after.trimmed), (control.version + 1, control.trimmed));
        (plan.steps, plan.after.last)
    }

    #[test]
    fn dense_logs_accept_only_the_next_slot() {
        let control = Control { version: 7, last: Slot(5), trimmed: Slot(3) };
        let (found, last) = steps(LogId::stripe(1), control, &[3, 4, 6, 6, 8, 7, 8], &[]);
        assert_eq!(found, [Trimmed, LookUp, Insert, SameAs(2), Gap, Insert, Insert]);
        assert_eq!(last, Slot(8));
        // A trim beyond the last slot moves the end.
        let control = Control { version: 7, last: Slot(5), trimmed: Slot(9) };
        assert_eq!(steps(LogId::stripe(1), control, &[6, 11, 10], &[]).0, [Trimmed, Gap, Insert]);
        assert_eq!(steps(LogId::stripe(1), Control::default(), &[2, 1], &[]).0, [Gap, Insert]);
    }

    #[test]
    fn other_logs_accept_every_slot_that_is_empty() {
        let control = Control { version: 7, last: Slot(9), trimmed: Slot(3) };
        let (found, last) = steps(LogId::partition(1), control, &[3, 4, 5, 40, 4, 12, 40], &[Slot(5)]);
        assert_eq!(found, [Trimmed, LookUp, Insert, Insert, SameAs(1), Insert, SameAs(3)]);
        assert_eq!(last, Slot(40));
    }
}
