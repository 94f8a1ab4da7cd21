//! Ids are parsed in the named format, never guessed.

use crate::common::*;

/// RFC 9562, appendix A.6.
const RFC_UUID7: &str = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F";
const RFC_UUID7_MILLIS: u64 = 1_645_557_742_000;

/// The example of the ULID specification's component table, and its time.
const SPEC_ULID: &str = "01ARYZ6S41TSV4RRFFQ69G5FAV";
const SPEC_ULID_MILLIS: u64 = 1_469_918_176_385;

#[track_caller]
fn refused(format: Format, texts: &[&str]) {
    for text in texts {
        match format.parse(text) {
            Err(IdError::Invalid { format: named, why }) => assert!(named == format && !why.is_empty()),
            other => panic!("{text:?} as {format}: {other:?}"),
        }
    }
}

#[test]
fn examples_of_the_specifications_have_their_times() {
    for (format, text, id, millis) in [
        (Format::Uuid7, RFC_UUID7, OpId::Uuid7(0x017F_22E2_79B0_7CC3_98C4_DC0C_0C07_398F), RFC_UUID7_MILLIS),
        (Format::Ulid, SPEC_ULID, OpId::Ulid(0x0156_3DF3_6481_D676_4C61_EFB9_9302_BD5B), SPEC_ULID_MILLIS),
    ] {
        assert_eq!(format.parse(text), Ok(id.clone()));
        assert_eq!(format.parse(&text.to_lowercase()), Ok(id.clone()));
        assert_eq!(id.dated(), Some(Timestamp::from_millis(millis)));
        assert!(id.to_string().eq_ignore_ascii_case(text), "{id}");
    }
    assert_eq!(OpId::Uuid7(0x017F_22E2_79B0_7CC3_98C4_DC0C_0C07_398F).to_string(), RFC_UUID7.to_lowercase());
    assert_eq!(Format::Ulid.parse(SPEC_ULID).unwrap().to_string(), SPEC_ULID);
}

#[test]
fn uuid7_from_keeps_time_and_74_random_bits() {
    for (millis, random) in [(0, 0), (1_700_000_000_000, 42), ((1 << 48) - 1, (1 << 74) - 1)] {
        let id = OpId::uuid7_from(millis, random);
        let OpId::Uuid7(bits) = id else { panic!("{id:?}") };
        assert_eq!(OpId::uuid7(bits), Ok(id.clone()), "version and variant");
        assert_eq!(id.dated(), Some(Timestamp::from_millis(millis)));
        assert_eq!((bits >> 64 & 0xfff) << 62 | bits & ((1 << 62) - 1), random);
    }
    // Higher bits are ignored.
    assert_eq!(OpId::uuid7_from(1 << 48, 1 << 74), OpId::uuid7_from(0, 0));
}

#[test]
fn malformed_ids_are_rejected() {
    for (format, texts) in [
        // UUIDs of version 4, 1, 6 and 8; nil and max.
        (
            Format::Uuid7,
            &["919108f7-52d1-4320-9bac-f847db4148a8", "c232ab00-9414-11ec-b3c8-9f6bdeced846"][..],
        ),
        (Format::Uuid7, &["1ec9414c-232a-6b00-b3c8-9f6bdeced846", "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0"]),
        (Format::Uuid7, &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
        // Other forms, lengths and characters.
        (Format::Uuid7, &["", "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", "017f22e279b07cc398c4dc0c0c07398f"]),
        (Format::Uuid7, &["urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f"]),
        (Format::Uuid7, &["017f22e2-79b0-7cc3-98c4-dc0c0c07398", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0"]),
        (Format::Uuid7, &[" 017f22e2-79b0-7cc3-98c4-dc0c0c07398", "017f22e2-79b0-7cc3-98c4-dc0c0c07398g"]),
        (Format::Uuid7, &["017f22e279-b0-7cc3-98c4-dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c0739+f"]),
        (Format::Uuid7, &["017f22e2-79b0-7cc3-98c4-dc0c0c0739\u{e9}"]),
        // 26 characters, at most 128 bits.
        (Format::Ulid, &["", "01ARYZ6S41TSV4RRFFQ69G5FA", "01ARYZ6S41TSV4RRFFQ69G5FAV0"]),
        (Format::Ulid, &["01ARYZ6S41-TSV4RRFFQ69G5FA"]),
        (Format::Ulid, &["80000000000000000000000000", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ"]),
        (Format::Sequenced, &["", "a", "a/1", "/1/1", "a//1", "a/1/", "a/1/0", "a/01/1", "a/00/1", "a/1/01"]),
        (
            Format::Sequenced,
            &["a/+1/1", "a/-1/1", "a/1/+1", "a/1/-1", "a/ 1/1", "a/1/1 ", "a/0x1/1", "a/1_0/1"],
        ),
        (Format::Sequenced, &["a/\u{661}/1", "a/18446744073709551616/1", "a/1/18446744073709551616"]),
        (Format::Sequenced, &[&format!("{}/1/1", "c".repeat(CLIENT_BYTES_MAX + 1))]),
        (Format::Event, &["", "1", "1/till", "1//17", "1/till/", "/till/17", "01/till/17", "-1/till/17"]),
        (Format::Event, &["x/till/17", &format!("1/{}/17", "e".repeat(ID_BYTES_MAX + 1))]),
        (Format::Event, &[&format!("1/till/{}", "e".repeat(ID_BYTES_MAX + 1))]),
        (Format::Opaque, &["", &"o".repeat(ID_BYTES_MAX + 1)]),
    ] {
        refused(format, texts);
    }
    // Letters that look like digits.
    for letter in "ILOUilou".chars() {
        refused(Format::Ulid, &[&format!("01ARYZ6S41TSV4RRFFQ69G5FA{letter}")]);
    }
}

#[test]
fn the_largest_ids_are_accepted() {
    assert_eq!(Format::Ulid.parse("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), Ok(OpId::Ulid(u128::MAX)));
    assert_eq!(Format::Ulid.parse("00000000000000000000000000"), Ok(OpId::Ulid(0)));
    assert!(OpId::sequenced(&"c".repeat(CLIENT_BYTES_MAX), 1, 1).is_ok());
    let longest = "e".repeat(ID_BYTES_MAX);
    assert!(OpId::event(&longest, &longest, 0).is_ok());
    assert!(Format::Opaque.parse(&longest).is_ok());
    assert_eq!(Format::Opaque.parse("order/17:\u{e9}"), Ok(opaque("order/17:\u{e9}")));
}

#[test]
fn a_version_7_with_another_variant_is_refused() {
    let with = |variant| format!("017f22e2-79b0-7cc3-{variant}8c4-dc0c0c07398f");
    "07cdef".chars().for_each(|variant| refused(Format::Uuid7, &[&with(variant)]));
    assert!("89ab".chars().all(|variant| Format::Uuid7.parse(&with(variant)).is_ok()));
    assert!(OpId::uuid7(0x017F_22E2_79B0_4CC3_98C4_DC0C_0C07_398F).is_err());
    assert!(OpId::uuid7(0x017F_22E2_79B0_7CC3_18C4_DC0C_0C07_398F).is_err());
}

#[test]
fn a_sequenced_id_is_client_epoch_and_sequence() {
    for (text, id) in [
        ("till-4/7/19", sequenced("till-4", 7, 19)),
        ("till-4/0/1", sequenced("till-4", 0, 1)),
        // The client may have slashes: the numbers are the last two parts.
        ("topic/3/7/19", sequenced("topic/3", 7, 19)),
        ("a/18446744073709551615/18446744073709551615", sequenced("a", u64::MAX, u64::MAX)),
    ] {
        assert_eq!(Format::Sequenced.parse(text), Ok(id));
    }
}

#[test]
fn an_event_is_time_source_and_id() {
    let event = OpId::event("till", "17", 1_700_000_000_000).unwrap();
    assert_eq!(Format::Event.parse("1700000000000/till/17"), Ok(event.clone()));
    assert_eq!(event.dated(), Some(Timestamp::from_millis(1_700_000_000_000)));
    assert_eq!((sequenced("a", 1, 1).dated(), opaque(RFC_UUID7).dated()), (None, None));
    // The id may have slashes.
    assert_eq!(Format::Event.parse("1/till/17/a"), OpId::event("till", "17/a", 1));
}

#[test]
fn with_one_format_the_whole_text_is_the_id() {
    assert_eq!(Formats::only(Format::Opaque).parse("ulid:1"), Ok(opaque("ulid:1")));
    assert_eq!(Formats::only(Format::Opaque).parse(RFC_UUID7), Ok(opaque(RFC_UUID7)));
    assert!(Formats::only(Format::Ulid).parse(&format!("ulid:{SPEC_ULID}")).is_err());
    assert!(Formats::only(Format::Uuid7).parse(SPEC_ULID).is_err());
}

#[test]
fn with_several_formats_an_id_names_its_format() {
    let taken = Formats::only(Format::Ulid).and(Format::Opaque);
    assert_eq!(taken.parse(&format!("ulid:{SPEC_ULID}")), Format::Ulid.parse(SPEC_ULID));
    assert_eq!(taken.parse("opaque:a:b"), Ok(opaque("a:b")));
    for untagged in [SPEC_ULID, "order-17", "ULID:1", ":1", " ulid:1", ""] {
        assert_eq!(taken.parse(untagged), Err(IdError::Untagged(taken)), "{untagged:?}");
    }
    let not_taken = IdError::NotTaken { found: Format::Uuid7, taken };
    assert_eq!(taken.parse(&format!("uuid7:{RFC_UUID7}")), Err(not_taken));
    assert!(Formats::NONE.parse("opaque:a").is_err() && Formats::NONE.parse("a").is_err());
    let message = taken.parse("order-17").unwrap_err().to_string();
    assert!(message.contains("ulid") && message.contains("opaque"), "{message}");
}

#[test]
fn formats_have_the_names_that_settings_use() {
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(format));
        assert_eq!(Formats::only(format).iter().collect::<Vec<_>>(), [format]);
    }
    assert_eq!(Format::from_name("UUID7"), None);
    assert_eq!(Formats::NONE.to_string(), "none");
    assert_eq!(every_format().to_string(), "uuid7, ulid, sequenced, event, opaque");
}

#[test]
fn keys_depend_on_routing_key_format_and_time() {
    let bits = 0x017F_22E2_79B0_7CC3_98C4_DC0C_0C07_398F;
    let ids = [
        OpId::Uuid7(bits),
        OpId::Ulid(bits),
        OpId::event("a", "b", 1).unwrap(),
        OpId::event("a", "b", 2).unwrap(),
        OpId::event("ab", "c", 1).unwrap(),
        OpId::event("a", "bc", 1).unwrap(),
        sequenced("a", 1, 2),
        sequenced("a", 2, 1),
        opaque("a"),
    ];
    let key = |table, row: &str, id: &OpId| {
        let cell = Cell::new(&SECRET, TableId(table), row.as_bytes(), &Column::unnamed()).unwrap();
        SECRET.id_key(&cell, id, &mut Vec::new())
    };
    let places = [(1, "a"), (2, "a"), (1, "b"), (1, "a\0"), (1, "a\0\u{5}")];
    let pairs = places.iter().flat_map(|place| ids.iter().map(move |id| (place, id)));
    let keys: std::collections::BTreeMap<_, _> =
        pairs.map(|((table, row), id)| (key(*table, row, id), (row, id))).collect();
    assert_eq!(keys.len(), places.len() * ids.len());
    assert_eq!(key(1, "{a}x", &ids[0]), key(1, "a", &ids[0]));
}

fn any_id() -> impl Strategy<Value = OpId> {
    prop_oneof![
        any_uuid7(),
        any::<u128>().prop_map(OpId::Ulid),
        ("[a-z/ :é-]{1,20}", any::<u64>(), 1..u64::MAX)
            .prop_map(|(c, e, s)| OpId::sequenced(&c, e, s).unwrap()),
        ("[^/]{1,20}", ".{1,20}", any::<u64>()).prop_map(|(s, i, t)| OpId::event(&s, &i, t).unwrap()),
        "\\PC{1,60}".prop_map(|text| opaque(&text)),
    ]
}

proptest! {
    /// The documented exceptions: an event whose source has a slash, which only `OpId::event` can make; and
    /// an opaque id that is not printable text, which is displayed escaped.
    #[test]
    fn displayed_ids_parse_back(id in any_id()) {
        prop_assert_eq!(id.format().parse(&id.to_string()), Ok(id.clone()));
        let tagged = format!("{}:{id}", id.format());
        prop_assert_eq!(every_format().parse(&tagged), Ok(id));
    }

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,40}") {
        for format in Format::ALL {
            if let Ok(id) = format.parse(&text) {
                prop_assert_eq!(id.format(), format);
            }
        }
        let _ = every_format().parse(&text);
    }

    #[test]
    fn ids_round_trip_their_time(millis in 0u64..1 << 48, number: u64) {
        prop_assert_eq!(uuid7_at(millis, number).dated(), Some(Timestamp::from_millis(millis)));
    }
}

#[test]
fn control_characters_are_escaped() {
    assert_eq!(OpId::opaque(b"a\x1b[2J\n\xff").unwrap().to_string(), r"a\x1b[2J\n\xff");
}

/// One wrong byte at any position, with every value.
#[test]
fn a_uuid7_with_one_wrong_byte_is_refused() {
    let good = RFC_UUID7.as_bytes();
    let uuids = Formats::NONE.and(Format::Uuid7);
    let read = uuids.parse_bytes(good).unwrap();
    assert_eq!(Format::Uuid7.parse(RFC_UUID7), Ok(read.clone()));
    for at in 0..good.len() {
        for byte in 0..=u8::MAX {
            let mut bytes = good.to_vec();
            bytes[at] = byte;
            let fits = if good[at] == b'-' { byte == b'-' } else { byte.is_ascii_hexdigit() };
            match uuids.parse_bytes(&bytes) {
                Ok(id) => {
                    assert!(fits, "{byte} at {at}");
                    assert_eq!(id == read, byte.eq_ignore_ascii_case(&good[at]), "{byte} at {at}");
                }
                // Version and variant have their own rules.
                Err(_) => assert!(!fits || at == 14 || at == 19, "{byte} at {at}"),
            }
        }
    }
}

#[test]
fn bytes_parse_like_text() {
    for formats in [every_format(), Formats::NONE.and(Format::Opaque), Formats::NONE.and(Format::Uuid7)] {
        for text in [RFC_UUID7, &format!("uuid7:{RFC_UUID7}"), "opaque:x", "x", ""] {
            assert_eq!(formats.parse_bytes(text.as_bytes()), formats.parse(text), "{text}");
        }
        assert!(formats.parse_bytes(b"opaque:\xff").is_err());
    }
}
