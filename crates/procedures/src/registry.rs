//! All procedures of a server, as its [`ProcedureLogic`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use jeton_etx::{
    Branches, DecisionLocation, Dialect, ProcedureCall, ProcedureLogic, ProcedureResult, ResourceError,
};
use serde_json::{Map, Value as Json};

use crate::config::ProcedureConfig;
use crate::procedure::Procedure;

/// A database that procedures can use.
#[derive(Debug, Clone)]
pub struct Database {
    /// The name in the configuration.
    pub name: String,
    /// The number of the database in the cluster.
    pub number: u8,
    /// The placeholder syntax of its statements.
    pub dialect: Dialect,
    /// Whether it can record decisions.
    pub keeps_decisions: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("procedure {procedure:?}: {why}")]
pub struct DeclarationError {
    /// The name of the procedure.
    pub procedure: String,
    /// The reason.
    pub why: String,
}

/// The loaded procedures.
#[derive(Debug, Clone, Default)]
pub struct ProcedureRegistry {
    procedures: BTreeMap<String, Procedure>,
}

impl ProcedureRegistry {
    /// Loads all procedures.
    pub fn read(
        declared: &BTreeMap<String, ProcedureConfig>,
        databases: &[Database],
    ) -> Result<Self, DeclarationError> {
        let read = |(name, declared): (&String, &ProcedureConfig)| {
            let is_plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
            let procedure = if name.is_empty() || name.len() > 48 || !name.bytes().all(is_plain) {
                Err("a name has 1 to 48 characters of a-z, 0-9, _ and -".into())
            } else {
                Procedure::read(declared, databases)
            };
            let procedure = procedure.map_err(|why| DeclarationError { procedure: name.clone(), why })?;
            Ok((name.clone(), procedure))
        };
        Ok(Self { procedures: declared.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The names of the procedures with their decision locations.
    pub fn decision_locations(&self) -> impl Iterator<Item = (&str, DecisionLocation)> {
        self.procedures.iter().map(|(name, procedure)| (name.as_str(), procedure.decision_location))
    }
}

fn given(request: &ProcedureCall) -> Result<Map<String, Json>, String> {
    serde_json::from_slice(&request.parameters)
        .map_err(|why| format!("the parameters must be a JSON object: {why}"))
}

#[async_trait]
impl ProcedureLogic for ProcedureRegistry {
    fn decision_location(&self, procedure: &str) -> Option<DecisionLocation> {
        self.procedures.get(procedure).map(|procedure| procedure.decision_location)
    }

    fn check(&self, request: &ProcedureCall) -> Result<(), String> {
        match self.procedures.get(&request.procedure) {
            Some(procedure) => procedure.parameters(&given(request)?).map(drop),
            None => Err(format!("there is no procedure {:?}", request.procedure)),
        }
    }

    async fn execute(
        &self,
        request: &ProcedureCall,
        branches: &mut Branches,
    ) -> Result<ProcedureResult, ResourceError> {
        let parameters = match self.procedures.get(&request.procedure) {
            Some(procedure) => {
                given(request).and_then(|given| Ok((procedure, procedure.parameters(&given)?)))
            }
            None => Err(format!("there is no procedure {:?}", request.procedure)),
        };
        match parameters {
            Ok((procedure, parameters)) => procedure.run(parameters, branches).await,
            // The parameters were checked before. If a request fails here nevertheless, its outcome is final.
            Err(why) => Ok(ProcedureResult::Failed(why.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSFER: &str = r#"
        [transfer]
        about = "Moves money"
        parameters = { from = "integer", to = "integer", amount = { kind = "integer", min = 1 } }
        returns = { left = "debit.balance", amount = ":amount" }
        [[transfer.steps]]
        name = "debit"
        database = "ledger"
        run = "UPDATE account SET balance = balance - :amount WHERE id = :from RETURNING balance"
        require = [
            { that = "rows = 1", otherwise = "no such account" },
            { that = "balance >= 0", otherwise = "not enough" },
        ]
        [[transfer.steps]]
        database = "stock"
        run = "UPDATE account SET balance = balance + :amount WHERE id = :to"
        require = [{ that = "rows = 1", otherwise = "no such account" }]
    "#;

    fn databases() -> [Database; 2] {
        let of = |name: &str, number, dialect, keeps_decisions| Database {
            name: name.into(),
            number,
            dialect,
            keeps_decisions,
        };
        [of("ledger", 0, Dialect::Numbered, true), of("stock", 1, Dialect::Question, false)]
    }

    fn read(text: &str) -> Result<ProcedureRegistry, DeclarationError> {
        ProcedureRegistry::read(&toml::from_str(text).unwrap(), &databases())
    }

    #[test]
    fn decision_location_follows_from_the_procedure() {
        let decision_locations = |text: &str| read(text).unwrap().decision_location("transfer");
        assert_eq!(decision_locations(TRANSFER), Some(DecisionLocation::Registers));
        let here = TRANSFER.replace("about = ", "decision_store = \"ledger\"\nabout = ");
        assert_eq!(decision_locations(&here), Some(DecisionLocation::Resource(0)));
        let alone = TRANSFER.replace("database = \"stock\"", "database = \"ledger\"");
        assert_eq!(decision_locations(&alone), Some(DecisionLocation::Resource(0)));
        let elsewhere = TRANSFER.replace("database = \"ledger\"", "database = \"stock\"");
        assert_eq!(
            decision_locations(&elsewhere),
            Some(DecisionLocation::Registers),
            "a database that keeps no decisions"
        );
        assert_eq!(read(TRANSFER).unwrap().decision_location("nothing"), None);
    }

    #[test]
    fn parameters_are_checked_before_execution() {
        let registry = read(TRANSFER).unwrap();
        let check = |parameters: &str| {
            let request =
                ProcedureCall { procedure: "transfer".into(), parameters: parameters.to_owned().into() };
            registry.check(&request)
        };
        assert_eq!(check(r#"{"from": 1, "to": 2, "amount": 3}"#), Ok(()));
        for (parameters, word) in [
            (r#"{"from": 1, "to": 2}"#, "amount: missing"),
            (r#"{"from": 1, "to": 2, "amount": 0}"#, "at least 1"),
            (r#"{"from": 1, "to": 2, "amount": 3, "fee": 1}"#, "no parameter \"fee\""),
            ("[1]", "JSON object"),
        ] {
            let why = check(parameters).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn declaration_errors_are_reported() {
        for (from, to, word) in [
            (
                "database = \"stock\"",
                "database = \"stok\"",
                "there is no database \"stok\"; there are: ledger, stock",
            ),
            (":to\"", ":whom\"", "step 2: there is no parameter \"whom\""),
            ("rows = 1\", otherwise = \"no", "rows\", otherwise = \"no", "has no comparison"),
            ("debit.balance", "credit.balance", "returns \"left\": there is no step \"credit\""),
            ("\"integer\", to", "\"int\", to", "unknown kind \"int\""),
            ("about = ", "decision_store = \"stock\"\nabout = ", "cannot record decisions"),
            ("parameters = {", "parameters = { request = \"text\",", ":request is reserved"),
        ] {
            let text = TRANSFER.replace(from, to);
            assert_ne!(text, TRANSFER, "{from}");
            let why = read(&text).unwrap_err().to_string();
            assert!(why.contains(word), "{why}");
        }
    }
}
