//! Statistics of the index.

/// Statistics of the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of live runs.
    pub runs: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Number of ids in them. An id that was added twice counts twice until its runs are merged.
    pub ids: u64,
    /// Number of generations with runs.
    pub generations: usize,
    /// Live runs found damaged since the index was opened.
    pub damaged: usize,
    /// Files to be removed.
    pub buried: usize,
    /// Open files.
    pub open_files: usize,
}
