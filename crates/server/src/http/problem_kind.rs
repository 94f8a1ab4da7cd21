//! The kinds of problems: each has a name, a status, and a page for the person who meets it.

use axum::http::StatusCode;

macro_rules! kinds {
    ($($kind:ident, $name:literal, $status:ident, $title:literal, $page:literal;)*) => {
        /// A kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $title] $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Its name: the last part of its address.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// The status of a response.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status,)* }
            }

            /// It in a few words.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$kind => $title,)* }
            }

            /// What it means and what to do, for its page.
            pub const fn page(self) -> &'static str {
                match self { $(Self::$kind => $page,)* }
            }
        }
    };
}

kinds! {
    BadRequest, "bad-request", BAD_REQUEST, "The request cannot be understood",
        "Something in the path, the query or a header is not as it should be; the detail says what. Nothing changed. Mend the request and \
         send it again, with the same id.";
    BadJson, "bad-json", BAD_REQUEST, "The body cannot be understood",
        "The body is not JSON, or has a member that is unknown, missing or of another type; the detail says which and where. Nothing \
         changed, and nothing is remembered under the id. Mend the body and send it again, with the same id. Whole numbers may be given \
         as strings, so that programs whose numbers end at 2^53 can send all of them.";
    IdRequired, "id-required", BAD_REQUEST, "The table wants an id on every write",
        "Make an id before you send the operation, and use the same id for every retry: as the member \"id\" of the body, or in the header \
         Idempotency-Key, in quotes. A table can be set to take writes without ids (without_id: \"at-most-once\"); a retry of such a \
         write counts again.";
    IdInvalid, "id-invalid", BAD_REQUEST, "The id is not one that the table takes",
        "A table says which formats of ids it takes, and an id is read in that format: what it is is never guessed from how it looks. If \
         the table takes several formats, an id begins with the name of its format and a colon, such as ulid:01ARZ3NDEKTSV4RRFFQ69G5FAV. \
         In the header Idempotency-Key the id is in quotes.";
    IdConflict, "id-conflict", BAD_REQUEST, "The header and the body have different ids",
        "The header Idempotency-Key and the member \"id\" of the body name two ids. Which one counts? Send one of them, or the same in both.";
    IdFromFuture, "id-from-future", BAD_REQUEST, "The id is dated in the future",
        "The id carries a time that is further ahead of the server's clock than the table allows (its skew). Nothing changed. Set the clock \
         of the client right; server_time is what it is here. The same id will be taken when its time has come near enough.";
    EpochAhead, "epoch-ahead", BAD_REQUEST, "The epoch is larger than any can be yet",
        "An epoch counts the lives of its client, or is the time of its start in milliseconds since 1970. Were a larger one taken, nobody \
         could ever begin a session above it. Nothing changed.";
    SeveralPartitions, "several-partitions", BAD_REQUEST, "The changes are not in one partition",
        "The changes of one operation are made all or none, and this takes that they are in one partition. Columns of one row always are. \
         So are rows with the same text in braces: {user7}clicks and {user7}views.";
    BadOperation, "bad-operation", BAD_REQUEST, "There cannot be such an operation",
        "A row, a column, a value, or the number of changes is beyond its limit, or bounds exclude every value; the detail says which. \
         Nothing changed.";
    BadSettings, "bad-settings", BAD_REQUEST, "A table cannot have these settings",
        "The member \"setting\" names the one that cannot be, the detail says what would be accepted. The table is as it was.";
    Unauthorized, "unauthorized", UNAUTHORIZED, "A valid token is needed",
        "Show a token: Authorization: Bearer jeton_... If you did, it is mistyped, expired, or was withdrawn. Nothing changed. Retry with \
         the same id once you have another.";
    Forbidden, "forbidden", FORBIDDEN, "The token does not give this right",
        "The rights are: read for reading, add for adding to counters, admin for setting, resetting, deleting and putting, and for making \
         and changing tables. Nothing changed. Whoever runs the server can give the token more rights.";
    BadParameters, "bad-parameters", BAD_REQUEST, "The procedure cannot be asked with these parameters",
        "A parameter is missing, unknown, of another kind or beyond its bounds; the detail says which. Nothing changed, and nothing is \
         remembered under the id. Mend the parameters and send them again, with the same id.";
    UnknownProcedure, "unknown-procedure", NOT_FOUND, "There is no such procedure",
        "Procedures are declared in the configuration file of the server, under [procedures]. Nothing changed.";
    UnknownTable, "unknown-table", NOT_FOUND, "There is no such table",
        "Tables are made by PUT /v1/tables/{table}; GET /v1/tables lists them. Nothing changed.";
    UnknownBranch, "unknown-branch", NOT_FOUND, "No such branch is held",
        "A branch is committed only if all of it is held. This one is not, and nothing is known of an end of it: it was never held, not everywhere, or it \
         ended longer ago than seven days. Nothing changed.";
    NotFound, "not-found", NOT_FOUND, "There is nothing at this address",
        "The addresses are described at /openapi.json, and on the page at /. In a path, a slash within a row is written %2F.";
    MethodNotAllowed, "method-not-allowed", METHOD_NOT_ALLOWED, "This address is not asked in this way",
        "The header Allow names the methods that are. They are described at /openapi.json.";
    NoAnswerYet, "no-answer-yet", CONFLICT, "There is no answer yet",
        "The operation was handed on, and the answer was not there within the time allowed. It may take effect or not: ask again with the \
         same id, after as many seconds as Retry-After says. You will get the first answer, and it counts once.";
    UnknownSession, "unknown-session", CONFLICT, "Nothing is known of this session",
        "The client of a sequenced id was idle for longer than the table's session_lease, or is new and has an epoch of that time. Whether \
         the operation was counted cannot be known any more; it is not counted now. Begin a session with an epoch above floor, such as the \
         present time in milliseconds since 1970.";
    Fenced, "fenced", CONFLICT, "A later life of this client has written",
        "The client of a sequenced id has begun a higher epoch, which ends all lower ones. If you are the later life, use its epoch. If not, \
         stop: another process has taken over. Nothing changed.";
    Overflow, "overflow", CONFLICT, "The counter would leave the range of 64-bit integers",
        "Counters are between -9223372036854775808 and 9223372036854775807. Nothing changed, and nothing is remembered under the id.";
    NotACounter, "not-a-counter", CONFLICT, "The cell holds bytes",
        "The cell was made to hold bytes (put), and cannot be added to. Nothing changed. Set, reset or delete it to make a counter of it.";
    BeyondBound, "beyond-bound", CONFLICT, "The counter has not enough to give, or no room",
        "A branch of a transaction asks for an addition with bounds, and the counter, which is at \"value\", would leave them. The branch is not held. \
         Whoever runs the transaction ends it.";
    BranchSettled, "branch-settled", CONFLICT, "The branch has ended",
        "The branch of this name has ended, as \"ending\" says: commit or abort. A branch that is ended once stays so, and is not held again. After an \
         abort that is what happens to a vote that comes late.";
    BackupTarget, "backup-target", CONFLICT, "A copy cannot be made there",
        "A copy of the store is made in a directory that is new or empty, that the server can write to, and that is not in the store itself. If \
         the server was started with backup_dir, it is below that directory. The detail says what is in the way. The store is as it was.";
    IdExpired, "id-expired", GONE, "The id is older than the table remembers",
        "Whether this id was counted is no longer known, and it is not counted now, nor ever. Do not send the operation under a new id \
         unless you know that it was not counted: that is how things are counted twice. Look at the counter, or at your own records. \
         window is how long the table remembers, server_time what time it is there; low_water, for sequenced ids, is the lowest number \
         that can still be answered.";
    TooLarge, "too-large", PAYLOAD_TOO_LARGE, "The body is too large",
        "Send less at a time, or use the import (POST /v1/tables/{table}/import), which takes any number of lines. Nothing changed.";
    MediaType, "media-type", UNSUPPORTED_MEDIA_TYPE, "The body is of another type than is taken here",
        "Say what the body is: Content-Type: application/json for most addresses, application/x-ndjson for imports, \
         application/cloudevents+json or application/cloudevents-batch+json for events. It is not guessed, so that no web page can make a \
         browser write here.";
    IdMismatch, "id-mismatch", UNPROCESSABLE_ENTITY, "The id was used for another operation",
        "An id stands for one operation. This id came before with another change, value or bound, and that one was taken; this one was not. \
         It is a mistake in the client: make a new id for every new operation, and keep it for its retries.";
    CellTooLarge, "cell-too-large", UNPROCESSABLE_ENTITY, "The cell would become too large",
        "A cell holds at most 65536 bytes. Nothing changed. Keep what is larger elsewhere, and its name here.";
    Throttled, "throttled", TOO_MANY_REQUESTS, "More than the rate of this token",
        "Wait as many seconds as Retry-After says, then send the same again, with the same id. If there is no Retry-After, the request has \
         more operations than the token may ever send at once: send fewer. Nothing changed.";
    Quota, "quota", FORBIDDEN, "The token may create no more",
        "The token has created as many tables or counters as it may; those that are there can be changed and read. Deleting one does not \
         make room. Whoever runs the server can allow the token more. Nothing changed now.";
    Storage, "storage", INTERNAL_SERVER_ERROR, "Something stored could not be read or written",
        "Retry with the same id. If it goes on, whoever runs the server finds the reason in its log.";
    Busy, "busy", SERVICE_UNAVAILABLE, "Too much is under way",
        "Nothing changed. Wait as many seconds as Retry-After says, then send the same again, with the same id.";
    Held, "held", SERVICE_UNAVAILABLE, "A transaction that is not settled stands in the way",
        "A transaction holds additions to this counter until it is committed or aborted, and what was asked for would not leave them room. Nothing \
         changed. Wait as many seconds as Retry-After says, then send the same again, with the same id. GET /v1/branches lists what is held, and for how long.";
    Full, "full", SERVICE_UNAVAILABLE, "There is no room to write",
        "Reads go on. Nothing changed. When there is room again, the same request with the same id will be taken.";
    Closing, "closing", SERVICE_UNAVAILABLE, "The server is closing",
        "Whether the operation took effect is not known here. Ask again with the same id: it counts once.";
    NotReady, "not-ready", SERVICE_UNAVAILABLE, "Writes are not possible at present",
        "Something keeps the server from storing; the detail says what. Reads go on.";
}
