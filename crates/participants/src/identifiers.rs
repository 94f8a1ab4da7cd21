//! What things are called in the databases.

use jeton_etx::{Cluster, CoordinatorId};

/// A connection on which a server works says so by this name, which the server has for one life.
pub fn at_work(executor: CoordinatorId) -> String {
    let CoordinatorId { server, incarnation, .. } = executor;
    format!("etx:{server:04x}{incarnation:016x}")
}

/// Where the names of branches of these sessions begin and end, for the table of marks: names are of fixed width and begin with cluster
/// and session, so those of older sessions are a range.
pub fn marks_below(Cluster { number, deployment }: Cluster, session: u128) -> (String, String) {
    let of_the_cluster = format!("etx1:{number:08x}{deployment:08x}");
    let end = format!("{of_the_cluster}{session:032x}");
    (of_the_cluster, end)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _never_fails = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of hexadecimal digits.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jeton_etx::{AttemptNumber, DecisionLocation, RequestId, Xid};

    #[test]
    fn names_fit_where_databases_cut_them() {
        let executor = CoordinatorId { server: u16::MAX, incarnation: u64::MAX, work: u64::MAX };
        // PostgreSQL cuts names of applications at 63 bytes, MariaDB refuses locks beyond 64.
        assert!(at_work(executor).len() + 3 <= 63);
    }

    #[test]
    fn marks_of_older_sessions_are_a_range() {
        let gid = |cluster: Cluster, session| {
            let executor = CoordinatorId { server: 1, incarnation: 2, work: 3 };
            let request = RequestId { session, sequence: 1 };
            let (attempt, home) = (AttemptNumber::FIRST, DecisionLocation::Registers);
            Xid { cluster, request, attempt, home, executor, resource: 0, connection: 4 }.gid()
        };
        let of = |number, deployment| Cluster { number, deployment };
        let (from, to) = marks_below(of(7, 1), 100);
        let is_in = |gid: String| gid >= from && gid < to;
        assert!(is_in(gid(of(7, 1), 0)) && is_in(gid(of(7, 1), 99)));
        assert!(!is_in(gid(of(7, 1), 100)));
        for others in [of(6, 1), of(8, 1), of(7, 0), of(7, 2)] {
            assert!(!is_in(gid(others, 99)), "{others:?}");
        }
    }

    #[test]
    fn bytes_are_read_as_written() {
        assert_eq!(unhex(&hex(&[0, 15, 255])), Some(vec![0, 15, 255]));
        assert_eq!((unhex("0"), unhex("zz"), unhex("")), (Some(vec![0]), None, Some(vec![])));
    }
}
