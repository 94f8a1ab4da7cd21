//! Stamps and parameters in a human-readable format and in a binary one.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Debug;

use bloom_clock::{
    BloomClock, COUNTERS_MAX, Clock, ClockParams, Generation, Identity, PROCESSES_MAX, Stamp, TickKey,
    VectorClock, VectorStamp,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Checks that the value is the same after both formats.
fn round_trips<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
    let bytes = postcard::to_stdvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
}

fn error<T: DeserializeOwned>(text: &str) -> String {
    serde_json::from_str::<T>(text).err().expect("an error").to_string()
}

proptest! {
    #[test]
    fn stamps_and_parameters_round_trip(
        ticks in 1_u64..300, counters in 1_usize..40, limit in 3_u32.., number: u64,
    ) {
        let params = ClockParams::new(counters).unwrap().hashes(3).unwrap().limit(limit).unwrap();
        round_trips(&params);
        round_trips(&params.key(TickKey::Event));
        let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(number));
        (0..ticks).for_each(|_| _ = clock.tick());
        round_trips(clock.now());
        round_trips(&clock.now().generation());
        let mut vector = VectorClock::begin(counters / 2, counters);
        (0..ticks).for_each(|_| _ = vector.tick());
        round_trips(vector.now());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = postcard::from_bytes::<Stamp>(&bytes);
        let _ = postcard::from_bytes::<VectorStamp>(&bytes);
        let _ = postcard::from_bytes::<ClockParams>(&bytes);
        let _ = serde_json::from_slice::<Stamp>(&bytes);
    }
}

#[test]
fn values_have_the_documented_representation() {
    let params = ClockParams::new(2).unwrap().limit(9).unwrap();
    let json = r#"{"counters":2,"hashes":1,"key":"process","limit":9}"#;
    assert_eq!(serde_json::to_string(&params).unwrap(), json);
    let stamp = Stamp::read(&[1, 2, 7, 3, 0, 1], &params).unwrap();
    assert_eq!(serde_json::to_string(&stamp).unwrap(), r#"{"generation":7,"counters":[3,4]}"#);
    assert_eq!(postcard::to_stdvec(&stamp).unwrap(), [7, 2, 3, 4]);
    assert_eq!(serde_json::to_string(&Generation(5)).unwrap(), "5");
    let mut vector = VectorClock::begin(1, 2);
    assert_eq!(serde_json::to_string(vector.tick()).unwrap(), "[0,1]");
}

#[test]
fn invalid_values_are_rejected() {
    for (json, why) in [
        (r#"{"generation":7,"counters":[]}"#, "invalid length 0, expected 1 to 65536 numbers"),
        (r#"{"generation":7,"counters":[4294967296]}"#, "expected u32"),
        (r#"{"generation":7,"counters":[-1]}"#, "expected u32"),
        (r#"{"generation":-7,"counters":[1]}"#, "expected u64"),
        (r#"{"generation":7}"#, "missing field `counters`"),
        (r#"{"counters":[1]}"#, "missing field `generation`"),
        (r#"{"generation":7,"counters":[1],"more":0}"#, "unknown field `more`"),
        (r#"{"generation":7,"generation":7,"counters":[1]}"#, "duplicate field"),
    ] {
        assert!(error::<Stamp>(json).contains(why), "{json}: {}", error::<Stamp>(json));
    }
    let many = |many: usize| format!(r#"{{"generation":0,"counters":[{}0]}}"#, "0,".repeat(many - 1));
    assert_eq!(serde_json::from_str::<Stamp>(&many(COUNTERS_MAX)).unwrap().counters().len(), COUNTERS_MAX);
    assert!(error::<Stamp>(&many(COUNTERS_MAX + 1)).contains("invalid length 65537"));

    for (json, why) in [
        (r#"{"counters":0,"hashes":1,"key":"event","limit":9}"#, "0 counters"),
        (r#"{"counters":65537,"hashes":1,"key":"event","limit":9}"#, "65537 counters"),
        (r#"{"counters":2,"hashes":0,"key":"event","limit":9}"#, "0 counters for an event"),
        (r#"{"counters":2,"hashes":17,"key":"event","limit":99}"#, "17 counters for an event"),
        (r#"{"counters":2,"hashes":3,"key":"event","limit":2}"#, "a limit of 2"),
        (r#"{"counters":2,"hashes":1,"key":"else","limit":9}"#, "unknown variant"),
        (r#"{"counters":2,"hashes":1,"key":"event"}"#, "missing field"),
        (r#"{"counters":2,"hashes":1,"key":"event","limit":9,"more":0}"#, "unknown field"),
    ] {
        assert!(error::<ClockParams>(json).contains(why), "{json}: {}", error::<ClockParams>(json));
    }

    assert!(error::<VectorStamp>("[]").contains("1 to 1048576 numbers"));
    let most = u64::MAX >> 2;
    assert_eq!(serde_json::from_str::<VectorStamp>(&format!("[{most}]")).unwrap().events(), [most]);
    assert!(error::<VectorStamp>(&format!("[1,{}]", most + 1)).contains("below 2^62"));
    let numbers = |many: usize| format!("[{}0]", "0,".repeat(many - 1));
    assert!(serde_json::from_str::<VectorStamp>(&numbers(PROCESSES_MAX)).is_ok());
    assert!(error::<VectorStamp>(&numbers(PROCESSES_MAX + 1)).contains("invalid length"));
}

#[test]
#[should_panic(expected = "process 0 of 1048577")]
fn a_vector_clock_has_a_maximum_of_processes() {
    let _ = VectorClock::begin(0, PROCESSES_MAX + 1);
}
