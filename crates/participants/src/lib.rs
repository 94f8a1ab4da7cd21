//! PostgreSQL, MariaDB and Jeton itself as participants of e-Transactions.
//!
//! Each is a [`Resource`](jeton_etx::Resource). [`Jeton`] is made for this, and says itself how it keeps what it must. The two others have ways to say yes and mean no; what is done about each of them is said where it is done, and
//! `tests/` shows on the real engines that it helps. What must hold is said in [`jeton_etx::Resource`]; how it comes to hold:
//!
//! - *A lost branch never votes yes.* The vote begins with a statement that fails where there is no sound transaction ([`Postgres`]); after any error nothing is
//!   executed any more ([`MariaDb`]).
//! - *A commit is known.* Every branch that is prepared holds a row, its mark. "No such branch" means committed if the mark is there.
//! - *A connection is branchless or it belongs to a branch.* It goes back to the pool only when the branch on it ended by an answer of the database. Otherwise it
//!   is closed. No session is ever reset.
//! - *A session has the name of its server, in this life of it.* So those of a server that hangs are found, and ended by others.
//! - *Outside of a branch nothing is written.* A branch begins with its first statement ([`Postgres`]: in one breath, in a session that writes only in what it begins to write).
//!
//! Not for MySQL, Galera, or a MariaDB whose replicas matter: what XA does there is different, or is not replicated well.

/// Whether a planted bug acts here: never, unless the feature `mutations` is on.
#[cfg(feature = "mutations")]
macro_rules! mutated {
    ($name:ident) => {
        $crate::mutation::is_active($crate::mutation::Mutation::$name)
    };
}

/// Whether a planted bug acts here: never, unless the feature `mutations` is on.
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
