//! Where each procedure has its decisions, written down: they must stay there for as long as requests are remembered.
//!
//! A retry that looks in another place finds nothing, and is done a second time. So what was true at the first start is compared at every later one. It stands in a log of registers, one for
//! each procedure: servers that start at the same moment with different procedures find each other's there.

use std::collections::BTreeMap;

use jeton_etx::DecisionLocation;
use jeton_register::{Batch, Log, Registers, Slot, Space, Written};

const HOMES: Log = Log { space: Space::Deployment, id: 1 };

/// Why a procedure cannot be taken whose decisions were in another place before, if there is one; those that are new are written down. An error is one of the registers, and passes.
pub async fn check<R: Registers>(
    registers: &R,
    homes: impl Iterator<Item = (&str, DecisionLocation)>,
) -> Result<Option<String>, String> {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut next = Slot(1);
    for (procedure, home) in homes {
        let home = match home {
            DecisionLocation::Registers => "registers".to_owned(),
            DecisionLocation::Resource(number) => format!("database {number}"),
        };
        while !known.contains_key(procedure) {
            let (procedure, home) = stands(registers, next, procedure, &home).await?;
            known.insert(procedure, home);
            next = next.next();
        }
        if let Some(before) = known.get(procedure).filter(|before| **before != home) {
            return Ok(Some(format!(
                "decisions about {procedure:?} were kept in {before} and now would be in {home}: a retry would be done twice. \
                 Give the changed procedure another name, or say where with decided_in"
            )));
        }
    }
    Ok(None)
}

/// What stands in a register: this, if it was empty.
async fn stands<R: Registers>(
    registers: &R,
    slot: Slot,
    procedure: &str,
    home: &str,
) -> Result<(String, String), String> {
    let bytes = serde_json::to_vec(&(procedure, home)).map_err(|why| why.to_string())?;
    let mut batch = Batch::new();
    batch.push(HOMES, slot, &bytes);
    let permit = registers.admit(1, bytes.len()).map_err(|why| why.to_string())?;
    let written = registers.write(batch, permit).await.map_err(|why| why.to_string())?;
    match written.into_iter().next() {
        Some(Written::Fresh) => Ok((procedure.to_owned(), home.to_owned())),
        Some(Written::Taken(stands)) => serde_json::from_slice(&stands)
            .map_err(|why| format!("the register {HOMES}/{slot} cannot be read: {why}")),
        Some(Written::Trimmed) | None => Err(format!("the register {HOMES}/{slot} is gone")),
    }
}

#[cfg(test)]
mod tests {
    use jeton_register::block_on;
    use jeton_register::memory::Memory;

    use super::*;

    #[test]
    fn a_procedure_whose_decisions_would_move_is_refused() {
        let registers = Memory::new();
        let check = |homes: &[(&str, DecisionLocation)]| block_on(check(&registers, homes.iter().copied()));
        assert_eq!(check(&[("a", DecisionLocation::Registers)]), Ok(None));
        assert_eq!(
            check(&[("a", DecisionLocation::Registers), ("b", DecisionLocation::Resource(1))]),
            Ok(None)
        );
        assert_eq!(check(&[("b", DecisionLocation::Resource(1))]), Ok(None), "one that is gone is no matter");
        let why = check(&[("a", DecisionLocation::Resource(0))]).unwrap().unwrap();
        assert!(why.contains("kept in registers and now would be in database 0"), "{why}");
        assert!(check(&[("b", DecisionLocation::Resource(0))]).unwrap().is_some());
        let written = block_on(registers.read(HOMES, Slot(1), 9)).unwrap();
        assert_eq!(written.len(), 2, "each procedure once: {written:?}");
    }

    /// Of two that start at the same moment with a new procedure each, neither is lost.
    #[test]
    fn those_who_write_at_the_same_moment_find_each_other() {
        let registers = Memory::new();
        let (one, other) = (("a", DecisionLocation::Registers), ("b", DecisionLocation::Resource(1)));
        std::thread::scope(|scope| {
            for new in [one, other] {
                let registers = &registers;
                scope.spawn(move || assert_eq!(block_on(check(registers, [new].into_iter())), Ok(None)));
            }
        });
        for moved in [("a", DecisionLocation::Resource(1)), ("b", DecisionLocation::Registers)] {
            let found = block_on(check(&registers, [moved].into_iter()));
            assert!(found.unwrap().is_some(), "{moved:?}");
        }
    }
}
