//! The on-disk format is frozen: a change needs a new version.

use jeton_wal::disk::FaultDisk;
use xxhash_rust::xxh3::xxh3_64;

use super::common::*;

#[test]
fn version_1_format_is_stable() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    put(&index, &entries(7, 0..200), b"note").unwrap();
    let bytes = |file| disk.bytes(&format!("{FOLDER}/{file}")).unwrap();
    let (run, manifest) = (bytes("0000000000.run"), bytes("manifest"));
    assert_eq!(&run[..8], b"jtnR\x01\0\0\0");
    assert_eq!(&manifest[..8], b"jtnM\x01\0\0\0");
    assert_eq!((run.len(), xxh3_64(&run)), (8344, 3_727_692_765_003_969_882));
    assert_eq!((manifest.len(), xxh3_64(&manifest)), (61, 10_943_779_821_644_805_622));
}
