//! The methods that both filters have with the same signature.

macro_rules! same_methods {
    ($rotator:ty, $state:ty) => {
        /// The fingerprint of an id under the filter's key.
        #[inline]
        pub fn fingerprint(&self, id: &[u8]) -> Fingerprint {
            self.key.fingerprint(id)
        }

        /// Memory, fill, and the current false-positive rate.
        pub fn status(&self) -> Status {
            self.lock_rotator().status()
        }

        /// Bytes of memory, as in [`status`](Self::status).
        pub fn bytes(&self) -> usize {
            self.lock_rotator().bytes()
        }

        /// Restores a filter from the bytes of a [`snapshot`](Self::snapshot), at the same time or later on
        /// the same timeline. Ids that have expired by `now` are left out; if they are dated, they are
        /// rejected from then on.
        ///
        /// The filter has the settings it was built with, but no larger memory cap than `memory_cap`:
        /// untrusted bytes must not decide how much memory is allocated.
        pub fn restore(
            bytes: &[u8],
            key: Key,
            now: Timestamp,
            memory_cap: usize,
        ) -> Result<Self, SnapshotError> {
            let rotator = snapshot::from_slice::<$state>(bytes, &key, now, (memory_cap, &Budget::default()))?;
            Ok(Self::with_rotator(rotator, key))
        }

        /// As [`restore`](Self::restore), from a reader. Reads exactly the bytes of the snapshot.
        pub fn read_snapshot(
            input: &mut dyn io::Read,
            key: Key,
            now: Timestamp,
            memory_cap: usize,
        ) -> Result<Self, SnapshotError> {
            Self::read_snapshot_within(input, key, now, memory_cap, &Budget::default())
        }

        /// As [`read_snapshot`](Self::read_snapshot), charged to a budget.
        pub fn read_snapshot_within(
            input: &mut dyn io::Read,
            key: Key,
            now: Timestamp,
            memory_cap: usize,
            budget: &Budget,
        ) -> Result<Self, SnapshotError> {
            let rotator = snapshot::read::<$state>(input, &key, now, (memory_cap, budget))?;
            Ok(Self::with_rotator(rotator, key))
        }

        fn lock_rotator(&self) -> MutexGuard<'_, $rotator> {
            sync::lock(&self.rotator)
        }
    };
}
pub(crate) use same_methods;
