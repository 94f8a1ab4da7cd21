//! The decision location of every procedure must not change while its requests are remembered.
//!
//! A retry that reads another location finds no decision and executes the request a second time. The
//! location of each procedure is therefore written to a log of registers at its first start and compared at
//! every later one. Registers are write-once, so servers that start at the same time with different
//! procedures see each other's entries.

use std::collections::BTreeMap;

use jeton_register::{Batch, Error, LogId, LogKind, Registers, Slot, WriteResult};

use crate::DecisionLocation;

const LOCATIONS: LogId = LogId { kind: LogKind::Deployment, id: 1 };

/// Why the decision locations of the procedures were not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionLocationError {
    /// The decisions of a procedure are in another location. Permanent.
    #[error(
        "the decisions of procedure {procedure:?} are in {recorded}, and the configuration now puts them in {new}: \
         a retry would execute twice. Give the changed procedure a new name, or set decision_store to the old location"
    )]
    Moved {
        /// The name of the procedure.
        procedure: String,
        /// The location in the registers.
        recorded: String,
        /// The location in the configuration.
        new: String,
    },
    /// An entry of the log is unreadable. Permanent.
    #[error("the record of decision locations in register {LOCATIONS}/{0} is unreadable")]
    Unreadable(Slot),
    /// The registers are not available now. Retry later.
    #[error(transparent)]
    Unavailable(#[from] Error),
}

/// Compares the decision locations of procedures with the recorded ones, and records those of new procedures.
pub async fn check_decision_locations<R: Registers>(
    registers: &R,
    locations: impl Iterator<Item = (&str, DecisionLocation)>,
) -> Result<(), DecisionLocationError> {
    let mut recorded: BTreeMap<String, String> = BTreeMap::new();
    let mut next = Slot(1);
    for (procedure, location) in locations {
        let location = match location {
            DecisionLocation::Registers => "registers".to_owned(),
            DecisionLocation::Resource(number) => format!("database {number}"),
        };
        while !recorded.contains_key(procedure) {
            let (procedure, location) = write_or_read(registers, next, procedure, &location).await?;
            recorded.insert(procedure, location);
            next = next.next();
        }
        if let Some(before) = recorded.get(procedure).filter(|before| **before != location) {
            return Err(DecisionLocationError::Moved {
                procedure: procedure.to_owned(),
                recorded: before.clone(),
                new: location,
            });
        }
    }
    Ok(())
}

/// Writes an entry to a register and returns it, or the entry that the register already contains.
async fn write_or_read<R: Registers>(
    registers: &R,
    slot: Slot,
    procedure: &str,
    location: &str,
) -> Result<(String, String), DecisionLocationError> {
    let bytes = serde_json::json!([procedure, location]).to_string().into_bytes();
    let mut batch = Batch::new();
    batch.push(LOCATIONS, slot, &bytes);
    let permit = registers.admit(1, bytes.len())?;
    let written = registers.write(batch, permit).await?;
    match written.into_iter().next() {
        Some(WriteResult::Fresh) => Ok((procedure.to_owned(), location.to_owned())),
        Some(WriteResult::Taken(entry)) => {
            serde_json::from_slice(&entry).map_err(|_| DecisionLocationError::Unreadable(slot))
        }
        Some(WriteResult::Trimmed | WriteResult::Gap) | None => Err(DecisionLocationError::Unreadable(slot)),
    }
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;
    use jeton_register::memory::MemoryRegisters;

    use super::*;

    const A: (&str, DecisionLocation) = ("a", DecisionLocation::Registers);
    const B: (&str, DecisionLocation) = ("b", DecisionLocation::Resource(1));

    fn check(
        registers: &MemoryRegisters,
        locations: &[(&str, DecisionLocation)],
    ) -> Result<(), DecisionLocationError> {
        block_on(check_decision_locations(registers, locations.iter().copied()))
    }

    #[test]
    fn a_procedure_with_a_moved_location_is_rejected() {
        let registers = MemoryRegisters::new();
        assert_eq!(check(&registers, &[A]), Ok(()));
        assert_eq!(check(&registers, &[A, B]), Ok(()));
        assert_eq!(check(&registers, &[B]), Ok(()), "a removed procedure does not matter");
        let moved = check(&registers, &[("a", DecisionLocation::Resource(0))]).unwrap_err();
        let expected = DecisionLocationError::Moved {
            procedure: "a".into(),
            recorded: "registers".into(),
            new: "database 0".into(),
        };
        assert_eq!(moved, expected);
        assert!(check(&registers, &[("b", DecisionLocation::Resource(0))]).is_err());
        let entries = block_on(registers.read(LOCATIONS, Slot(1), 9)).unwrap();
        assert_eq!(entries.len(), 2, "one entry per procedure: {entries:?}");
    }

    #[test]
    fn concurrent_starts_record_both_procedures() {
        let registers = MemoryRegisters::new();
        std::thread::scope(|scope| {
            for new in [A, B] {
                let registers = &registers;
                scope.spawn(move || assert_eq!(check(registers, &[new]), Ok(())));
            }
        });
        for moved in [("a", DecisionLocation::Resource(1)), ("b", DecisionLocation::Registers)] {
            assert!(check(&registers, &[moved]).is_err(), "{moved:?}");
        }
    }

    #[test]
    fn an_unreadable_record_is_an_error() {
        let registers = MemoryRegisters::new();
        let mut batch = Batch::new();
        batch.push(LOCATIONS, Slot(1), b"not JSON");
        block_on(registers.write(batch, registers.admit(1, 8).unwrap())).unwrap();
        assert_eq!(check(&registers, &[A]), Err(DecisionLocationError::Unreadable(Slot(1))));
    }
}
