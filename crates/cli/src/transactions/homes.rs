//! Where each procedure has its decisions, written down: they must stay there for as long as requests are remembered.
//!
//! A retry that looks in another place finds nothing, and is done a second time. So what was true at the first start is compared at every later one.

use std::collections::BTreeMap;

use bytes::Bytes;
use jeton_etx::Home;
use jeton_register::{Registers, Row, Slot};

const ROW: &str = "transactions-homes";

/// Why a procedure cannot be taken whose decisions were in another place before, if there is one; those that are new are written down. An error is one of the registers, and passes.
pub async fn check<R: Registers>(
    registers: &R,
    homes: impl Iterator<Item = (&str, Home)>,
) -> Result<Option<String>, String> {
    let found = registers.get_row(ROW).await.map_err(|why| why.to_string())?;
    let slot = found.as_ref().map_or(Slot::ZERO, |row| row.slot);
    let mut known: BTreeMap<String, String> = match &found {
        Some(row) => serde_json::from_slice(&row.bytes)
            .map_err(|why| format!("the row {ROW} cannot be read: {why}"))?,
        None => BTreeMap::new(),
    };
    let mut is_new = false;
    for (procedure, home) in homes {
        let home = match home {
            Home::Registers => "registers".to_owned(),
            Home::Resource(number) => format!("database {number}"),
        };
        match known.get(procedure) {
            Some(before) if *before != home => {
                return Ok(Some(format!(
                    "decisions about {procedure:?} were kept in {before} and now would be in {home}: a retry would be done twice. \
                     Give the changed procedure another name, or say where with decided_in"
                )));
            }
            Some(_) => {}
            None => {
                known.insert(procedure.to_owned(), home);
                is_new = true;
            }
        }
    }
    if is_new {
        let value = serde_json::to_vec(&known).map_err(|why| why.to_string())?;
        let row = Row { slot: Slot(slot.0 + 1), bytes: Bytes::from(value) };
        registers.put_row(ROW, row).await.map_err(|why| why.to_string())?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use jeton_register::block_on;
    use jeton_register::memory::Memory;

    use super::*;

    #[test]
    fn a_procedure_whose_decisions_would_move_is_refused() {
        let registers = Memory::new();
        let check = |homes: &[(&str, Home)]| block_on(check(&registers, homes.iter().copied()));
        assert_eq!(check(&[("a", Home::Registers)]), Ok(None));
        assert_eq!(check(&[("a", Home::Registers), ("b", Home::Resource(1))]), Ok(None));
        assert_eq!(check(&[("b", Home::Resource(1))]), Ok(None), "one that is gone is no matter");
        let why = check(&[("a", Home::Resource(0))]).unwrap().unwrap();
        assert!(why.contains("kept in registers and now would be in database 0"), "{why}");
        assert!(check(&[("b", Home::Resource(0))]).unwrap().is_some());
    }
}
