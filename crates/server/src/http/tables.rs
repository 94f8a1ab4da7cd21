//! Tables: their settings and the state of their filters.

use std::sync::Arc;

use axum::http::StatusCode;
use jeton_auth::{AuthContext, Quota, Right};
use jeton_core::{Status, Table, TableSettings, rfc3339};
use serde::Serialize;
use utoipa::ToSchema;

use super::json;
use super::problem::{ErrorCode, HttpResult, Problem};
use super::request_context::{RequestContext, SMALL_BODY_BYTES_MAX};
use super::settings::SettingsBody;
use crate::Service;

#[derive(Debug, Serialize, ToSchema)]
pub struct TableBody {
    name: String,
    settings: SettingsBody,
    filters: Filters,
    /// Number of settings in effect: the current ones, and earlier ones whose ids are still in their window.
    eras: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Filters {
    dated: Option<FilterBody>,
    opaque: Option<FilterBody>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FilterBody {
    /// Memory in bytes.
    bytes: usize,
    /// Memory limit in bytes.
    bytes_max: usize,
    /// Number of ids, exact to about 2 %.
    ids: u64,
    generations: usize,
    /// Probability that the filter reports a new id as known; an exact table then looks the id up.
    estimated_error: f64,
    /// Limit of that probability.
    target: f64,
    /// Why the filter exceeds the limit, if it does.
    pressure: Option<String>,
}

/// A table that was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedTableBody {
    name: String,
    /// The time from which on the name can be used again. Until then, and while the counters are being
    /// removed, a creation under this name gets `/problems/name-reserved`.
    reserved_until: String,
}

/// The tables in which the client has any right.
#[derive(Debug, Serialize, ToSchema)]
pub struct TablesBody {
    tables: Vec<TableBody>,
}

impl TableBody {
    fn of(table: &Table) -> Self {
        let (dated, opaque) = table.present().status();
        Self {
            name: table.name.clone(),
            settings: SettingsBody::of(table.settings()),
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

/// Whether the client has any right in a table, and so may learn that the table exists.
fn has_any_right(auth: &AuthContext, service: &Service, table: &str) -> bool {
    let now = service.millis();
    Right::ALL.into_iter().any(|right| auth.may(table, right, now).is_ok())
}

/// Lists the tables in which the client has any right.
#[utoipa::path(
    get, path = "/v1/tables", operation_id = "listTables", tag = "tables",
    responses((status = 200, body = TablesBody, description = "The tables, oldest first."))
)]
pub async fn list(request: RequestContext) -> HttpResult {
    request.spend(1)?;
    let catalog = request.service().engine.catalog();
    let known = catalog.iter().filter(|table| has_any_right(&request.auth, request.service(), &table.name));
    let tables = known.map(|table| TableBody::of(table)).collect();
    Ok(json::ok(&TablesBody { tables }))
}

/// Returns the settings and filters of a table. Requires any right in it.
#[utoipa::path(
    get, path = "/v1/tables/{table}", operation_id = "readTable", tag = "tables",
    params(("table" = String, Path, description = "The table.")),
    responses((status = 200, body = TableBody, description = "The table."))
)]
pub async fn get(request: RequestContext) -> HttpResult {
    let name = request.table_name()?;
    if !has_any_right(&request.auth, request.service(), &name) {
        request.may(&name, Right::Read)?;
    }
    request.spend(1)?;
    let table = request.service().engine.table(&name)?;
    Ok(json::ok(&TableBody::of(&table)))
}

/// Creates a table or changes its settings.
///
/// The body has all settings: a missing one has its default. Equal settings change nothing. Ids that were
/// counted under earlier settings keep the window of those settings. Requires the right `admin`.
#[utoipa::path(
    put, path = "/v1/tables/{table}", operation_id = "putTable", tag = "tables", request_body = SettingsBody,
    params(("table" = String, Path, description = "The table: 1 to 64 of a-z, 0-9, '.', '_', '-'.")),
    responses((status = 200, body = TableBody, description = "The table existed and has these settings."),
        (status = 201, body = TableBody, description = "The table was created."))
)]
pub async fn put(mut request: RequestContext) -> HttpResult {
    let name = request.table_name()?;
    request.may(&name, Right::Admin)?;
    request.spend(1)?;
    // An empty body is no settings: it would reset all of them.
    let body = request.whole_within(SMALL_BODY_BYTES_MAX).await?;
    request.must_be(&["application/json"])?;
    let settings = json::object::<SettingsBody>(&body)?.settings()?;
    let auth = request.auth.clone();
    let (status, table) =
        request.app.run_blocking(move |service| create_or_change(service, &auth, &name, settings)).await??;
    Ok(json::response(status, &TableBody::of(&table)))
}

/// Maximum number of counters that a request for a deletion counts.
const COUNTED_MAX: usize = 1000;

/// Deletes a table with its counters and its ids.
///
/// Without `confirm` nothing changes, and the problem `/problems/confirmation-required` states what would be
/// deleted. Writes that arrive during the deletion get `/problems/busy`, later ones
/// `/problems/unknown-table`. Ids of the table never count in a later table of the same name. A table with
/// prepared branches and the default table cannot be deleted. A deletion cannot be undone. Requires the right
/// `admin`.
#[utoipa::path(
    delete, path = "/v1/tables/{table}", operation_id = "deleteTable", tag = "tables",
    params(("table" = String, Path, description = "The table."),
        ("confirm" = Option<String>, Query, description = "The name of the table, to confirm the deletion.")),
    responses((status = 200, body = DeletedTableBody, description = "The table is deleted."))
)]
pub async fn delete(request: RequestContext) -> HttpResult {
    let name = request.table_name()?;
    request.may(&name, Right::Admin)?;
    let query = request.query(&["confirm"])?;
    let confirmed = query.text("confirm")?.map(str::to_owned);
    request.spend(1)?;
    let table = request.service().engine.table(&name)?;
    let Some(engine) = request.service().engine.local().cloned() else {
        return Err(Problem::not_in_cluster("tables cannot be deleted: delete the counters instead"));
    };
    if name == request.service().options.default_table {
        return Err(Problem::bad_request(format!("{name:?} is the default table, which cannot be deleted")));
    }
    match confirmed {
        Some(confirmed) if confirmed == name => {}
        Some(confirmed) => {
            let detail = format!("`confirm` is {confirmed:?}, but the table is {name:?}");
            return Err(Problem::bad_request(detail));
        }
        None => return Err(unconfirmed(&request, table).await?),
    }
    let body = request.app.run_blocking(move |_| {
        let until = engine.delete_table(&name)?;
        Ok::<_, Problem>(DeletedTableBody {
            name,
            reserved_until: rfc3339::format(until.as_nanos() / 1_000_000),
        })
    });
    Ok(json::ok(&body.await??))
}

/// States what a deletion would delete.
async fn unconfirmed(request: &RequestContext, table: Arc<Table>) -> Result<Problem, Problem> {
    request.app.in_time(request.service().engine.stored()).await??;
    let (name, settings) = (table.name.clone(), SettingsBody::of(table.settings()));
    let list = move |service: &Service| service.engine.list(&table, b"", None, COUNTED_MAX + 1);
    let counters = request.app.run_blocking(list).await??.len();
    let detail = format!("repeat the request with ?confirm={name} to delete the table and its counters");
    let problem = Problem::new(ErrorCode::ConfirmationRequired, detail)
        .with("table", name)
        .with("counters", counters.min(COUNTED_MAX))
        .with("more_counters", counters > COUNTED_MAX);
    Ok(problem.with("settings", serde_json::to_value(settings).unwrap_or_default()))
}

fn create_or_change(
    service: &Service,
    auth: &AuthContext,
    name: &str,
    settings: TableSettings,
) -> Result<(StatusCode, Arc<Table>), Problem> {
    let engine = &service.engine;
    let change = |table: Arc<Table>| -> Result<_, Problem> {
        // A change starts an era, whose number is limited, so equal settings must not.
        let same = *table.settings() == settings;
        Ok((StatusCode::OK, if same { table } else { engine.change_table(name, settings.clone())? }))
    };
    if let Ok(table) = engine.table(name) {
        return change(table);
    }
    auth.take(Quota::Tables, 1)?;
    match engine.create_table(name, settings.clone()) {
        Ok(table) => Ok((StatusCode::CREATED, table)),
        Err(error) => {
            auth.give_back(Quota::Tables, 1);
            // Another request may have created the table in the meantime.
            change(engine.table(name).map_err(|_| error)?)
        }
    }
}
