//! What the index consists of, in numbers.

/// What the index consists of, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The live runs.
    pub runs: usize,
    /// The bytes of their files.
    pub bytes: u64,
    /// The ids in them. One that was added twice counts twice until its runs are merged.
    pub ids: u64,
    /// The generations that have runs.
    pub generations: usize,
    /// Live runs in which damage was met since the index was opened.
    pub damaged: usize,
    /// Files that nobody needs and that are not removed yet.
    pub buried: usize,
    /// Files that are kept open.
    pub open_files: usize,
}
