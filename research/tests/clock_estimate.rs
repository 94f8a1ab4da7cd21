//! Compares the estimates with their formulas.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use bloom_clock::{ClockParams, Stamp};
use jeton_research::clock_estimate::{self as estimate, CausalityEstimate, CollisionModel};
use proptest::prelude::*;

/// A stamp with these counters.
fn stamp(generation: u8, counters: &[u32]) -> Stamp {
    let mut bytes = vec![1];
    let mut put = |mut number: u32| {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    };
    let base = counters.iter().copied().min().unwrap();
    put(counters.len() as u32);
    put(generation.into());
    put(base);
    counters.iter().for_each(|counter| put(counter - base));
    Stamp::read(&bytes, &ClockParams::new(counters.len()).unwrap()).unwrap()
}

/// pr_p by the formula of the paper.
fn printed(y: &Stamp, z: &Stamp) -> f64 {
    let (n, p) = (z.sum() as i32, 1.0 / z.counters().len() as f64);
    let choose = |l: i32| (0..l).fold(1.0, |ways, at| ways * f64::from(n - at) / f64::from(at + 1));
    let b = |l: i32| if l > n { 0.0 } else { choose(l) * p.powi(l) * (1.0 - p).powi(n - l) };
    y.counters().iter().map(|y| 1.0 - (0..*y as i32).map(b).sum::<f64>()).product()
}

fn counters(below: u32) -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
    let counters = move |many| prop::collection::vec(0..below, many);
    (1_usize..20).prop_flat_map(move |many| (counters(many), counters(many)))
}

proptest! {
    #[test]
    fn pr_p_follows_the_formula((y, z) in counters(9)) {
        let (y, z) = (stamp(0, &y), stamp(0, &z));
        let (computed, exact) = (estimate::precedes(&y, &z), printed(&y, &z));
        prop_assert!((computed - exact).abs() < 1e-11, "{computed} and {exact}");
        prop_assert_eq!(estimate::ln_precedes(&y, &z).exp(), computed);
    }

    #[test]
    fn estimates_are_probabilities((y, z) in counters(u32::MAX)) {
        let (y, z) = (stamp(0, &y), stamp(0, &z));
        let odds = CausalityEstimate::of(&y, &z);
        for model in [CollisionModel::Product, CollisionModel::Step] {
            let all = [
                odds.precedes(),
                odds.positive_false(),
                odds.false_positive(model),
                odds.true_positive(model),
                odds.true_negative(model),
            ];
            prop_assert!(all.iter().all(|estimate| (0.0..=1.0).contains(estimate)), "{all:?}");
            let sum: f64 = all[2..].iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-12, "they add up to {sum}");
        }
    }

    /// The estimate increases with z.
    #[test]
    fn more_thrown_cover_more((y, z) in counters(1000), more in 0_u32..1000) {
        let later: Vec<u32> = z.iter().map(|counter| counter + more).collect();
        let (y, z, later) = (stamp(0, &y), stamp(0, &z), stamp(0, &later));
        prop_assert!(estimate::ln_precedes(&y, &later) >= estimate::ln_precedes(&y, &z) * (1.0 + 1e-12));
    }
}

#[test]
fn a_small_pair_by_hand() {
    // Two balls in two urns: the first has one or more with probability 3/4.
    let (y, z) = (stamp(0, &[1, 0]), stamp(0, &[1, 1]));
    let close =
        |computed: f64, exact: f64| assert!((computed - exact).abs() < 1e-15, "{computed} and {exact}");
    close(estimate::precedes(&y, &z), 0.75);
    close(estimate::ln_precedes(&y, &z), 0.75_f64.ln());
    close(estimate::positive_false(&y, &z), 0.25);
    close(estimate::false_positive(&y, &z, CollisionModel::Product), 0.1875);
    close(estimate::false_positive(&y, &z, CollisionModel::Step), 0.25);
    let odds = CausalityEstimate::of(&y, &z);
    assert!(odds.is_possible());
    close(odds.true_positive(CollisionModel::Product), 0.5625);
    close(odds.true_positive(CollisionModel::Step), 0.75);
    close(odds.true_negative(CollisionModel::Product), 0.25);
    close(odds.true_negative(CollisionModel::Step), 0.0);
    // The other way round: two balls of one thrown. It is impossible, and is reported so.
    let back = CausalityEstimate::of(&z, &y);
    assert!(!back.is_possible());
    close(back.precedes(), 0.25);
    close(back.false_positive(CollisionModel::Product), 0.1875);
    close(back.false_positive(CollisionModel::Step), 0.0);
    close(back.true_negative(CollisionModel::Step), 1.0);
    // Equal stamps are not positive.
    assert!(!CausalityEstimate::of(&y, &y).is_possible());
}

#[test]
fn generations_decide_the_estimate() {
    let (y, z) = (stamp(1, &[5, 5]), stamp(2, &[0, 1]));
    assert_eq!((estimate::precedes(&y, &z), estimate::positive_false(&y, &z)), (1.0, 0.0));
    assert_eq!((estimate::precedes(&z, &y), estimate::positive_false(&z, &y)), (0.0, 1.0));
    assert_eq!(estimate::ln_precedes(&z, &y), f64::NEG_INFINITY);
}

/// The documented flaw: the estimate is not a property of the events.
#[test]
fn a_common_offset_changes_the_estimate() {
    let (y, z) = ([3, 0, 1, 2], [3, 1, 1, 4]);
    let raised = |counters: [u32; 4]| stamp(0, &counters.map(|counter| counter + 1000));
    let (low, high) =
        (CausalityEstimate::of(&stamp(0, &y), &stamp(0, &z)), CausalityEstimate::of(&raised(y), &raised(z)));
    assert_eq!(low.is_possible(), high.is_possible());
    assert!((low.precedes() - high.precedes()).abs() > 0.1);
}

#[test]
fn the_largest_counters_of_the_largest_clock() {
    let full = stamp(0, &[u32::MAX; 1 << 16]);
    let distinct: Vec<u32> = (0..1 << 16).map(|at| u32::MAX - at).collect();
    let distinct = stamp(0, &distinct);
    // The probability of at least the mean is slightly more than one half.
    let computed = estimate::ln_precedes(&full, &full) / 65_536.0;
    assert!((computed + 2_f64.ln()).abs() < 1e-4, "{computed}");
    let computed = estimate::ln_precedes(&distinct, &full) / 65_536.0;
    assert!(-0.5 < computed && computed < -0.3, "{computed}");
}

#[test]
#[should_panic(expected = "different parameters")]
fn stamps_with_different_parameters_are_rejected() {
    let _ = estimate::precedes(&stamp(0, &[1]), &stamp(0, &[1, 2]));
}
