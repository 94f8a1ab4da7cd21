//! Checks of blobs.

use bytes::Bytes;

use super::EngineLimits;
use super::harness::EngineUnderTest;
use crate::Registers;

fn name(limits: &EngineLimits, blob: &str) -> String {
    format!("conformance-{}.{blob}", limits.first_log)
}

pub async fn stores_blobs<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let blob = name(limits, "kept");
    engine.ensure_eq(engine.get_blob(&blob).await, None, "a blob that was never stored");
    engine.ensure(engine.put_blob(&blob, 5, "five").await, || "the first version was not stored".into());
    engine.ensure_eq(engine.get_blob(&blob).await, Some((5, Bytes::from("five"))), "the blob");
    let other = name(limits, "other_blob-2");
    engine.ensure(engine.put_blob(&other, 0, "").await, || "an empty blob was not stored".into());
    engine.ensure_eq(engine.get_blob(&other).await, Some((0, Bytes::new())), "an empty blob");
    engine.ensure_eq(engine.get_blob(&blob).await, Some((5, Bytes::from("five"))), "the other blob");
}

pub async fn orders_versions<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let blob = name(limits, "ordered");
    let steps = [
        (5, "five", true, 5, "five"),
        (4, "four", false, 5, "five"),
        (5, "five again", true, 5, "five again"),
        (9, "nine", true, 9, "nine"),
        (0, "zero", false, 9, "nine"),
    ];
    for (slot, content, stored, then_slot, then) in steps {
        let answer = engine.put_blob(&blob, slot, content).await;
        engine.ensure_eq(answer, stored, &format!("whether slot {slot} was stored"));
        engine.ensure_eq(engine.get_blob(&blob).await, Some((then_slot, Bytes::from(then))), "the blob");
    }
}

/// After the checks before.
pub async fn lists_blobs<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let listed = async |prefix: &str| {
        let found = engine.blobs(prefix).await.ok()?;
        let part = |(name, blob): (String, crate::Blob)| (name, blob.version, blob.bytes);
        Some(found.into_iter().map(part).collect::<Vec<_>>())
    };
    // An engine may refuse.
    let Some(all) = listed(&name(limits, "")).await else { return };
    let kept = (name(limits, "kept"), 5, Bytes::from("five"));
    let ordered = (name(limits, "ordered"), 9, Bytes::from("nine"));
    let other = (name(limits, "other_blob-2"), 0, Bytes::new());
    engine.ensure_eq(all, vec![kept, ordered, other.clone()], "all blobs");
    // In a pattern of SQL, `_` is any character.
    for (prefix, expected) in [("other_", vec![other]), ("k_pt", vec![]), ("kept-", vec![])] {
        engine.ensure_eq(listed(&name(limits, prefix)).await, Some(expected), prefix);
    }
}

/// The state after the checks before.
pub async fn survive_restart<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let ordered = name(limits, "ordered");
    engine.ensure_eq(engine.get_blob(&ordered).await, Some((9, Bytes::from("nine"))), "a blob");
    engine.ensure(!engine.put_blob(&ordered, 8, "eight").await, || "a lower slot was stored".into());
    let other = name(limits, "other_blob-2");
    engine.ensure_eq(engine.get_blob(&other).await, Some((0, Bytes::new())), "an empty blob");
}
