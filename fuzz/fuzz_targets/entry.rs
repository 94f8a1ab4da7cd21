//! Bytes of a log or a store, read as what they might be: an entry, an answer, a value, a partition, the tables. What is read is written
//! the same way again.

#![no_main]

use jeton_core::codec::Reader;
use jeton_core::{Catalog, Entry, Partition, PartitionId, Remembered, Value, entry};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(read) = Entry::read(7, data) {
        let step = read.step();
        if let Ok(decided) = read.collect::<Result<Vec<_>, _>>() {
            let mut bytes = Vec::new();
            entry::begin(step, &mut bytes);
            decided.iter().for_each(|(operation, decision)| entry::push(operation, decision, &mut bytes));
            let again = Entry::read(7, &bytes).and_then(|read| read.collect::<Result<Vec<_>, _>>());
            assert_eq!(again.as_ref(), Ok(&decided));
        }
    }
    if let Ok(remembered) = Remembered::decode(data) {
        let mut bytes = Vec::new();
        remembered.encode(&mut bytes);
        assert_eq!(Remembered::decode(&bytes), Ok(remembered));
    }
    if let Ok(value) = Value::decode(&mut Reader::new(data)) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        assert_eq!(Value::decode(&mut Reader::new(&bytes)), Ok(value));
    }
    if let Ok(partition) = Partition::decode(PartitionId(3), data) {
        assert_eq!(Partition::decode(PartitionId(3), &partition.encode()).as_ref(), Ok(&partition));
    }
    let _refused_or_not = Catalog::decode(data);
});
