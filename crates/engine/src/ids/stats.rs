//! Statistics of the index.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    pub runs: usize,
    pub bytes: u64,
    /// Number of ids in them. An id that was added twice counts twice until its runs are merged.
    pub ids: u64,
    pub generations: usize,
    /// Live runs found damaged since the index was opened.
    pub damaged: usize,
    /// Files to be removed.
    pub queued_removals: usize,
    pub open_files: usize,
}
