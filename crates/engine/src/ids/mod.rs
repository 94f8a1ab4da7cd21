//! The id index: what became of every id, on disk, in sorted runs.
