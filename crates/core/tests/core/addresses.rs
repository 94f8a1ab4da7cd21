//! Encoded cells: sorted by row, without collisions, and safe to decode from any bytes.

use crate::common::*;

/// Rows of few different bytes, so that one is often a prefix of another.
fn any_row() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', b':', 254, 255]), 1..6)
}

fn any_column() -> impl Strategy<Value = Vec<u8>> {
    let family = prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 255]), 1..3);
    let qualifier = prop::collection::vec(prop::sample::select(vec![0u8, 1, b':', b'a', 255]), 0..3);
    prop_oneof![
        Just(Vec::new()),
        (family, qualifier).prop_map(|(family, qualifier)| [&family[..], b":", &qualifier[..]].concat()),
    ]
}

fn column_of(text: &[u8]) -> Column {
    if text.is_empty() { Column::unnamed() } else { Column::parse(text).unwrap() }
}

fn named(row: &[u8], column: &[u8]) -> Cell {
    Cell::new(&SECRET, TABLE, row, &column_of(column)).unwrap()
}

/// The cell's bytes after partition and table.
fn within_table(cell: &Cell) -> &[u8] {
    &cell.as_bytes()[6..]
}

proptest! {
    #[test]
    fn cells_sort_by_row_then_column(
        a in (any_row(), any_column()),
        b in (any_row(), any_column()),
    ) {
        let (left, right) = (named(&a.0, &a.1), named(&b.0, &b.1));
        prop_assert_eq!(within_table(&left).cmp(within_table(&right)), a.cmp(&b));
        prop_assert_eq!(left == right, a == b);
        if left.partition() == right.partition() {
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }
    }

    #[test]
    fn cells_round_trip(table: u32, row in any_row(), column in any_column()) {
        let cell = Cell::new(&SECRET, TableId(table), &row, &column_of(&column)).unwrap();
        prop_assert_eq!(Cell::from_bytes(cell.as_bytes()), Ok(cell.clone()));
        prop_assert_eq!(cell.table(), TableId(table));
        prop_assert_eq!(cell.row_and_column(), (row.clone(), &column[..]));
        prop_assert_eq!(cell.partition(), SECRET.partition(TableId(table), &row));
    }

    #[test]
    fn all_columns_of_a_row_are_in_one_partition(row in any_row(), column in any_column()) {
        prop_assert_eq!(named(&row, &column).partition(), named(&row, b"").partition());
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        head in prop::collection::vec(any::<u8>(), 0..8),
        tail in prop::collection::vec(prop::sample::select(vec![0u8, 1, 254, 255]), 0..8),
    ) {
        let bytes = [head, tail].concat();
        if let Ok(cell) = Cell::from_bytes(&bytes) {
            prop_assert_eq!(cell.as_bytes(), &bytes[..]);
            prop_assert!(cell.partition().0 < PARTITIONS);
            let (row, column) = cell.row_and_column();
            prop_assert!(row.len() + column.len() < bytes.len());
            let shown = format!("{cell:?}");
            prop_assert!(!shown.is_empty());
        }
    }
}

#[test]
fn rows_and_columns_are_not_confused() {
    for (one, other) in [
        (named(b"a", b"b:c"), named(b"a\0\0b:c", b"")),
        (named(b"a\0", b"b:c"), named(b"a", b"\0b:c")),
        (named(b"a", b"b:c"), named(b"ab:c", b"")),
    ] {
        assert_ne!(within_table(&one), within_table(&other));
    }
}

#[test]
fn cell_layout_is_stable() {
    let cell = Cell::new(&SECRET, TableId(0x0102_0304), b"a\0b", &Column::parse(b"f:q").unwrap()).unwrap();
    let partition = SECRET.partition(TableId(0x0102_0304), b"a\0b").0.to_be_bytes();
    assert_eq!(cell.as_bytes(), [&partition[..], &[1, 2, 3, 4], b"a\0\xffb", &[0, 0], b"f:q"].concat());
}

#[test]
fn a_cell_without_row_end_is_refused() {
    let whole = cell("abc");
    let bytes = whole.as_bytes();
    for len in 0..bytes.len() {
        assert!(Cell::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Cell::from_bytes(bytes).is_ok());
    // A 0 that is neither escaped nor the end.
    assert!(Cell::from_bytes(&[0, 0, 0, 0, 0, 1, b'a', 0, 7, 0, 0]).is_err());
}

#[test]
fn a_partition_beyond_the_last_is_refused() {
    for (partition, valid) in [(PARTITIONS - 1, true), (PARTITIONS, false)] {
        let [high, low] = partition.to_be_bytes();
        assert_eq!(Cell::from_bytes(&[high, low, 0, 0, 0, 1, b'a', 0, 0]).is_ok(), valid);
    }
}

#[test]
fn rows_and_columns_have_limits() {
    for (bytes, valid) in [(0, false), (ROW_BYTES_MAX, true), (ROW_BYTES_MAX + 1, false)] {
        let cell = Cell::new(&SECRET, TABLE, &vec![b'r'; bytes], &Column::unnamed());
        assert_eq!(cell.is_ok(), valid, "{bytes} bytes");
    }
    for (family, qualifier, valid) in [
        (FAMILY_BYTES_MAX, QUALIFIER_BYTES_MAX, true),
        (1, 0, true),
        (0, 1, false),
        (FAMILY_BYTES_MAX + 1, 1, false),
        (1, QUALIFIER_BYTES_MAX + 1, false),
    ] {
        let name = format!("{}:{}", "f".repeat(family), "q".repeat(qualifier));
        assert_eq!(Column::parse(name.as_bytes()).is_ok(), valid, "{family}:{qualifier}");
    }
    assert!(Column::parse(b"no-colon").is_err());
}

#[test]
fn rows_are_spread_over_all_partitions_by_a_secret() {
    let mut hit = vec![0u32; usize::from(PARTITIONS)];
    let mut moved = 0;
    let other = Secret::new([9; 16]);
    for number in 0..20_000u32 {
        let row = number.to_le_bytes();
        let PartitionId(partition) = SECRET.partition(TABLE, &row);
        hit[usize::from(partition)] += 1;
        moved += u32::from(other.partition(TABLE, &row).0 != partition);
    }
    assert!(hit.iter().all(|rows| (20..200).contains(rows)), "{hit:?}");
    assert!(moved > 19_000, "only {moved} rows move under another secret");
    assert_eq!(PartitionId::all().len(), usize::from(PARTITIONS));
}
