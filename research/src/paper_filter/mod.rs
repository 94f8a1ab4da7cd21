//! The forgetful Bloom filter as published, for reproducing the paper. **Not for production.**
//!
//! Subramanyam, Gupta, Leslie and Wang, *Idempotent Distributed Counters Using a Forgetful Bloom Filter*,
//! describe an N-FBF: `N + 2` Bloom filters of `m` bits that share `k` hash functions, in the roles *future*,
//! *present* and `N` times *past*. An id is written into future and present; every period `t` the oldest
//! filter is dropped, the others move one role on, and an empty one becomes the future.
//!
//! [`PaperFilter`] is that structure, each constituent filter is an array of bits. [`Check`] holds the three
//! membership checks, [`Estimate`] the paper's Eq. (3) beside the exact formula, [`Resizer`] is Algorithm 3.
//!
//! # Where it loses live ids
//!
//! The paper guarantees that an id is found while it is younger than `(N + 1) t`. As published, the filter
//! violates this in four ways. All four are kept, because the figures measure them:
//!
//! * **Algorithm 2 as printed** ([`Check::Printed`]) never checks the oldest filter alone when `N > 1`: the
//!   `else if` around the loop hides that branch. The true retention is `N t`. [`Check::Text`] follows the
//!   paper's text and Eq. (3), which do check it.
//! * **Algorithm 1's guard** ([`PaperFilter::insert_guarded`]) does not store an id that already tests
//!   positive. If that was a false positive, the id is forgotten as soon as the colliding ids are.
//!   [`PaperFilter::insert`] stores always, as the authors' prototype does.
//! * **Growing** ([`Resizer`]) appends empty filters behind the oldest one, which from then on is only
//!   checked together with an empty neighbour: every id that lives in it alone is lost at once.
//! * **Shrinking** ([`Resizer`]) drops the oldest filter whatever it holds.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use forgetful_filter::Key;
//! use jeton_research::paper_filter::{Check, PaperFilter, Settings};
//!
//! let key = Key::new([7; 16]);
//! let settings = Settings { bits: 6250, hashes: 5, filters: 3, period: Duration::from_secs(5) };
//! let mut filter = PaperFilter::new(settings)?;
//! filter.insert(key.fingerprint(b"client 1, operation 1"));
//! filter.advance(Duration::from_secs(9)); // one refresh, at 5 s
//! assert!(filter.contains(key.fingerprint(b"client 1, operation 1"), Check::Text));
//! filter.advance(Duration::from_secs(15)); // three refreshes: forgotten
//! assert!(!filter.contains(key.fingerprint(b"client 1, operation 1"), Check::Text));
//! # Ok::<(), jeton_research::paper_filter::PaperError>(())
//! ```

mod check;
mod estimate;
mod filter;
mod positions;
mod resizer;
mod settings;
mod stack;

pub use check::Check;
pub use estimate::{Estimate, bloom_fpr, equation3};
pub use filter::PaperFilter;
pub use resizer::{Resizer, Step, Thresholds};
pub use settings::{PaperError, Settings};
