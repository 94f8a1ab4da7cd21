//! Settings change while ids are in flight: every window is kept, and no id counts twice.

use crate::common::*;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn windows(millis: u64) -> TableSettings {
    TableSettings { dated_window: ms(millis), opaque_window: ms(millis), ..settings() }
}

/// Probabilistic, with few false positives.
fn probabilistic_windows(millis: u64) -> TableSettings {
    TableSettings { mode: Mode::Probabilistic { target: 1e-6 }, ..windows(millis) }
}

#[track_caller]
fn expired(verdict: Verdict) {
    let rejection = verdict.rejected();
    assert!(matches!(rejection, Rejection::Expired { .. }), "{rejection:?}");
}

#[test]
fn a_longer_window_refuses_ids_expired_before_it() {
    let mut world = World::new(windows(HOUR));
    world.add(&uuid7(0, 1), 1).applied();
    world.at(2 * HOUR).change(windows(10 * HOUR));
    expired(world.at(2 * HOUR).add(&uuid7(0, 1), 1));
    world.at(9 * HOUR).tidy();
    expired(world.add(&uuid7(0, 1), 1));
}

#[test]
fn a_longer_window_refuses_ids_that_expire_later() {
    let mut world = World::new(windows(HOUR));
    world.add(&uuid7(0, 1), 1).applied();
    world.at(HOUR / 2).change(windows(10 * HOUR));
    world.at(HOUR).add(&uuid7(0, 1), 1).replayed();
    assert!(!is_fresh(&world.at(HOUR + 1).add(&uuid7(0, 1), 1)));
    for later in [2 * HOUR, 3 * HOUR, 9 * HOUR] {
        expired(world.at(later).add(&uuid7(0, 1), 1));
    }
    world.tidy();
    assert_eq!(world.table().eras().count(), 1, "the first era has expired");
    expired(world.at(10 * HOUR).add(&uuid7(0, 1), 1));
    assert_eq!(world.counter("a"), 1);
}

#[test]
fn ids_dated_before_a_change_keep_their_window() {
    let mut world = World::new(windows(HOUR));
    world.at(HOUR / 2).change(windows(10 * HOUR));
    world.at(HOUR).add(&uuid7(0, 1), 1).applied();
    expired(world.at(HOUR + 1).add(&uuid7(0, 2), 1));
    // For ids dated after the change the new window applies.
    let after = HOUR / 2 + SLACK + 5_000;
    world.at(after + 10 * HOUR).add(&uuid7(after, 3), 1).applied();
}

#[test]
fn a_shorter_window_still_answers_earlier_ids() {
    let mut world = World::new(windows(10 * HOUR));
    let first = world.add(&uuid7(0, 1), 1).fresh().answer;
    let opaque_first = world.add(&opaque("order-1"), 1).fresh().answer;
    world.at(HOUR).change(windows(HOUR));
    for later in [HOUR, 2 * HOUR + 1, 5 * HOUR, 10 * HOUR] {
        world.at(later).tidy();
        assert_eq!(world.add(&uuid7(0, 1), 1).replayed(), first);
        assert_eq!(world.add(&opaque("order-1"), 1).replayed(), opaque_first);
        // A new id of that age is rejected.
        if later > HOUR {
            expired(world.add(&uuid7(0, 2), 1));
        }
    }
    expired(world.at(10 * HOUR + 1).add(&uuid7(0, 1), 1));
    assert_eq!(world.counter("a"), 2);
}

#[test]
fn a_dropped_short_era_still_counts() {
    let mut world = World::new(windows(5 * HOUR));
    world.at(HOUR).change(windows(MINUTE));
    world.at(HOUR + 1).add(&uuid7(HOUR + 1, 1), 1).applied();
    world.at(HOUR + 2).change(windows(9 * HOUR));
    // The middle era expires first.
    world.at(3 * HOUR).tidy();
    expired(world.add(&uuid7(HOUR + 1, 1), 1));
    world.at(8 * HOUR).tidy();
    assert_eq!(world.table().eras().count(), 1, "both have expired");
    expired(world.add(&uuid7(HOUR + 1, 1), 1));
    assert_eq!(world.counter("a"), 1);
}

#[test]
fn a_short_era_does_not_affect_later_ids() {
    // A wide skew: the first era may have accepted ids dated an hour ahead.
    let mut world = World::new(TableSettings { skew: ms(HOUR), ..windows(5 * HOUR) });
    world.change(TableSettings { skew: ms(0), ..windows(1) });
    world.at(1).change(windows(2 * HOUR));
    let after = 2 * SLACK;
    for (number, later) in [after, after + MINUTE, after + HOUR].into_iter().enumerate() {
        world.at(later).tidy();
        world.add(&uuid7(after, number as u64), 1).applied();
    }
}

#[test]
fn a_change_belongs_to_the_era_before() {
    // Threads that do not see the change yet accept ids into the era before.
    let mut world = World::new(windows(MINUTE));
    let before = world.catalog.clone();
    world.at(MINUTE).change(windows(HOUR));
    let after = std::mem::replace(&mut world.catalog, before);
    world.at(MINUTE + SLACK - 1).add(&uuid7(MINUTE + SLACK - 1 + 5_000, 1), 1).applied();
    world.catalog = after;
    world.at(MINUTE + SLACK).add(&uuid7(MINUTE + SLACK - 1 + 5_000, 1), 1).replayed();
    world.at(30 * MINUTE).tidy();
    expired(world.add(&uuid7(MINUTE + SLACK - 1 + 5_000, 1), 1));
}

#[test]
fn an_era_exists_until_its_last_record_expires() {
    for (dated, opaque_window) in [(HOUR, 1), (1, HOUR)] {
        let skew = dated.min(MINUTE);
        let mut world = World::new(TableSettings {
            dated_window: ms(dated),
            opaque_window: ms(opaque_window),
            skew: ms(skew),
            ..settings()
        });
        let before = world.catalog.clone();
        world.change(TableSettings { skew: ms(0), ..windows(1) });
        // Accepted by a thread that does not see the change yet, dated as far ahead as possible.
        let after = std::mem::replace(&mut world.catalog, before);
        let last = SLACK - 1;
        let ids = [uuid7(last + skew, 1), opaque("order-1")];
        let first = ids.clone().map(|id| world.at(last).add(&id, 1).fresh().answer);
        world.catalog = after;
        let (at, end) = if dated > 1 { (0, skew + dated) } else { (1, opaque_window + opaque_window / 8) };
        world.at(last + end).tidy();
        assert_eq!(world.add(&ids[at], 1).replayed(), first[at]);
    }
}

#[test]
fn ids_of_a_wider_skew_are_answered_under_a_narrower_one() {
    let mut world = World::new(TableSettings { skew: ms(MINUTE), ..windows(HOUR) });
    let first = world.add(&uuid7(MINUTE, 1), 1).fresh().answer;
    world.change(TableSettings { skew: ms(0), ..windows(HOUR) });
    assert_eq!(world.at(1).add(&uuid7(MINUTE, 1), 1).replayed(), first);
    assert!(matches!(world.add(&uuid7(MINUTE, 2), 1).rejected(), Rejection::FromFuture { .. }));
}

#[test]
fn an_exact_era_stays_exact_in_a_probabilistic_table() {
    let mut world = World::new(windows(HOUR));
    let first = world.add(&uuid7(0, 1), 1).fresh().answer;
    let other = world.add(&opaque("order-1"), 1).fresh().answer;
    world.change(probabilistic_windows(HOUR));
    assert_eq!(world.at(HOUR).add(&uuid7(0, 1), 1).replayed(), first);
    assert_eq!(world.add(&opaque("order-1"), 1).replayed(), other);
    assert_eq!(world.add(&uuid7(0, 1), 2).rejected(), Rejection::Mismatch);
    world.add(&uuid7(HOUR, 2), 1).applied();
    assert_eq!(world.add(&uuid7(HOUR, 2), 1), Verdict::ProbablySeen);
}

#[test]
fn a_probabilistic_era_counts_in_an_exact_table() {
    let mut world = World::new(probabilistic_windows(HOUR));
    world.add(&uuid7(0, 1), 1).applied();
    world.add(&opaque("order-1"), 1).applied();
    world.change(windows(HOUR));
    assert_eq!(world.at(HOUR).add(&uuid7(0, 1), 1), Verdict::ProbablySeen);
    assert_eq!(world.add(&opaque("order-1"), 1), Verdict::ProbablySeen);
    expired(world.at(HOUR + 1).add(&uuid7(0, 1), 1));
    world.add(&uuid7(HOUR, 2), 1).applied();
    world.add(&uuid7(HOUR, 2), 1).replayed();
}

#[test]
fn a_format_dropped_and_accepted_again_keeps_its_ids() {
    let only = |format| TableSettings { formats: Formats::only(format), ..windows(HOUR) };
    let mut world = World::new(only(Format::Opaque));
    let first = world.add(&opaque("order-1"), 1).fresh().answer;
    world.at(1).change(only(Format::Uuid7));
    assert!(matches!(world.add(&opaque("order-1"), 1).rejected(), Rejection::FormatNotTaken { .. }));
    let dated = world.add(&uuid7(1, 1), 1).fresh().answer;
    world.at(2).change(only(Format::Opaque));
    assert_eq!(world.add(&opaque("order-1"), 1).replayed(), first);
    world.at(3).change(only(Format::Uuid7));
    assert_eq!(world.add(&uuid7(1, 1), 1).replayed(), dated);
}

#[test]
fn changes_within_the_window_are_limited() {
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

/// A start with a clock that is ahead, a change without an entry; then a start with a correct clock.
#[test]
fn a_change_drops_no_era_by_clock_time() {
    let mut world = World::new(windows(HOUR));
    let first = world.add(&opaque("order-1"), 1).fresh().answer;
    let dated = world.add(&uuid7(0, 1), 1).fresh().answer;
    world.at(1).change(windows(HOUR));
    world.at(1_000 * HOUR).change(windows(HOUR));
    world.at(2);
    assert_eq!(world.add(&opaque("order-1"), 1).replayed(), first);
    assert_eq!(world.add(&uuid7(0, 1), 1).replayed(), dated);
}

#[test]
fn an_entry_of_a_dropped_era_is_replayed() {
    let mut world = World::new(windows(MINUTE));
    world.add(&uuid7(0, 1), 1).applied();
    world.add(&opaque("order-1"), 1).applied();
    world.change(windows(2 * MINUTE));
    world.add(&uuid7(0, 2), 1).applied();
    world.at(HOUR).tidy();
    assert_eq!(world.table().eras().count(), 1);
    let mut replayed = world.replayed();
    assert_eq!(replayed.counter("a"), 3);
    expired(replayed.add(&uuid7(0, 1), 1));
}

/// The world with filters that lost all ids for lack of memory and are not trusted until `until`.
fn with_lossy_filters(world: &World, until: Timestamp) -> World {
    let mut lossy = world.clone();
    let empty = Catalog::decode(&world.catalog.encode()).unwrap();
    let snapshot = |era: &std::sync::Arc<Era>| {
        let mut snapshot = filters_of(era);
        snapshot[..8].copy_from_slice(&until.as_nanos().to_le_bytes());
        (era.number, snapshot)
    };
    let filters = empty.get(TABLE).unwrap().eras().map(snapshot).collect();
    let restored =
        Catalog::restore(&world.catalog.encode(), &Budget::default(), world.now, &Filters(&filters));
    lossy.catalog = restored.unwrap();
    lossy
}

#[test]
fn an_incomplete_filter_defers_to_the_index() {
    let mut world = World::new(windows(HOUR));
    let first = world.add(&uuid7(0, 1), 1).fresh().answer;
    let mut lossy = with_lossy_filters(&world, at(MINUTE));
    lossy.at(MINUTE);
    assert_eq!(lossy.add(&uuid7(0, 1), 1).replayed(), first);
    assert_eq!(lossy.add(&uuid7(0, 2), 1).applied(), 2);
    // Through another snapshot too.
    lossy.checkpoint();
    assert_eq!(lossy.recovered().add(&uuid7(0, 1), 1).replayed(), first);
}

#[test]
fn an_incomplete_filter_without_index_refuses() {
    let mut world = World::new(probabilistic_windows(HOUR));
    world.add(&uuid7(0, 1), 1).applied();
    let mut lossy = with_lossy_filters(&world, at(MINUTE));
    for id in [uuid7(0, 1), uuid7(0, 2)] {
        assert_eq!(lossy.at(MINUTE).add(&id, 1).rejected(), Rejection::Capacity { what: "ids" });
    }
    assert_eq!(lossy.add(&opaque("order-1"), 1).applied(), 2, "opaque ids have a filter of their own");
    lossy.at(MINUTE + 1).add(&uuid7(0, 2), 1).applied();
    // An earlier exact era still has its index.
    let mut world = World::new(windows(HOUR));
    let first = world.add(&uuid7(0, 1), 1).fresh().answer;
    world.change(probabilistic_windows(HOUR));
    let mut lossy = with_lossy_filters(&world, at(MINUTE));
    assert_eq!(lossy.at(MINUTE).add(&uuid7(0, 1), 1).replayed(), first);
}

/// The false-positive rate of a probabilistic table is at most its target.
#[test]
fn false_positives_are_rare() {
    const IDS: u64 = 40_000;
    for (kind, target) in [("dated", 0.01), ("opaque", 0.01), ("dated", 0.001), ("opaque", 0.001)] {
        let mut world = World::new(TableSettings { expected_ids: IDS, ..probabilistic(target) });
        let mut lost = 0u32;
        for number in 0..IDS {
            let millis = number * MINUTE / IDS;
            world.at(millis);
            let id = if kind == "dated" { uuid7(millis, number) } else { opaque(&number.to_string()) };
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

/// Every new id of an exact table counts, also on a false positive of the filter.
#[test]
fn an_exact_table_drops_no_new_id() {
    let mut world = World::new(settings());
    for number in 0..5_000u64 {
        world.at(number).add(&uuid7(number, number), 1).applied();
        world.add(&opaque(&number.to_string()), 1).applied();
    }
    assert_eq!(world.counter("a"), 10_000);
}

/// Events of a table.
#[derive(Debug, Clone)]
enum Event {
    /// Milliseconds of real time pass, and the wall clock may jump far ahead.
    Wait(u64, bool),
    /// A new id of this age in milliseconds; a negative one is dated ahead.
    Dated(i64),
    Opaque,
    /// An earlier id, counted from the latest.
    Retry(usize),
    Change(Box<TableSettings>),
    Maintain(Maintenance),
}

fn any_window() -> impl Strategy<Value = Duration> {
    prop::sample::select(vec![1, 30_000, 2 * MINUTE, 10 * MINUTE, HOUR]).prop_map(ms)
}

fn any_settings() -> impl Strategy<Value = Box<TableSettings>> {
    let skews = prop::sample::select(vec![0, 1_000, MINUTE, 20 * MINUTE]);
    let (dated, opaque) = (Formats::only(Format::Uuid7), Formats::only(Format::Opaque));
    let formats = prop_oneof![2 => Just(every_format()), 1 => Just(dated), 1 => Just(opaque)];
    let target = prop::sample::select(vec![1e-4, 1e-6]);
    let modes = prop_oneof![Just(Mode::Exact), target.prop_map(|target| Mode::Probabilistic { target })];
    let windows = (any_window(), any_window(), skews);
    (windows, formats, modes).prop_map(|((dated_window, opaque_window, skew), formats, mode)| {
        let skew = ms(skew).min(dated_window);
        let windows = TableSettings { dated_window, opaque_window, skew, ..settings() };
        Box::new(TableSettings { formats, mode, expected_ids: 10, ..windows })
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let waits = prop_oneof![0..1_000u64, 0..2 * MINUTE, 0..20 * MINUTE, 0..2 * HOUR];
    let ages = prop_oneof![Just(0i64), -70_000..70_000i64, -1_200_000..4_000_000i64];
    prop_oneof![
        6 => (waits, any::<bool>()).prop_map(|(millis, fast)| Event::Wait(millis, fast)),
        5 => ages.prop_map(Event::Dated),
        4 => Just(Event::Opaque),
        10 => (0..12usize).prop_map(Event::Retry),
        3 => any_settings().prop_map(Event::Change),
        4 => any_maintenance().prop_map(Event::Maintain),
    ]
}

/// An id that was accepted as new.
#[derive(Debug)]
struct Accepted {
    answer: OperationResult,
    /// Real time, and the settings then.
    real: Duration,
    settings: TableSettings,
}

impl Accepted {
    /// Whether a retry must be recognised.
    fn binds(&self, id: &OpId, real: Duration, now: Timestamp) -> bool {
        match id.dated() {
            Some(dated) => now.since(dated) <= self.settings.dated_window,
            None => real - self.real <= self.settings.opaque_window,
        }
    }
}

fn run(events: Vec<Event>) {
    let mut world = world();
    let mut time = StoreClock::begin(at(0), Timestamp::ZERO, Duration::ZERO);
    let (mut real, mut ids) = (Duration::ZERO, Vec::<(OpId, Option<Accepted>)>::new());
    let (mut shortest, mut narrowest, mut only_exact) = (ms(WINDOW), ms(SKEW), true);
    for event in events {
        let submitted = match event {
            Event::Wait(millis, fast) => {
                real += ms(millis);
                let wall = if fast { at(1 << 40) } else { at(0).after(real) };
                world.now = time.advance(wall, real);
                continue;
            }
            Event::Change(settings) => {
                if world.try_change(*settings.clone()).is_ok() {
                    shortest = shortest.min(settings.dated_window);
                    narrowest = narrowest.min(settings.skew);
                    only_exact &= settings.mode == Mode::Exact;
                }
                continue;
            }
            Event::Maintain(maintenance) => {
                world.maintain(maintenance);
                continue;
            }
            Event::Dated(age) => {
                let dated = (world.now.as_nanos() / 1_000_000).saturating_add_signed(-age);
                ids.push((uuid7_at(dated, ids.len() as u64), None));
                ids.len() - 1
            }
            Event::Opaque => {
                ids.push((opaque(&format!("order-{}", ids.len())), None));
                ids.len() - 1
            }
            Event::Retry(back) if back < ids.len() => ids.len() - 1 - back,
            Event::Retry(_) => continue,
        };
        let (id, accepted) = &mut ids[submitted];
        let present = world.table().settings().clone();
        // In whole milliseconds, as in the log.
        let now = Timestamp::from_millis(world.now.as_nanos() / 1_000_000);
        let verdict = world.add(id, 1);
        match accepted {
            Some(first) if id.dated().is_some() || first.binds(id, real, now) => {
                assert!(!is_fresh(&verdict), "{id} counts twice: {first:?}, then {verdict:?}");
                if first.binds(id, real, now) && present.formats.contains(id.format()) {
                    let known = match first.settings.mode {
                        Mode::Exact => Verdict::Replay(first.answer.clone()),
                        Mode::Probabilistic { .. } => Verdict::ProbablySeen,
                    };
                    assert_eq!(verdict, known, "{id} is not known: {first:?}");
                }
            }
            // An opaque id may count again after its window, and then has a new window.
            Some(_) | None => {
                let in_time = id
                    .dated()
                    .is_none_or(|dated| now.since(dated) <= shortest && dated <= now.after(narrowest));
                let valid = accepted.is_none() && present.formats.contains(id.format()) && in_time;
                if valid && only_exact {
                    assert!(is_fresh(&verdict), "{id} is new and not accepted: {verdict:?}");
                }
                if let Verdict::Fresh(decision) = verdict {
                    *accepted = Some(Accepted { answer: decision.answer, real, settings: present });
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Under any changes of settings, crashes and clocks: a dated id counts at most once ever, an opaque one
    /// at most once within the window at its use; a retry within that window gets the first result; and a new
    /// id that is within every window there ever was is accepted.
    #[test]
    fn every_window_is_kept_under_any_changes(events in prop::collection::vec(any_event(), 1..80)) {
        run(events);
    }
}

/// The change was made by a store whose clock is behind, and is adopted later.
#[test]
fn an_era_ends_when_the_change_is_adopted() {
    for taken_over in [false, true] {
        let mut world = World::new(windows(HOUR));
        let changed = world.catalog.find("clicks").unwrap().change(windows(10 * HOUR), at(MINUTE)).unwrap();
        let elsewhere = world.catalog.replaced(changed).encode();
        let ids = [uuid7(3 * HOUR, 1), opaque("order-1")];
        let first = ids.clone().map(|id| world.at(3 * HOUR).add(&id, 1).fresh().answer);
        world.catalog = if taken_over {
            // By a node that had the change before it replayed these.
            let changed = Catalog::default().adopt(&elsewhere, at(0)).unwrap();
            world.catalog = changed;
            let replayed = world.replayed();
            assert_eq!(replayed.table().eras().count(), 2);
            world = replayed;
            world.catalog.taken_over_at(at(3 * HOUR))
        } else {
            world.catalog.adopt(&elsewhere, at(3 * HOUR)).unwrap()
        };
        for later in [3 * HOUR, 3 * HOUR + HOUR / 2, 4 * HOUR] {
            for (id, first) in ids.iter().zip(&first) {
                assert_eq!(&world.at(later).add(id, 1).replayed(), first);
            }
        }
        // The record has expired, and the window of the new era has not.
        world.at(6 * HOUR).tidy();
        assert_eq!(world.table().eras().count(), 1);
        expired(world.add(&ids[0], 1));
        world.add(&uuid7(6 * HOUR, 2), 1).applied();
        // A later version of the catalogue does not shorten what the store knows.
        world.catalog = world.catalog.adopt(&elsewhere, at(6 * HOUR)).unwrap();
        expired(world.add(&ids[0], 1));
    }
}
