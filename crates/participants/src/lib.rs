//! PostgreSQL, MariaDB and Jeton as participants of e-Transactions.
//!
//! Each is a [`Resource`](jeton_etx::Resource), which states the guarantees. [`Jeton`] was built for them.
//! PostgreSQL and MariaDB report success without effect in some states; the code that protects against each
//! case documents it, and `tests/` shows on the real engines that it works. How the guarantees are met:
//!
//! - *A lost branch never votes yes.* The vote begins with a statement that fails outside of a valid
//!   transaction ([`Postgres`]); after an error nothing more is executed ([`MariaDb`]).
//! - *A commit is known.* Every prepared branch contains a row, its commit marker. "No such branch" means
//!   committed if the marker exists.
//! - *A connection is idle or belongs to one branch.* It returns to the pool only after the database
//!   confirmed the end of its branch. Otherwise it is closed. No session is ever reset.
//! - *A session is labelled with its server and incarnation.* So other servers can find and terminate the
//!   sessions of a suspected server.
//! - *Outside of a branch nothing is written.* A branch begins with its first statement ([`Postgres`]: in one
//!   round trip, in a session that is read-only otherwise).
//!
//! MySQL, Galera and MariaDB with replicas are not supported: XA works differently there, or is not
//! replicated safely.

/// Whether a planted bug is active here. Constant `false` without the feature `mutations`.
#[cfg(feature = "mutations")]
macro_rules! mutated {
    ($name:ident) => {
        $crate::mutation::is_active($crate::mutation::Mutation::$name)
    };
}

/// Whether a planted bug is active here. Constant `false` without the feature `mutations`.
#[cfg(not(feature = "mutations"))]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}

mod driver;
mod identifiers;
mod jeton;
mod mariadb;
#[cfg(feature = "mutations")]
pub mod mutation;
mod pool;
mod postgres;
mod query_error;
mod settings;
mod statement_class;
mod xa_branch;
mod xa_resource;

pub use jeton::Jeton;
pub use mariadb::MariaDb;
pub use postgres::Postgres;
pub use settings::Settings;
