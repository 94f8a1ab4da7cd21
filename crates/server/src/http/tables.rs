//! Tables: which there are, what they promise, and how their filters are doing.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use jeton_auth::{AuthContext, Exhausted, Quota, Right};
use jeton_core::{Status, Table, TableSettings};
use serde::Serialize;
use utoipa::ToSchema;

use super::json;
use super::problem::{ErrorCode, Problem, ProblemBody};
use super::request_context::RequestContext;
use super::settings::{Settings, SettingsBody};
use crate::Service;

/// A table.
#[derive(Debug, Serialize, ToSchema)]
pub struct TableBody {
    /// Its name.
    name: String,
    /// What it promises.
    settings: Settings,
    /// How the filters of its ids are doing.
    filters: Filters,
    /// How often its settings were changed, within the time that promises made before still hold; and one.
    eras: usize,
}

/// The filters of a table.
#[derive(Debug, Serialize, ToSchema)]
pub struct Filters {
    /// Of ids that carry a time.
    dated: Option<FilterBody>,
    /// Of opaque ids.
    opaque: Option<FilterBody>,
}

/// How a filter is doing.
#[derive(Debug, Serialize, ToSchema)]
pub struct FilterBody {
    /// Bytes of memory.
    bytes: usize,
    /// The most bytes it may have.
    bytes_max: usize,
    /// Ids remembered, within a percent or two.
    ids: u64,
    /// Generations alive.
    generations: usize,
    /// The probability, now, that a new id is taken for a known one; in an exact table it is then looked up.
    estimated_error: f64,
    /// What that should stay below.
    target: f64,
    /// Why it cannot at present, if so.
    pressure: Option<String>,
}

/// All tables that the caller has any right in.
#[derive(Debug, Serialize, ToSchema)]
pub struct TablesBody {
    /// The tables.
    tables: Vec<TableBody>,
}

impl TableBody {
    fn of(table: &Table) -> Self {
        let (dated, opaque) = table.present().status();
        Self {
            name: table.name.clone(),
            settings: Settings::of(table.settings()),
            filters: Filters { dated: dated.map(FilterBody::of), opaque: opaque.map(FilterBody::of) },
            eras: table.eras().count(),
        }
    }
}

impl FilterBody {
    fn of(status: Status) -> Self {
        Self {
            bytes: status.bytes,
            bytes_max: status.memory_cap,
            ids: status.ids,
            generations: status.generations,
            estimated_error: status.false_positive_rate,
            target: status.target,
            pressure: status.pressure.map(|pressure| format!("{pressure:?}")),
        }
    }
}

/// Whether the caller has any right in a table: then it may know that the table is there.
fn may_know(pass: &AuthContext, service: &Service, table: &str) -> bool {
    let now = service.millis();
    Right::ALL.into_iter().any(|right| pass.may(table, right, now).is_ok())
}

/// Lists the tables in which the caller has any right.
#[utoipa::path(
    get, path = "/v1/tables", operation_id = "listTables", tag = "tables",
    responses((status = 200, body = TablesBody, description = "The tables, by age."))
)]
pub async fn list(asked: RequestContext) -> Result<Response<Body>, Problem> {
    asked.spend(1)?;
    let catalog = asked.service().engine.catalog();
    let known = catalog.iter().filter(|table| may_know(&asked.pass, asked.service(), &table.name));
    let tables = known.map(|table| TableBody::of(table)).collect();
    Ok(json::response(StatusCode::OK, &TablesBody { tables }))
}

/// Tells what a table promises and how it is doing. Any right in it will do.
#[utoipa::path(
    get, path = "/v1/tables/{table}", operation_id = "readTable", tag = "tables",
    params(("table" = String, Path, description = "The table.")),
    responses((status = 200, body = TableBody, description = "The table."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-table."))
)]
pub async fn get(asked: RequestContext) -> Result<Response<Body>, Problem> {
    let name = asked.table_name()?;
    if !may_know(&asked.pass, asked.service(), &name) {
        asked.may(&name, Right::Read)?;
    }
    asked.spend(1)?;
    let table = asked.service().engine.table(&name)?;
    Ok(json::response(StatusCode::OK, &TableBody::of(&table)))
}

/// Makes a table, or gives it other settings.
///
/// The body is the whole of its settings: what is left out takes its default. If they are what they were, nothing changes. Every
/// promise already made is kept: ids taken under the old settings are remembered for as long as those said. Needs the right `admin`.
#[utoipa::path(
    put, path = "/v1/tables/{table}", operation_id = "putTable", tag = "tables", request_body = SettingsBody,
    params(("table" = String, Path, description = "The table: 1 to 64 of a-z, 0-9, '.', '_', '-'.")),
    responses((status = 200, body = TableBody, description = "It was there, and has these settings now."),
        (status = 201, body = TableBody, description = "It was made."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "bad-json, bad-settings."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "forbidden, quota."))
)]
pub async fn put(mut asked: RequestContext) -> Result<Response<Body>, Problem> {
    let name = asked.table_name()?;
    asked.may(&name, Right::Admin)?;
    asked.spend(1)?;
    let settings = asked.json::<SettingsBody>().await?.settings()?;
    let pass = asked.pass.clone();
    let (status, table) = asked.app.aside(move |service| make(service, &pass, &name, settings)).await??;
    Ok(json::response(status, &TableBody::of(&table)))
}

fn make(
    service: &Service,
    pass: &AuthContext,
    name: &str,
    settings: TableSettings,
) -> Result<(StatusCode, Arc<Table>), Problem> {
    let engine = &service.engine;
    if let Ok(table) = engine.table(name) {
        // A change begins an era, and there can be only so many of them: none for nothing.
        let same = *table.settings() == settings;
        let table = if same { table } else { engine.change_table(name, settings)? };
        return Ok((StatusCode::OK, table));
    }
    let exhausted = |error: Exhausted| Problem::new(ErrorCode::Quota, error.to_string());
    pass.take(Quota::Tables, 1).map_err(exhausted)?;
    match engine.create_table(name, settings.clone()) {
        Ok(table) => Ok((StatusCode::CREATED, table)),
        Err(error) => {
            pass.give_back(Quota::Tables, 1);
            // Somebody else may have made it in the meantime: then it is there, as was asked for.
            match engine.table(name) {
                Ok(table) if *table.settings() == settings => Ok((StatusCode::OK, table)),
                Ok(_) => Ok((StatusCode::OK, engine.change_table(name, settings)?)),
                Err(_) => Err(error.into()),
            }
        }
    }
}
