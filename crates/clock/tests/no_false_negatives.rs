//! No cause is reported as `CertainlyNot`: every small execution, and random large ones.

use bloom_clock::{
    BloomClock, Causality, Clock, ClockParams, Identity, Stamp, TickKey, VectorClock, VectorStamp,
};

/// An event of a process; `from` is the event that sent the message which this event receives.
#[derive(Clone, Copy)]
struct Event {
    process: usize,
    from: Option<usize>,
}

fn stamps<C: Clock>(mut clocks: Vec<C>, events: &[Event]) -> Vec<C::Stamp> {
    let mut stamps: Vec<C::Stamp> = Vec::with_capacity(events.len());
    for event in events {
        let clock = &mut clocks[event.process];
        let stamp = match event.from {
            None => clock.tick().clone(),
            Some(sent) => clock.receive(&stamps[sent]).expect("a stamp of this system").clone(),
        };
        stamps.push(stamp);
    }
    stamps
}

fn bloom(params: ClockParams, processes: usize, events: &[Event]) -> Vec<Stamp> {
    let begin =
        |process: usize| BloomClock::begin(params, Identity::from_number_never_used_before(process as u64));
    stamps((0..processes).map(begin).collect(), events)
}

fn vector(processes: usize, events: &[Event]) -> Vec<VectorStamp> {
    stamps((0..processes).map(|process| VectorClock::begin(process, processes)).collect(), events)
}

/// The causes of each event, itself included, as bits: the transitive closure, computed without a clock.
fn causes(events: &[Event]) -> Vec<u64> {
    let mut causes: Vec<u64> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let before = (0..at).rev().find(|earlier| events[*earlier].process == event.process);
        let known = [before, event.from].into_iter().flatten().map(|earlier| causes[earlier]);
        causes.push(known.fold(1 << at, |all, more| all | more));
    }
    causes
}

/// Parameters with many false positives: few counters, low limits.
fn all_params() -> Vec<ClockParams> {
    let mut all = Vec::new();
    for key in [TickKey::Event, TickKey::Process] {
        for (counters, hashes, limit) in [(1, 1, 2), (2, 2, 3), (3, 1, 1), (4, 2, 4), (8, 3, u32::MAX)] {
            let params = ClockParams::new(counters).and_then(|params| params.hashes(hashes));
            all.push(params.and_then(|params| params.key(key).limit(limit)).expect("valid parameters"));
        }
    }
    all
}

const PROCESSES: usize = 3;
const EVENTS: usize = 6;

/// Calls `check` with all executions that continue this one.
fn each(events: &mut Vec<Event>, check: &mut impl FnMut(&[Event])) {
    if events.len() == EVENTS {
        return check(events);
    }
    for process in 0..PROCESSES {
        let senders = (0..events.len()).filter(|sent| events[*sent].process != process);
        let choices: Vec<Option<usize>> = std::iter::once(None).chain(senders.map(Some)).collect();
        for from in choices {
            events.push(Event { process, from });
            each(events, check);
            events.pop();
        }
    }
}

#[test]
fn no_cause_is_denied_in_any_execution_of_six_events() {
    let all_params = all_params();
    let (mut executions, mut positives, mut false_positives) = (0_u64, 0_u64, 0_u64);
    each(&mut Vec::new(), &mut |events| {
        executions += 1;
        let causes = causes(events);
        let exact = vector(PROCESSES, events);
        let pairs = || (0..EVENTS).flat_map(|later| (0..EVENTS).map(move |earlier| (later, earlier)));
        let caused = |later, earlier| later != earlier && causes[later] >> earlier & 1 == 1;
        for (later, earlier) in pairs() {
            let found = exact[later].after(&exact[earlier]) == Causality::Possibly;
            assert_eq!(found, caused(later, earlier), "the vector clock is exact");
        }
        for params in &all_params {
            let stamps = bloom(*params, PROCESSES, events);
            for (later, earlier) in pairs() {
                let (caused, found) = (caused(later, earlier), stamps[later].after(&stamps[earlier]));
                assert!(!caused || found == Causality::Possibly, "{params:?}: {found:?}");
                positives += u64::from(found == Causality::Possibly);
                false_positives += u64::from(found == Causality::Possibly && !caused);
            }
        }
    });
    assert!(executions > 100_000, "{executions} executions");
    assert!(0 < false_positives && false_positives < positives, "{false_positives} of {positives}");
}

/// A linear congruential generator.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn no_cause_is_denied_among_ten_million_pairs() {
    const PROCESSES: usize = 40;
    const EVENTS: usize = 1_050;
    let (mut seed, mut pairs, mut caused) = (1, 0_u64, 0_u64);
    for params in all_params() {
        let mut events: Vec<Event> = Vec::new();
        for at in 0..EVENTS {
            let process = random(&mut seed) as usize % PROCESSES;
            let sent = (at > 0).then(|| at - 1 - random(&mut seed) as usize % at.min(200));
            let from =
                sent.filter(|sent| events[*sent].process != process && !random(&mut seed).is_multiple_of(3));
            events.push(Event { process, from });
        }
        let (exact, stamps) = (vector(PROCESSES, &events), bloom(params, PROCESSES, &events));
        for later in 0..EVENTS {
            for earlier in 0..EVENTS {
                pairs += 1;
                if exact[later].after(&exact[earlier]) == Causality::Possibly {
                    caused += 1;
                    assert_eq!(stamps[later].after(&stamps[earlier]), Causality::Possibly, "{params:?}");
                }
            }
        }
    }
    assert!(pairs >= 10_000_000 && caused > pairs / 10, "{caused} of {pairs}");
}
