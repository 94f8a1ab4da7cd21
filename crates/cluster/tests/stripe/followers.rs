//! Followers: they replay what the owner pushes or the registers have, and take over without a reload.

use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_cluster::{NotPromoted, PromoteError};
use jeton_engine::{Ask, BlobStore, EngineError, OperationOutcome, Options};
use jeton_register::memory::{Faults, MemoryRegisters};
use jeton_register::{LogId, Registers};
use jeton_testkit::Rng;

use super::node::{Node, STRIPE, Standby};

/// Upper bound of every wait, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

fn owner(registers: &MemoryRegisters) -> Node<MemoryRegisters> {
    Node::open(registers.clone(), 1).with_table()
}

fn frames(registers: &MemoryRegisters) -> u64 {
    block_on(registers.extent(LogId::stripe(STRIPE))).unwrap().last.0
}

#[test]
fn a_follower_of_pushed_frames_takes_over() {
    let registers = MemoryRegisters::new();
    let first = owner(&registers);
    let mut standby = Standby::open(registers.clone(), 2);
    let mut pushed = first.log.subscribe();
    let cells = first.cells(5);
    let operations: Vec<_> = (0..40).map(|n| first.addition(&cells[n as usize % 5], n)).collect();
    let results: Vec<_> = operations.iter().map(|operation| first.apply(operation).unwrap()).collect();
    for _ in 0..40 {
        let (slot, frame) = pushed.blocking_recv().unwrap();
        assert!(standby.follower.accept(slot, &frame).unwrap(), "{slot}");
        assert!(!standby.follower.accept(slot, &frame).unwrap(), "{slot} is known");
    }
    // It serves nobody, and its chain is the owner's.
    let engine = standby.follower.engine();
    assert_eq!(block_on(engine.apply(operations[0].clone())), Err(EngineError::Moved));
    assert_eq!(block_on(engine.get(cells[0].clone())), Err(EngineError::Moved));
    let asks = operations.iter().take(3).cloned().map(Ask::Apply).collect();
    let moved = jeton_engine::Response::Applied(Err(EngineError::Moved));
    assert_eq!(block_on(engine.submit_batch(asks)), vec![moved; 3]);
    let before = frames(&registers);
    assert_eq!(standby.follower.chain().next().0, before + 1);

    let second = standby.promote();
    assert_eq!((second.log.term().0, frames(&registers)), (before + 1, before + 1));
    assert_eq!(second.total(&cells), 40);
    for (operation, result) in operations.iter().zip(results) {
        let OperationOutcome::Fresh(result) = result else { panic!("{result:?}") };
        assert_eq!(second.apply(operation), Ok(OperationOutcome::Replayed(result)));
    }
    let next = second.addition(&cells[0], 40);
    assert_eq!(first.apply(&next), Err(EngineError::Closed));
    assert!(matches!(second.apply(&next), Ok(OperationOutcome::Fresh(_))));
    assert_eq!(second.total(&cells), 41);
    assert_eq!(pushed.try_recv().ok(), None, "nothing that is not durable");
}

#[test]
fn a_gap_between_pushed_frames_is_read() {
    let registers = MemoryRegisters::new();
    let first = owner(&registers);
    let mut standby = Standby::open(registers.clone(), 2);
    let mut pushed = first.log.subscribe();
    let cells = first.cells(1);
    (0..3).for_each(|number| drop(first.apply(&first.addition(&cells[0], number)).unwrap()));
    let received: Vec<_> = (0..3).map(|_| pushed.blocking_recv().unwrap()).collect();
    for (slot, frame) in [&received[1], &received[2], &received[0], &received[2]] {
        let follows = *slot == received[0].0;
        assert_eq!(standby.follower.accept(*slot, frame).unwrap(), follows, "{slot}");
    }
    standby.follower.catch_up().unwrap();
    assert_eq!(standby.follower.chain().next(), received[2].0.next());
    assert_eq!(standby.promote().total(&cells), 3);
}

/// The queue of a subscriber is limited.
#[test]
fn a_subscriber_that_lags_behind_is_dropped() {
    let first = owner(&MemoryRegisters::new());
    let cell = first.cells(1).remove(0);
    let mut pushed = first.log.subscribe();
    (0..100).for_each(|number| drop(first.apply(&first.addition(&cell, number)).unwrap()));
    let received = std::iter::from_fn(|| pushed.try_recv().ok()).count();
    assert_eq!((received, pushed.is_closed()), (64, true));
}

#[test]
fn a_follower_gives_up_if_there_is_another_owner() {
    let registers = MemoryRegisters::new();
    let first = owner(&registers);
    let cell = first.cells(1).remove(0);
    let mut standby = Standby::open(registers.clone(), 2);
    let suspected = standby.follower.chain().owner();
    assert!(suspected.is_some());
    let third = Standby::open(registers.clone(), 3).promote();
    let before = frames(&registers);
    for wrong in [suspected, None] {
        let NotPromoted { follower, why } = standby.follower.promote(wrong).map(drop).unwrap_err();
        let PromoteError::GaveUp(Some(found)) = why else { panic!("{why}") };
        assert_eq!(found.node.0, 3);
        standby.follower = *follower;
    }
    assert_eq!(frames(&registers), before, "it has written nothing");
    assert_eq!(block_on(third.log.prove()), Ok(()));
    third.apply(&third.addition(&cell, 1)).unwrap();
    assert_eq!(standby.promote().total(&[cell]), 1, "it is still a follower");
}

#[test]
fn a_stripe_that_was_yielded_has_no_owner() {
    let registers = MemoryRegisters::new();
    let first = owner(&registers);
    let cell = first.cells(1).remove(0);
    first.apply(&first.addition(&cell, 1)).unwrap();
    let mut standby = Standby::open(registers, 2);
    let mut pushed = first.log.subscribe();
    assert_eq!(block_on(first.log.yield_to(jeton_cluster::NodeId(2))), Ok(()));
    let (slot, frame) = pushed.blocking_recv().unwrap();
    assert!(standby.follower.accept(slot, &frame).unwrap());
    assert_eq!(standby.follower.chain().owner(), None);
    let (log, engine) = standby.follower.promote(None).unwrap();
    let second = Node { log, engine, folder: standby.folder };
    assert_eq!(second.total(&[cell]), 1);
}

#[test]
fn an_idle_owner_proves_and_notices_a_new_owner() {
    let registers = MemoryRegisters::new();
    let first = owner(&registers);
    first.log.set_proof_interval(Duration::from_millis(5));
    assert_eq!(block_on(first.log.prove()), Ok(()));
    let (before, started) = (frames(&registers), Instant::now());
    while frames(&registers) < before + 2 {
        assert!(started.elapsed() < TIMEOUT, "an idle owner writes nothing");
        std::thread::yield_now();
    }
    let mut standby = Standby::open(registers, 2);
    let suspected = standby.follower.chain().owner();
    let second = loop {
        match standby.follower.promote(suspected) {
            Ok(owner) => break owner,
            // The owner has proved that it is alive.
            Err(NotPromoted { follower, .. }) => standby.follower = *follower,
        }
    };
    while !first.log.is_deposed() {
        assert!(started.elapsed() < TIMEOUT, "it does not notice the new owner");
        std::thread::yield_now();
    }
    assert!(!second.0.is_deposed());
}

/// The ids of a batch that did not become durable are in its memtables and filters when the owner is deposed.
#[test]
fn a_deposed_owner_follows_without_what_was_lost() {
    let registers = MemoryRegisters::new();
    let set = |options: &mut Options| options.recent_ids = 64;
    let first = Node::open_in(tempfile::tempdir().unwrap(), registers.clone(), 1, set).with_table();
    let (cells, standby) = (first.cells(2), Standby::open(registers.clone(), 2));
    let counted: Vec<_> = (0..100).map(|number| first.addition(&cells[0], number)).collect();
    let lost: Vec<_> = (100..200).map(|number| first.addition(&cells[0], number)).collect();
    counted.iter().for_each(|operation| drop(first.apply(operation).unwrap()));
    block_on(first.engine.stored()).unwrap();

    let second = standby.promote();
    let outcomes = block_on(first.engine.submit_batch(lost.iter().cloned().map(Ask::Apply).collect()));
    let closed = jeton_engine::Response::Applied(Err(EngineError::Closed));
    assert_eq!(outcomes, vec![closed; 100]);
    second.apply(&second.addition(&cells[1], 1_000)).unwrap();

    let Node { log, engine, folder } = first;
    engine.close();
    drop((log, engine));
    let again = Standby::open_in(folder, registers.clone(), 1, set);
    second.apply(&second.addition(&cells[1], 1_001)).unwrap();
    let again = again.promote();
    assert_eq!(again.total(&cells), 102);
    for (lost, counted) in lost.iter().zip(&counted) {
        let outcomes = (again.apply(counted).unwrap(), again.apply(lost).unwrap());
        let right = matches!(outcomes, (OperationOutcome::Replayed(_), OperationOutcome::Fresh(_)));
        assert!(right, "{outcomes:?}");
    }
    assert_eq!(again.total(&cells), 202);
}

/// A follower checkpoints by itself, and a restart begins there.
#[test]
fn a_follower_checkpoints_what_it_replays() {
    let registers = MemoryRegisters::new();
    let first = owner(&registers);
    let small = |options: &mut Options| {
        *options = Options { recent_ids: 1024, log_bytes: 64 << 10, ..options.clone() };
    };
    let mut standby = Standby::open_in(tempfile::tempdir().unwrap(), registers.clone(), 2, small);
    let cells = first.cells(10);
    let (mut number, started) = (0, Instant::now());
    while standby.follower.log().get_blob("filters").unwrap().is_none() {
        assert!(started.elapsed() < TIMEOUT, "no checkpoint");
        let asks = (number..number + 500).map(|n| Ask::Apply(first.addition(&cells[n as usize % 10], n)));
        for response in block_on(first.engine.submit_batch(asks.collect())) {
            assert!(matches!(response, jeton_engine::Response::Applied(Ok(_))), "{response:?}");
        }
        number += 500;
        while let Err(error) = standby.follower.catch_up() {
            assert!(error.is_temporary() && started.elapsed() < TIMEOUT, "{error}");
        }
    }
    block_on(standby.follower.engine().stored()).unwrap();
    standby.follower.close();
    let again = Standby::open_in(standby.folder, registers.clone(), 2, small);
    let replayed = again.follower.engine().stats().replayed_entries;
    let from_empty = Standby::open(registers, 3).follower.engine().stats().replayed_entries;
    assert!(replayed < from_empty, "{replayed} of {from_empty} entries");
    assert_eq!(again.promote().total(&cells), number as i64);
}

/// Two nodes take the stripe from one another, while requests of the registers are refused, lost and late.
#[test]
fn operations_count_once_over_many_promotions() {
    for seed in 0..6 {
        let registers = MemoryRegisters::with_faults(seed, Faults::default());
        let mut random = Rng::new(seed);
        let mut owner = owner(&registers);
        let mut standby = Standby::open(registers.clone(), 2);
        let mut pushed = owner.log.subscribe();
        let cells = owner.cells(4);
        let operations: Vec<_> = (0..150).map(|n| owner.addition(&cells[n as usize % 4], n)).collect();
        let faults = Faults { refused: 100, lost: 100, late: 100, delayed: 300 };
        registers.set_faults(faults);
        for (number, operation) in operations.iter().enumerate() {
            owner.apply(operation).unwrap();
            while let Ok((slot, frame)) = pushed.try_recv() {
                if !random.percent(10) {
                    let accepted = standby.follower.accept(slot, &frame).unwrap();
                    assert!(accepted || slot != standby.follower.chain().next());
                }
            }
            if random.percent(30)
                && let Err(error) = standby.follower.catch_up()
            {
                assert!(error.is_temporary(), "{error}");
            }
            if random.percent(6) {
                let node = 2 + number as u128;
                let suspected = standby.follower.chain().owner();
                match standby.follower.promote(suspected) {
                    Ok((log, engine)) => {
                        pushed = log.subscribe();
                        let next = Node { log, engine, folder: standby.folder };
                        let Node { log, engine, folder } = std::mem::replace(&mut owner, next);
                        // The deposed owner does not know yet.
                        assert!(block_on(engine.apply(operations[0].clone())).is_ok() || log.is_deposed());
                        engine.close();
                        drop((log, engine));
                        registers.set_faults(Faults { delayed: 300, ..Faults::default() });
                        standby = Standby::open_in(folder, registers.clone(), node, |_| {});
                        registers.set_faults(faults);
                    }
                    Err(NotPromoted { follower, why }) => {
                        let temporary = matches!(&why, PromoteError::Follow(why) if why.is_temporary());
                        assert!(temporary || matches!(why, PromoteError::GaveUp(_)), "{why}");
                        standby.follower = *follower;
                    }
                }
            }
        }
        registers.set_faults(Faults::default());
        registers.deliver_late();
        let last = standby.promote();
        assert_eq!(last.total(&cells), 150, "seed {seed}");
        for operation in &operations {
            let again = last.apply(operation).unwrap();
            assert!(matches!(again, OperationOutcome::Replayed(_)), "{again:?}");
        }
    }
}
