//! Settings are changed while ids are under way: every promise that was made is kept, and no id counts twice.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::*;
use jeton_core::{
    Catalog, ERAS_MAX, Format, Formats, Mode, OpId, Rejection, StoreClock, TableSettings, Timestamp, Verdict,
};
use proptest::prelude::*;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn windows(millis: u64) -> TableSettings {
    TableSettings { dated_window: ms(millis), opaque_window: ms(millis), ..settings() }
}

/// Probabilistic, with hardly ever a new id taken for a known one.
fn probabilistic_windows(millis: u64) -> TableSettings {
    TableSettings { mode: Mode::Probabilistic { target: 1e-6 }, ..windows(millis) }
}

#[track_caller]
fn expired(verdict: Verdict) {
    let rejection = verdict.rejected();
    assert!(matches!(rejection, Rejection::Expired { .. }), "{rejection:?}");
}

#[test]
fn a_longer_window_does_not_take_up_again_what_the_shorter_one_forgot_before() {
    let mut world = World::new(windows(HOUR));
    world.add(&minted(0, 1), 1).applied();
    world.at(2 * HOUR).change(windows(10 * HOUR));
    expired(world.at(2 * HOUR).add(&minted(0, 1), 1));
    world.at(9 * HOUR).tidy();
    expired(world.add(&minted(0, 1), 1));
}

#[test]
fn a_longer_window_does_not_take_up_again_what_the_shorter_one_forgets_later() {
    let mut world = World::new(windows(HOUR));
    world.add(&minted(0, 1), 1).applied();
    world.at(HOUR / 2).change(windows(10 * HOUR));
    world.at(HOUR).add(&minted(0, 1), 1).replayed();
    assert!(!is_fresh(&world.at(HOUR + 1).add(&minted(0, 1), 1)));
    for later in [2 * HOUR, 3 * HOUR, 9 * HOUR] {
        expired(world.at(later).add(&minted(0, 1), 1));
    }
    world.tidy();
    assert_eq!(world.table().eras().count(), 1, "the first era is over");
    expired(world.at(10 * HOUR).add(&minted(0, 1), 1));
    assert_eq!(world.counter("a"), 1);
}

#[test]
fn a_new_id_minted_before_a_change_is_taken_for_as_long_as_the_era_of_then_would_have() {
    let mut world = World::new(windows(HOUR));
    world.at(HOUR / 2).change(windows(10 * HOUR));
    world.at(HOUR).add(&minted(0, 1), 1).applied();
    expired(world.at(HOUR + 1).add(&minted(0, 2), 1));
    // Minted after the change, the new window holds.
    let after = HOUR / 2 + SLACK + 5_000;
    world.at(after + 10 * HOUR).add(&minted(after, 3), 1).applied();
}

#[test]
fn a_shorter_window_still_answers_what_the_longer_one_took() {
    let mut world = World::new(windows(10 * HOUR));
    let first = world.add(&minted(0, 1), 1).fresh().answer;
    let opaque_first = world.add(&opaque("order-1"), 1).fresh().answer;
    world.at(HOUR).change(windows(HOUR));
    for later in [HOUR, 2 * HOUR + 1, 5 * HOUR, 10 * HOUR] {
        world.at(later).tidy();
        assert_eq!(world.add(&minted(0, 1), 1).replayed(), first);
        assert_eq!(world.add(&opaque("order-1"), 1).replayed(), opaque_first);
        // A new one of that age is not taken.
        if later > HOUR {
            expired(world.add(&minted(0, 2), 1));
        }
    }
    expired(world.at(10 * HOUR + 1).add(&minted(0, 1), 1));
    assert_eq!(world.counter("a"), 2);
}

#[test]
fn a_short_era_in_between_is_not_overlooked_when_it_is_gone() {
    let mut world = World::new(windows(5 * HOUR));
    world.at(HOUR).change(windows(MINUTE));
    world.at(HOUR + 1).add(&minted(HOUR + 1, 1), 1).applied();
    world.at(HOUR + 2).change(windows(9 * HOUR));
    // The middle era is over first.
    world.at(3 * HOUR).tidy();
    expired(world.add(&minted(HOUR + 1, 1), 1));
    world.at(8 * HOUR).tidy();
    assert_eq!(world.table().eras().count(), 1, "both are gone");
    expired(world.add(&minted(HOUR + 1, 1), 1));
    assert_eq!(world.counter("a"), 1);
}

#[test]
fn a_short_era_does_not_shorten_the_window_of_ids_that_were_minted_after_it() {
    // A wide skew: the first era may have taken ids that are dated an hour ahead.
    let mut world = World::new(TableSettings { skew: ms(HOUR), ..windows(5 * HOUR) });
    world.change(TableSettings { skew: ms(0), ..windows(1) });
    world.at(1).change(windows(2 * HOUR));
    let after = 2 * SLACK;
    for (number, later) in [after, after + MINUTE, after + HOUR].into_iter().enumerate() {
        world.at(later).tidy();
        world.add(&minted(after, number as u64), 1).applied();
    }
}

#[test]
fn a_change_counts_its_edge_for_the_era_before() {
    // Threads that do not know of the change yet take ids into the era before.
    let mut world = World::new(windows(MINUTE));
    let before = world.catalog.clone();
    world.at(MINUTE).change(windows(HOUR));
    let after = std::mem::replace(&mut world.catalog, before);
    world.at(MINUTE + SLACK - 1).add(&minted(MINUTE + SLACK - 1 + 5_000, 1), 1).applied();
    world.catalog = after;
    world.at(MINUTE + SLACK).add(&minted(MINUTE + SLACK - 1 + 5_000, 1), 1).replayed();
    world.at(30 * MINUTE).tidy();
    expired(world.add(&minted(MINUTE + SLACK - 1 + 5_000, 1), 1));
}

#[test]
fn an_era_lives_until_the_last_promise_of_its_last_id_is_kept() {
    for (dated, arrived) in [(HOUR, 1), (1, HOUR)] {
        let long = TableSettings {
            dated_window: ms(dated),
            opaque_window: ms(arrived),
            skew: ms(dated.min(MINUTE)),
            ..settings()
        };
        let mut world = World::new(long);
        let before = world.catalog.clone();
        world.change(TableSettings { skew: ms(0), ..windows(1) });
        // Taken by a thread that does not know of the change yet, from the future as far as it may be.
        let after = std::mem::replace(&mut world.catalog, before);
        let last = SLACK - 1;
        let ahead = minted(last + dated.min(MINUTE), 1);
        let first = world.at(last).add(&ahead, 1).fresh().answer;
        let other = world.add(&opaque("order-1"), 1).fresh().answer;
        world.catalog = after;
        if dated > 1 {
            world.at(last + dated.min(MINUTE) + dated).tidy();
            assert_eq!(world.add(&ahead, 1).replayed(), first);
        } else {
            world.at(last + arrived + arrived / 8).tidy();
            assert_eq!(world.add(&opaque("order-1"), 1).replayed(), other);
        }
    }
}

#[test]
fn an_id_taken_under_a_wider_skew_is_answered_under_a_narrower_one() {
    let mut world = World::new(TableSettings { skew: ms(MINUTE), ..windows(HOUR) });
    let first = world.add(&minted(MINUTE, 1), 1).fresh().answer;
    world.change(TableSettings { skew: ms(0), ..windows(HOUR) });
    assert_eq!(world.at(1).add(&minted(MINUTE, 1), 1).replayed(), first);
    assert!(matches!(world.add(&minted(MINUTE, 2), 1).rejected(), Rejection::FromFuture { .. }));
}

#[test]
fn an_exact_era_is_answered_for_exactly_in_a_probabilistic_one() {
    let mut world = World::new(windows(HOUR));
    let first = world.add(&minted(0, 1), 1).fresh().answer;
    let other = world.add(&opaque("order-1"), 1).fresh().answer;
    world.change(probabilistic_windows(HOUR));
    assert_eq!(world.at(HOUR).add(&minted(0, 1), 1).replayed(), first);
    assert_eq!(world.add(&opaque("order-1"), 1).replayed(), other);
    assert_eq!(world.add(&minted(0, 1), 2).rejected(), Rejection::Mismatch);
    world.add(&minted(HOUR, 2), 1).applied();
    assert_eq!(world.add(&minted(HOUR, 2), 1), Verdict::ProbablySeen);
}

#[test]
fn a_probabilistic_era_is_believed_in_an_exact_one() {
    let mut world = World::new(probabilistic_windows(HOUR));
    world.add(&minted(0, 1), 1).applied();
    world.add(&opaque("order-1"), 1).applied();
    world.change(windows(HOUR));
    assert_eq!(world.at(HOUR).add(&minted(0, 1), 1), Verdict::ProbablySeen);
    assert_eq!(world.add(&opaque("order-1"), 1), Verdict::ProbablySeen);
    expired(world.at(HOUR + 1).add(&minted(0, 1), 1));
    world.add(&minted(HOUR, 2), 1).applied();
    world.add(&minted(HOUR, 2), 1).replayed();
}

#[test]
fn a_format_that_was_given_up_and_taken_again_is_still_known() {
    let only = |format| TableSettings { formats: Formats::only(format), ..windows(HOUR) };
    let mut world = World::new(only(Format::Opaque));
    let first = world.add(&opaque("order-1"), 1).fresh().answer;
    world.at(1).change(only(Format::Uuid7));
    assert!(matches!(world.add(&opaque("order-1"), 1).rejected(), Rejection::FormatNotTaken { .. }));
    let dated = world.add(&minted(1, 1), 1).fresh().answer;
    world.at(2).change(only(Format::Opaque));
    assert_eq!(world.add(&opaque("order-1"), 1).replayed(), first);
    world.at(3).change(only(Format::Uuid7).clone());
    assert_eq!(world.add(&minted(1, 1), 1).replayed(), dated);
}

#[test]
fn settings_change_so_often_and_no_oftener_within_what_is_remembered() {
    let mut world = World::new(windows(HOUR));
    for _ in 1..ERAS_MAX {
        world.change(windows(HOUR));
    }
    assert_eq!(world.table().eras().count(), ERAS_MAX);
    let error = world.table().change(windows(HOUR), world.now).unwrap_err();
    assert_eq!(error.setting, "table");
    assert!(error.to_string().contains("wait"), "{error}");
    world.at(2 * HOUR).tidy();
    world.change(windows(HOUR));
    assert_eq!(world.table().eras().count(), 2);
}

/// A start with a clock that is ahead, a change, no entry; then a start with the clock set right.
#[test]
fn a_change_forgets_nothing_by_a_time_that_no_entry_has() {
    let mut world = World::new(windows(HOUR));
    let first = world.add(&opaque("order-1"), 1).fresh().answer;
    let dated = world.add(&minted(0, 1), 1).fresh().answer;
    world.at(1).change(windows(HOUR));
    world.at(1_000 * HOUR).change(windows(HOUR));
    world.at(2);
    assert_eq!(world.add(&opaque("order-1"), 1).replayed(), first);
    assert_eq!(world.add(&minted(0, 1), 1).replayed(), dated);
}

#[test]
fn an_entry_of_an_era_that_is_gone_is_replayed() {
    let mut world = World::new(windows(MINUTE));
    world.add(&minted(0, 1), 1).applied();
    world.add(&opaque("order-1"), 1).applied();
    world.change(windows(2 * MINUTE));
    world.add(&minted(0, 2), 1).applied();
    world.at(HOUR).tidy();
    assert_eq!(world.table().eras().count(), 1);
    let mut replayed = world.replayed();
    assert_eq!(replayed.counter("a"), 3);
    expired(replayed.add(&minted(0, 1), 1));
}

#[test]
fn an_entry_of_an_era_that_is_not_known_yet_is_never_silently_forgotten() {
    let mut world = World::new(windows(HOUR));
    let stale = world.catalog.clone();
    world.change(windows(2 * HOUR));
    world.add(&minted(0, 1), 1).applied();
    world.catalog = stale;
    let replay = std::panic::AssertUnwindSafe(|| world.replayed());
    assert!(std::panic::catch_unwind(replay).is_err(), "an entry of era 2 was replayed into era 1");
}

/// The world with filters that lost everything for want of memory, as they say themselves, and are not to be believed until
/// then.
fn with_lossy_filters(world: &World, until: Timestamp) -> World {
    let mut lossy = world.clone();
    let empty = Catalog::decode(&world.catalog.encode()).unwrap();
    let table = empty.get(TABLE).unwrap().refilled(|era| {
        let mut snapshot = filters_of(era);
        snapshot[..8].copy_from_slice(&until.as_nanos().to_le_bytes());
        era.read_filters(&mut snapshot.as_slice(), world.now)
    });
    lossy.catalog = lossy.catalog.replaced(table.unwrap());
    lossy
}

#[test]
fn a_filter_that_lacks_ids_is_not_believed_where_an_index_knows_them() {
    let mut world = World::new(windows(HOUR));
    let first = world.add(&minted(0, 1), 1).fresh().answer;
    let mut lossy = with_lossy_filters(&world, at(MINUTE));
    lossy.at(MINUTE);
    assert_eq!(lossy.add(&minted(0, 1), 1).replayed(), first);
    assert_eq!(lossy.add(&minted(0, 2), 1).applied(), 2);
    // Through another snapshot, too.
    lossy.checkpoint();
    assert_eq!(lossy.recovered().add(&minted(0, 1), 1).replayed(), first);
}

#[test]
fn a_filter_that_lacks_ids_refuses_where_nobody_else_knows_them() {
    let mut world = World::new(probabilistic_windows(HOUR));
    world.add(&minted(0, 1), 1).applied();
    let mut lossy = with_lossy_filters(&world, at(MINUTE));
    for id in [minted(0, 1), minted(0, 2)] {
        assert_eq!(lossy.at(MINUTE).add(&id, 1).rejected(), Rejection::Capacity { what: "ids" });
    }
    assert_eq!(lossy.add(&opaque("order-1"), 1).applied(), 2, "opaque ids have a filter of their own");
    lossy.at(MINUTE + 1).add(&minted(0, 2), 1).applied();
    // An exact era before knows its own.
    let mut world = World::new(windows(HOUR));
    let first = world.add(&minted(0, 1), 1).fresh().answer;
    world.change(probabilistic_windows(HOUR));
    let mut lossy = with_lossy_filters(&world, at(MINUTE));
    assert_eq!(lossy.at(MINUTE).add(&minted(0, 1), 1).replayed(), first);
}

/// The share of new ids that a probabilistic table takes for known ones is at most its target.
#[test]
fn few_new_ids_are_taken_for_known_ones() {
    const IDS: u64 = 40_000;
    for (kind, target) in [("dated", 0.01), ("opaque", 0.01), ("dated", 0.001), ("opaque", 0.001)] {
        let table = TableSettings { expected_ids: IDS, ..probabilistic(target) };
        let mut world = World::new(table);
        let mut lost = 0u32;
        for number in 0..IDS {
            let millis = number * MINUTE / IDS;
            world.at(millis);
            let id = if kind == "dated" { minted(millis, number) } else { opaque(&number.to_string()) };
            match world.add(&id, 1) {
                Verdict::Fresh(_) => assert_eq!(world.add(&id, 1), Verdict::ProbablySeen),
                Verdict::ProbablySeen => lost += 1,
                other => panic!("{other:?}"),
            }
        }
        let (expected, spread) = (IDS as f64 * target, (IDS as f64 * target).sqrt());
        assert!(f64::from(lost) <= expected + 4.0 * spread, "{kind}: {lost} lost, {expected} allowed");
        assert_eq!(world.counter("a"), (IDS - u64::from(lost)) as i64);
    }
}

/// Every new id of an exact table counts, also those that the filter takes for known ones.
#[test]
fn an_exact_table_loses_nothing_to_its_filter() {
    let mut world = World::new(settings());
    for number in 0..5_000u64 {
        world.at(number).add(&minted(number, number), 1).applied();
        world.add(&opaque(&number.to_string()), 1).applied();
    }
    assert_eq!(world.counter("a"), 10_000);
}

/// What can happen to a table.
#[derive(Debug, Clone)]
enum Event {
    /// So much real time passes; the wall clock leaps, or stands still.
    Wait {
        millis: u64,
        fast: bool,
    },
    /// A new id, dated so far back, or ahead if negative.
    Dated {
        age: i64,
    },
    Opaque,
    /// An id of before, picked by its number from the latest.
    Retry {
        back: usize,
    },
    Change(Box<TableSettings>),
    Tidy,
    Checkpoint,
    Crash {
        with_checkpoint: bool,
    },
}

fn any_window() -> impl Strategy<Value = Duration> {
    prop::sample::select(vec![1, 30_000, 2 * MINUTE, 10 * MINUTE, HOUR]).prop_map(ms)
}

fn any_settings() -> impl Strategy<Value = Box<TableSettings>> {
    let skews = prop::sample::select(vec![0, 1_000, MINUTE, 20 * MINUTE]);
    let formats = prop::sample::select(vec![
        every_format(),
        every_format(),
        Formats::only(Format::Uuid7),
        Formats::only(Format::Opaque),
    ]);
    let modes = prop::sample::select(vec![
        Mode::Exact,
        Mode::Exact,
        Mode::Probabilistic { target: 1e-4 },
        Mode::Probabilistic { target: 1e-6 },
    ]);
    (any_window(), any_window(), skews, formats, modes).prop_map(|(dated, arrived, skew, formats, mode)| {
        Box::new(TableSettings {
            dated_window: dated,
            opaque_window: arrived,
            skew: ms(skew).min(dated),
            formats,
            mode,
            expected_ids: 10,
            ..settings()
        })
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let waits = prop_oneof![0..1_000u64, 0..2 * MINUTE, 0..20 * MINUTE, 0..2 * HOUR];
    let ages = prop_oneof![Just(0i64), -70_000..70_000i64, -1_200_000..4_000_000i64];
    prop_oneof![
        6 => (waits, any::<bool>()).prop_map(|(millis, fast)| Event::Wait { millis, fast }),
        5 => ages.prop_map(|age| Event::Dated { age }),
        4 => Just(Event::Opaque),
        10 => (0..12usize).prop_map(|back| Event::Retry { back }),
        3 => any_settings().prop_map(Event::Change),
        2 => Just(Event::Tidy),
        1 => Just(Event::Checkpoint),
        1 => any::<bool>().prop_map(|with_checkpoint| Event::Crash { with_checkpoint }),
    ]
}

/// What was promised of an id when it was taken.
#[derive(Debug)]
struct Promise {
    id: OpId,
    taken: Option<Taken>,
}

#[derive(Debug)]
struct Taken {
    verdict: Verdict,
    /// Real time, and the settings of then.
    real: Duration,
    settings: TableSettings,
}

impl Taken {
    /// Whether a retry must be known.
    fn binds(&self, id: &OpId, real: Duration, now: Timestamp) -> bool {
        match id.dated() {
            Some(dated) => now.since(dated) <= self.settings.dated_window,
            None => real - self.real <= self.settings.opaque_window,
        }
    }
}

/// The whole milliseconds of a time, as the log has them.
fn whole(now: Timestamp) -> Timestamp {
    Timestamp::from_millis(now.as_nanos() / 1_000_000)
}

fn live(events: Vec<Event>) {
    let mut world = World::new(settings());
    let mut time = StoreClock::begin(at(0), Timestamp::ZERO, Duration::ZERO);
    let (mut real, mut ids) = (Duration::ZERO, Vec::<Promise>::new());
    let mut shortest = settings().dated_window;
    let mut narrowest = settings().skew;
    let mut only_exact = true;
    for event in events {
        let asked = match event {
            Event::Wait { millis, fast } => {
                real += ms(millis);
                // An honest clock, or one that leapt far ahead.
                let wall = if fast { at(1 << 40) } else { at(0).after(real) };
                world.now = time.advance(wall, real);
                continue;
            }
            Event::Change(settings) => {
                if let Ok(table) = world.table().change(*settings.clone(), world.now) {
                    world.catalog = world.catalog.replaced(table);
                    shortest = shortest.min(settings.dated_window);
                    narrowest = narrowest.min(settings.skew);
                    only_exact &= settings.mode == Mode::Exact;
                }
                continue;
            }
            Event::Tidy => {
                world.tidy();
                continue;
            }
            Event::Checkpoint => {
                world.checkpoint();
                continue;
            }
            Event::Crash { with_checkpoint } => {
                world = if with_checkpoint { world.recovered() } else { world.replayed() };
                continue;
            }
            Event::Dated { age } => {
                let dated = (world.now.as_nanos() / 1_000_000).saturating_add_signed(-age);
                ids.push(Promise { id: minted_at(dated, ids.len() as u64), taken: None });
                ids.len() - 1
            }
            Event::Opaque => {
                ids.push(Promise { id: opaque(&format!("order-{}", ids.len())), taken: None });
                ids.len() - 1
            }
            Event::Retry { back } if back < ids.len() => ids.len() - 1 - back,
            Event::Retry { .. } => continue,
        };
        let Promise { id, taken } = &mut ids[asked];
        let (present, now) = (world.table().settings().clone(), whole(world.now));
        let verdict = world.add(id, 1);
        match taken {
            Some(taken) if id.dated().is_some() || taken.binds(id, real, now) => {
                assert!(!is_fresh(&verdict), "{id} counts twice: {taken:?}, then {verdict:?}");
                let Verdict::Fresh(first) = &taken.verdict else { unreachable!() };
                if taken.binds(id, real, now) && present.formats.contains(id.format()) {
                    let known = match taken.settings.mode {
                        Mode::Exact => verdict == Verdict::Replay(first.answer.clone()),
                        Mode::Probabilistic { .. } => verdict == Verdict::ProbablySeen,
                    };
                    assert!(known, "{id} is not known: {taken:?}, then {verdict:?}");
                }
            }
            // An opaque id after its window may count again, and then is promised anew.
            Some(_) | None => {
                let in_time = id
                    .dated()
                    .is_none_or(|dated| now.since(dated) <= shortest && dated <= now.after(narrowest));
                let honest = taken.is_none() && present.formats.contains(id.format()) && in_time;
                if honest && only_exact {
                    assert!(is_fresh(&verdict), "{id} is new and not taken: {verdict:?}");
                }
                if is_fresh(&verdict) {
                    *taken = Some(Taken { verdict, real, settings: present });
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Under any changes of the settings, crashes and clocks: a dated id counts at most once ever, an opaque one at most once
    /// within the window that was promised when it counted; a retry within that window gets the first answer; and a new id
    /// that is within every window there ever was is taken.
    #[test]
    fn whatever_is_changed_every_promise_is_kept(events in prop::collection::vec(any_event(), 1..80)) {
        live(events);
    }
}
