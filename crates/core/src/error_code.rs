//! The table of every rejection and error that a client can receive.
//!
//! Server, clients, CLI, metrics and `docs/errors.md` use this table. What must hold:
//! - A `code` names one row. It is the last part of the `type` of an HTTP problem and the `outcome` label of
//!   metrics.
//! - Several rows may share a RESP prefix. [`ErrorCode::from_resp_prefix`] then returns the most general row,
//!   which is the first one.
//! - `may_have_applied` is about the request that got the error, not about earlier attempts with the same id.

/// Declares the enum and the table from one list, so that neither can lack a row of the other.
macro_rules! error_codes {
    ($(
        $name:ident, $code:literal, $prefix:expr, $status:literal, $retryable:literal, $may_have_applied:literal,
        $title:literal, $action:literal;
    )*) => {
        /// A rejection or error that a client can receive.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = $title] $name,)*
        }

        const TABLE: &[Row] = &[$(Row {
            error: ErrorCode::$name,
            code: $code,
            resp_prefix: $prefix,
            http_status: $status,
            retryable: $retryable,
            may_have_applied: $may_have_applied,
            title: $title,
            action: $action,
        },)*];
    };
}

struct Row {
    error: ErrorCode,
    code: &'static str,
    resp_prefix: Option<&'static str>,
    http_status: u16,
    retryable: bool,
    may_have_applied: bool,
    title: &'static str,
    action: &'static str,
}

/// The RESP prefix of errors that Redis gives no prefix of their own.
const GENERIC_PREFIX: &str = "ERR";

// Columns: name, code, RESP prefix, HTTP status, retryable, may have applied; title; what to do.
error_codes! {
    BadRequest, "bad-request", None, 400, false, false, "The request is malformed",
        "The path, the query or a header is invalid; the detail names the part. Nothing changed. Correct the \
         request and send it again with the same id.";
    BadJson, "bad-json", None, 400, false, false, "The body is malformed",
        "The body is not JSON, or a member is unknown, missing or of the wrong type; the detail names it. Nothing \
         changed, and nothing is stored under the id. Correct the body and send it again with the same id. \
         Integers may be sent as strings, for clients whose numbers end at 2^53.";
    IdRequired, "id-required", Some("IDREQUIRED"), 400, false, false, "The table requires an id on every write",
        "Create an id before the first attempt and use the same id for every retry: as the member \"id\" of the \
         body, or in the header Idempotency-Key, in quotes. A table can accept writes without ids \
         (without_id: \"at-most-once\", or \"resp-only\" for commands of Redis); a retry of such a write counts again.";
    IdInvalid, "id-invalid", Some("IDFORMAT"), 400, false, false, "The table does not accept this id",
        "A table lists the id formats it accepts, and an id is parsed in that format; the format is never guessed. \
         If the table accepts several formats, an id starts with the name of its format and a colon, such as \
         ulid:01ARZ3NDEKTSV4RRFFQ69G5FAV. In the header Idempotency-Key the id is in quotes.";
    IdConflict, "id-conflict", None, 400, false, false, "Header and body have different ids",
        "The header Idempotency-Key and the member \"id\" of the body differ. Send one of them, or the same id in \
         both. Nothing changed.";
    IdFromFuture, "id-from-future", Some("IDFUTURE"), 400, false, false, "The id is dated in the future",
        "The id carries a time that is further ahead of the server's clock than the table's skew allows. Nothing \
         changed. Correct the clock of the client; server_time is the time of the server. The server accepts the \
         same id once its time is within the skew.";
    SeveralRoutingKeys, "several-routing-keys", Some("CROSSSLOT"), 400, false, false,
        "The rows of the operation do not have the same hash tag",
        "An operation is atomic and its id counts once for one routing key, so it changes one row, or rows with the \
         same hash tag: the text in braces of {user7}clicks and {user7}views. Rows without it are rejected, wherever \
         they are stored. Nothing changed.";
    BadOperation, "bad-operation", Some(GENERIC_PREFIX), 400, false, false, "The operation is invalid",
        "A row, a column, a value or the number of changes exceeds its limit, or the bounds exclude every value; the \
         detail names it. Nothing changed.";
    BadSettings, "bad-settings", None, 400, false, false, "The table settings are invalid",
        "The member \"setting\" names the invalid setting; the detail says which values are accepted. The table is \
         unchanged.";
    BadParameters, "bad-parameters", None, 400, false, false, "The parameters of the procedure are invalid",
        "A parameter is missing, unknown, of the wrong type or out of range; the detail names it. Nothing changed, \
         and nothing is stored under the id. Correct the parameters and send them again with the same id.";
    Unauthorized, "unauthorized", Some("NOAUTH"), 401, false, false, "A token is required",
        "Send a token: Authorization: Bearer jeton_... Nothing changed. Retry with the same id and a token.";
    TokenInvalid, "token-invalid", Some("WRONGPASS"), 401, false, false, "The token is not valid",
        "The token is mistyped, expired or revoked. Nothing changed. Retry with the same id and another token.";
    Forbidden, "forbidden", Some("NOPERM"), 403, false, false, "The token does not grant this right",
        "The rights are: read for reads; add for additions to counters; admin for set, reset, delete and put, and \
         for creating, changing and deleting tables. Nothing changed. The operator of the server can grant the token more \
         rights.";
    Quota, "quota", Some("QUOTA"), 403, false, false, "The token has reached its quota",
        "The token has created as many tables or counters as its quota allows; it can still change and read the \
         existing ones. Deleting one does not free quota. The operator of the server can raise the quota. Nothing \
         changed.";
    UnknownProcedure, "unknown-procedure", None, 404, false, false, "The procedure does not exist",
        "Procedures are declared in the configuration file of the server, under [procedures]. Nothing changed.";
    UnknownTable, "unknown-table", Some("NOTABLE"), 404, false, false, "The table does not exist",
        "It was deleted or never created. PUT /v1/tables/{table} creates a table; GET /v1/tables lists the existing ones. \
         Nothing changed.";
    UnknownBranch, "unknown-branch", None, 404, false, false, "The branch is not prepared",
        "A commit requires that every part of the branch is prepared. No outcome of this branch is recorded either: \
         it was never prepared, was prepared in part only, or finished more than seven days ago. Nothing changed.";
    NotFound, "not-found", None, 404, false, false, "The path does not exist",
        "/openapi.json and the page at / describe the paths. In a path, a slash within a row is written %2F.";
    MethodNotAllowed, "method-not-allowed", None, 405, false, false, "The path does not support this method",
        "The header Allow lists the supported methods. /openapi.json describes them.";
    OutcomeUnknown, "outcome-unknown", Some("IDBUSY"), 409, true, true, "The outcome is not known yet",
        "The server did not complete the operation within the request timeout. It may still take effect. Retry \
         with the same id after the seconds in Retry-After: the response is then the first result, and the \
         operation counts once.";
    UnknownSession, "unknown-session", Some("NOSESSION"), 409, false, false, "The session is unknown",
        "The client of a sequenced id was idle for longer than the table's session_lease, or is new and has an epoch \
         of that time. The server no longer knows whether an earlier attempt was counted; this one was not. Begin a \
         session with an epoch above floor, such as the current time in milliseconds since 1970.";
    EpochAhead, "epoch-ahead", Some("NOSESSION"), 400, false, false, "The epoch is too large",
        "An epoch counts the restarts of its client, or is the time of its start in milliseconds since 1970. No \
         later session could begin above a larger one, so the server rejects it. Nothing changed.";
    Fenced, "fenced", Some("FENCED"), 409, false, false, "A later epoch of this client has written",
        "The client of a sequenced id has begun a higher epoch, which ends all lower ones. If this process is the \
         later incarnation, use its epoch. If not, stop: another process has taken over. Nothing changed.";
    Overflow, "overflow", Some(GENERIC_PREFIX), 409, false, false,
        "The counter would leave the range of 64-bit integers",
        "Counters are between -9223372036854775808 and 9223372036854775807. Nothing changed, and nothing is stored \
         under the id.";
    NotACounter, "not-a-counter", Some(GENERIC_PREFIX), 409, false, false, "The cell contains bytes",
        "The cell contains bytes (put), and additions require a counter. Nothing changed. Set, reset or delete the \
         cell to make it a counter.";
    BeyondBound, "beyond-bound", Some(GENERIC_PREFIX), 409, false, false, "The counter would leave its bounds",
        "A branch of a transaction adds with bounds, and the counter, which is at \"value\", would leave them. The \
         branch is not prepared. The coordinator aborts the transaction.";
    BranchFinished, "branch-settled", None, 409, false, false, "The branch has finished",
        "The branch has finished with the outcome in \"ending\": commit or abort. The outcome is final, and the \
         branch cannot be prepared again. A prepare that arrives after an abort gets this error.";
    NameReserved, "name-reserved", None, 409, true, false, "The name belonged to a deleted table",
        "Until the name is free, a late retry of an operation of the deleted table could count in a new table of that \
         name, or its counters are still being removed. Nothing changed. Wait for the seconds in Retry-After, then \
         send the same request; or create the table under another name.";
    BackupTarget, "backup-target", None, 409, false, false, "The backup directory cannot be used",
        "A backup over HTTP needs the setting backup_dir of the server, and a directory below it that is new or empty \
         and outside the store. The detail names the obstacle. The store is unchanged.";
    IdExpired, "id-expired", Some("IDEXPIRED"), 410, false, false, "The id is older than the table's window",
        "The server no longer knows whether this id was counted, and does not count it now. Do not send the \
         operation under a new id unless you know that it was not counted: it could count twice. Check the counter \
         or your own records. window is how long the table keeps ids, server_time the time of the server; \
         low_water, for sequenced ids, is the lowest number that can still be counted.";
    TooLarge, "too-large", None, 413, false, false, "The body is too large",
        "Send less in one request, or use the import (POST /v1/tables/{table}/import), which accepts any number of \
         lines. Nothing changed.";
    MediaType, "media-type", None, 415, false, false, "The content type is not supported",
        "Set Content-Type: application/json for most paths, application/x-ndjson for imports, \
         application/cloudevents+json or application/cloudevents-batch+json for events, also without a body. The \
         server does not guess, so that no web page can make a browser write. Content-Encoding is not supported.";
    HostNotAllowed, "host-not-allowed", None, 421, false, false, "The server does not have this name",
        "The header Host must be an IP address, localhost, the host name of the machine, or a name in the setting \
         http_hosts of the server, so that no web page can reach the server under a name of its own. Nothing changed. \
         The operator can add names to http_hosts.";
    ConfirmationRequired, "confirmation-required", None, 428, false, false, "The deletion is not confirmed",
        "Nothing changed. The members table, settings, counters and more_counters state what would be deleted. To \
         delete it, repeat the request with the name of the table as the parameter confirm of the query. A deletion \
         cannot be undone.";
    HeadTooLarge, "head-too-large", None, 431, false, false, "The head of the request is too large",
        "Request line and headers have at most 65536 bytes. Nothing changed. Read fewer rows in one request, or send \
         the data in a body.";
    IdMismatch, "id-mismatch", Some("IDMISMATCH"), 422, false, false, "The id was used for another operation",
        "An id names one operation. An operation with another change, value or bound was counted under this id; this \
         one was not. This is an error in the client: create a new id for every new operation and keep it for its \
         retries.";
    CellTooLarge, "cell-too-large", Some(GENERIC_PREFIX), 422, false, false, "The cell would become too large",
        "A cell contains at most 65536 bytes. Nothing changed. Store larger values elsewhere and their names here.";
    NotInCluster, "not-in-cluster", Some(GENERIC_PREFIX), 501, false, false, "A cluster does not support the request",
        "The server is a node of a cluster, which does not support this request yet; the detail has the reason, and \
         docs/cluster.md the list. Nothing changed.";
    Busy, "busy", Some("BUSY"), 503, true, false, "The server is busy",
        "Too many requests are in flight, or no node of the cluster owns the counter at present. Nothing changed. Wait for the seconds in Retry-After, then send the same request with the same id.";
    Throttled, "throttled", Some("BUSY"), 429, true, false, "The rate limit of the token is exceeded",
        "Wait for the seconds in Retry-After, then send the same request with the same id. Without a Retry-After the \
         request has more operations than the token may send at once: send fewer. Nothing changed.";
    Prepared, "held", Some("BUSY"), 503, true, false, "A prepared transaction blocks the operation",
        "A transaction has reserved additions to this counter until it commits or aborts, and the operation would \
         leave them no room. Nothing changed. Wait for the seconds in Retry-After, then send the same request with \
         the same id. GET /v1/branches lists the prepared branches and their ages.";
    Storage, "storage", Some("STORAGE"), 500, false, true, "Stored data could not be read or written",
        "The operation may have been stored. Retry with the same id. If the error persists, the log of the server \
         has the reason.";
    Full, "full", Some("MISCONF"), 503, true, false, "The disk is full",
        "Reads still work. Nothing changed. Once there is space again, the server accepts the same request with the \
         same id.";
    Closing, "closing", Some("LOADING"), 503, true, true, "The server is shutting down",
        "The operation may have been stored. Retry with the same id: it counts once.";
    NotReady, "not-ready", None, 503, true, false, "The server cannot write",
        "The server cannot store anything at present; the detail has the reason. Reads still work. Nothing changed.";
}

impl ErrorCode {
    /// Every error, in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|row| row.error)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The kebab-case name: the last part of the `type` of a problem, and the label of metrics.
    pub fn code(self) -> &'static str {
        self.row().code
    }

    /// The first word of the error in RESP; `None` if the error occurs over HTTP only.
    pub fn resp_prefix(self) -> Option<&'static str> {
        self.row().resp_prefix
    }

    /// The status of an HTTP response: 400 to 599.
    pub fn http_status(self) -> u16 {
        self.row().http_status
    }

    /// Whether the same request with the same id can succeed later without any other change.
    pub fn is_retryable(self) -> bool {
        self.row().retryable
    }

    /// Whether the request that got this error may have taken effect, or may still do so.
    pub fn may_have_applied(self) -> bool {
        self.row().may_have_applied
    }

    /// One line that describes the error.
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// What the error means for the caller and what to do about it.
    pub fn action(self) -> &'static str {
        self.row().action
    }

    /// The error that a RESP error line starts with. `None` for `ERR`, which many errors share, and for
    /// prefixes that only Redis defines.
    pub fn from_resp_prefix(prefix: &str) -> Option<Self> {
        if prefix == GENERIC_PREFIX {
            return None;
        }
        TABLE.iter().find(|row| row.resp_prefix == Some(prefix)).map(|row| row.error)
    }

    /// The error that the `type` of an HTTP problem names: `/problems/busy`, with or without what precedes
    /// the code.
    pub fn from_problem_type(problem_type: &str) -> Option<Self> {
        let code = problem_type.rsplit('/').next().unwrap_or_default();
        TABLE.iter().find(|row| row.code == code).map(|row| row.error)
    }
}

/// The table as the text of `docs/errors.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Errors\n\n\
         Generated from `crates/core/src/error_code.rs` by `UPDATE_DOCS=1 cargo test -p jeton-core error_codes`.\n\n\
         Over HTTP an error is an `application/problem+json` whose `type` is `/problems/{code}`. Over RESP an error\n\
         line starts with the prefix; a prefix stands for several errors where this table lists it more than once.\n\
         *Retry*: the same request with the same id can succeed later. *Applied*: the request may have taken effect.\n\n\
         | code | RESP | HTTP | retry | applied | meaning |\n|---|---|--:|---|---|---|\n",
    );
    let yes = |is: bool| if is { "yes" } else { "no" };
    for row in TABLE {
        let prefix = row.resp_prefix.map_or(String::from("–"), |prefix| format!("`{prefix}`"));
        let (retry, applied) = (yes(row.retryable), if row.may_have_applied { "perhaps" } else { "no" });
        text += &format!(
            "| [`{0}`](#{0}) | {prefix} | {1} | {retry} | {applied} | {2} |\n",
            row.code, row.http_status, row.title
        );
    }
    for row in TABLE {
        text += &format!("\n## {}\n\n{}. {}\n", row.code, row.title, row.action);
    }
    text
}
