//! The history of all clients, and its checks.
//!
//! | rule | |
//! |---|---|
//! | one value | everything that is reported about a register is the same value |
//! | one winner | a write is fresh only for the client whose value the register has |
//! | found | a read that starts after a write was reported finds it, unless it was trimmed |
//! | no gap | a read of a dense log has every slot, and a write after a reported one is no gap |
//! | trimmed | a write that starts after a trim ended, at or below its slot, is refused |

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use jeton_register::{LogId, Slot};

/// What a request reported. A request without a result is in no event: it may have been executed at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Fresh {
        slot: Slot,
        value: Bytes,
    },
    Taken {
        slot: Slot,
        value: Bytes,
    },
    Refused {
        slot: Slot,
    },
    Gap {
        slot: Slot,
    },
    /// The registers from a slot on. Complete if the limit was not reached.
    Read {
        from: Slot,
        registers: Vec<(Slot, Bytes)>,
        is_complete: bool,
    },
    /// A read failed because of this trim point.
    ReadTrimmed {
        from: Slot,
        through: Slot,
    },
    Trimmed {
        through: Slot,
    },
}

/// A request with a result. The times are numbers of one counter.
#[derive(Debug, Clone)]
pub struct Event {
    pub client: usize,
    pub log: LogId,
    pub started: u64,
    pub ended: u64,
    pub report: Report,
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub log: LogId,
    pub rule: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}: {}", self.log, self.rule, self.what)
    }
}

/// What is reported about a register.
struct Known {
    value: Bytes,
    /// The end of the first request that reported it.
    ended: u64,
    fresh: Option<usize>,
}

/// Checks the events of all clients.
pub fn check(events: &[Event]) -> Vec<Violation> {
    let mut logs: BTreeMap<LogId, Vec<&Event>> = BTreeMap::new();
    for event in events {
        logs.entry(event.log).or_default().push(event);
    }
    logs.into_iter().flat_map(|(log, events)| check_log(log, &events)).collect()
}

fn check_log(log: LogId, events: &[&Event]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut broken = |rule, event: &Event, what: String| {
        let what = format!("{what}, by {:?}", event.report);
        violations.push(Violation { log, rule, what: what.chars().take(400).collect() });
    };
    let mut known: BTreeMap<Slot, Known> = BTreeMap::new();
    for event in events {
        let (reported, is_fresh): (Vec<(Slot, &Bytes)>, bool) = match &event.report {
            Report::Fresh { slot, value } => (vec![(*slot, value)], true),
            Report::Taken { slot, value } => (vec![(*slot, value)], false),
            Report::Read { registers, .. } => {
                (registers.iter().map(|(slot, value)| (*slot, value)).collect(), false)
            }
            _ => continue,
        };
        for (slot, value) in reported {
            let unknown = || Known { value: value.clone(), ended: event.ended, fresh: None };
            let entry = known.entry(slot).or_insert_with(unknown);
            entry.ended = entry.ended.min(event.ended);
            if entry.value != value {
                broken("one value", event, format!("slot {slot} also has {:?}", entry.value));
            }
            if is_fresh && entry.fresh.replace(event.client).is_some() {
                broken("one winner", event, format!("slot {slot} was fresh before"));
            }
        }
    }
    let trims: Vec<(u64, Slot)> = events
        .iter()
        .filter_map(|event| match event.report {
            Report::Trimmed { through } => Some((event.ended, through)),
            _ => None,
        })
        .collect();
    for event in events {
        let reported = |slot: Slot| known.get(&slot).is_some_and(|known| known.ended < event.started);
        let trimmed =
            trims.iter().filter(|(ended, _)| *ended < event.started).map(|(_, through)| *through).max();
        let trimmed = trimmed.unwrap_or_default();
        match &event.report {
            Report::Fresh { slot, .. } | Report::Taken { slot, .. } | Report::Gap { slot }
                if *slot <= trimmed =>
            {
                broken("trimmed", event, format!("the log was trimmed to {trimmed}"));
            }
            Report::Gap { slot } if slot.0 > 1 && reported(Slot(slot.0 - 1)) => {
                broken("no gap", event, format!("slot {} was reported before", slot.0 - 1));
            }
            Report::Read { from, .. } if *from <= trimmed => {
                broken("trimmed", event, format!("the log was trimmed to {trimmed}"));
            }
            Report::Read { from, registers, is_complete } => {
                if log.kind.is_dense() {
                    let expected = (from.0..).map(Slot);
                    if let Some((slot, _)) = expected.zip(registers).find(|(slot, (found, _))| slot != found)
                    {
                        broken("no gap", event, format!("slot {slot} is missing"));
                    }
                }
                let last = registers.last().map_or(Slot(from.0.saturating_sub(1)), |(slot, _)| *slot);
                let end = if *is_complete { Slot::MAX } else { last };
                let lost = known
                    .range(*from..=end)
                    .map(|(slot, _)| *slot)
                    .find(|slot| reported(*slot) && !registers.iter().any(|(found, _)| found == slot));
                if let Some(slot) = lost {
                    broken("found", event, format!("slot {slot} was reported before"));
                }
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(client: usize, started: u64, report: Report) -> Event {
        Event { client, log: LogId::stripe(1), started, ended: started + 5, report }
    }

    fn fresh(slot: u64, value: &'static str) -> Report {
        Report::Fresh { slot: Slot(slot), value: value.into() }
    }

    fn read(from: u64, registers: &[(u64, &'static str)]) -> Report {
        let registers = registers.iter().map(|(slot, value)| (Slot(*slot), (*value).into())).collect();
        Report::Read { from: Slot(from), registers, is_complete: true }
    }

    #[test]
    fn each_broken_rule_is_found() {
        let good = vec![
            event(1, 0, fresh(1, "a")),
            event(2, 2, Report::Taken { slot: Slot(1), value: "a".into() }),
            event(2, 10, Report::Gap { slot: Slot(3) }),
            event(2, 20, fresh(2, "b")),
            event(1, 22, read(1, &[(1, "a")])),
            event(1, 30, read(1, &[(1, "a"), (2, "b")])),
            event(1, 40, Report::Trimmed { through: Slot(1) }),
            event(2, 42, read(1, &[(1, "a"), (2, "b")])),
            event(2, 50, Report::Refused { slot: Slot(1) }),
            event(2, 50, Report::ReadTrimmed { from: Slot(1), through: Slot(1) }),
            event(2, 60, read(2, &[(2, "b")])),
        ];
        assert_eq!(check(&good), []);
        for (rule, bad) in [
            ("one value", event(3, 70, Report::Taken { slot: Slot(2), value: "c".into() })),
            ("one value", event(3, 70, read(2, &[(2, "c")]))),
            ("one winner", event(2, 70, fresh(2, "b"))),
            ("found", event(3, 70, read(2, &[]))),
            ("no gap", event(3, 70, read(2, &[(2, "b"), (4, "d")]))),
            ("no gap", event(3, 70, Report::Gap { slot: Slot(3) })),
            ("trimmed", event(3, 70, Report::Taken { slot: Slot(1), value: "a".into() })),
            ("trimmed", event(3, 70, read(1, &[(1, "a"), (2, "b")]))),
        ] {
            let mut events = good.clone();
            events.push(bad.clone());
            let found = check(&events);
            assert!(found.iter().any(|violation| violation.rule == rule), "{bad:?}: {found:?}");
        }
    }
}
