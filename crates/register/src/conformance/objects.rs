//! Checks of objects.

use bytes::Bytes;

use super::EngineLimits;
use super::harness::EngineUnderTest;
use crate::{Error, OBJECT_BYTES_MAX, OBJECT_NAME_BYTES_MAX, Registers};

const COUNT: usize = 25;
const DELETIONS_MAX: usize = 50;

fn name(limits: &EngineLimits, object: &str) -> String {
    format!("conformance-{}.{object}", limits.first_log)
}

fn content(number: usize) -> Bytes {
    let length = [0, 1, 1000, OBJECT_BYTES_MAX][number % 4];
    (0..length).map(|at| (at * 31 + number) as u8).collect::<Vec<u8>>().into()
}

pub async fn stores_objects<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    engine.ensure_eq(engine.get_object(&name(limits, "none")).await, None, "an object that was never stored");
    for number in 0..COUNT {
        let object = name(limits, &format!("o-{number:02}"));
        for _repeated in 0..1 + number % 2 {
            engine.put_object(&object, content(number)).await;
        }
        engine.ensure_eq(engine.get_object(&object).await, Some(content(number)), &object);
    }
    let long = name(limits, &"x".repeat(OBJECT_NAME_BYTES_MAX));
    let too_large = vec![0; OBJECT_BYTES_MAX + 1];
    for (name, bytes) in [(long, Bytes::new()), (name(limits, "large"), too_large.into())] {
        let error = engine.put_object_once(&name, bytes).await;
        engine.ensure(matches!(error, Err(Error::TooLarge(_))), || format!("{name}: {error:?}"));
    }
}

pub async fn lists_objects<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    // Neighbours in every order of text.
    for other in ["o", "o.1", "p-00", "n-99", "o_1"] {
        engine.put_object(&name(limits, other), Bytes::from_static(b"other")).await;
    }
    let prefix = name(limits, "o-");
    let expected: Vec<String> = (0..COUNT).map(|number| name(limits, &format!("o-{number:02}"))).collect();
    let mut all: Vec<String> = Vec::new();
    loop {
        let after = all.last().cloned().unwrap_or_default();
        let page = engine.list_objects(&prefix, &after, 10).await;
        engine.ensure(page.len() <= 10, || format!("a page of {} names", page.len()));
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    engine.ensure_eq(all, expected.clone(), "the names with the prefix");
    let names: Vec<String> = expected.iter().step_by(2).cloned().chain([name(limits, "o-none")]).collect();
    let rest: Vec<String> = expected.iter().skip(1).step_by(2).cloned().collect();
    // A put that was repeated may take effect late, after the deletion.
    let mut listed = Vec::new();
    for _ in 0..DELETIONS_MAX {
        engine.delete_objects(&names).await;
        listed = engine.list_objects(&prefix, "", 1000).await;
        if listed == rest {
            break;
        }
    }
    engine.ensure_eq(listed, rest, "the names after a deletion");
    engine.ensure_eq(engine.get_object(&expected[1]).await, Some(content(1)), "a kept object");
}

/// The state after the checks before.
pub async fn survive_restart<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let listed = engine.list_objects(&name(limits, "o-"), "", 1000).await;
    for number in (1..COUNT).step_by(2) {
        let object = name(limits, &format!("o-{number:02}"));
        engine.ensure(listed.contains(&object), || format!("{object} is not listed"));
        engine.ensure_eq(engine.get_object(&object).await, Some(content(number)), &object);
    }
}

/// An engine without objects says so.
pub async fn are_refused<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let error = engine.put_object_once(&name(limits, "any"), Bytes::new()).await;
    let refused = matches!(&error, Err(Error::Invalid(why)) if why.contains("objects"));
    engine.ensure(refused, || format!("an object: {error:?}"));
}
