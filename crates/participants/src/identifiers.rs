//! Names and encodings used in the databases.

use jeton_etx::{Cluster, CoordinatorId};

/// The label of the sessions of one incarnation of a server.
pub fn session_label(coordinator: CoordinatorId) -> String {
    let CoordinatorId { server, incarnation, .. } = coordinator;
    format!("etx:{server:04x}{incarnation:016x}")
}

/// The range of branch names of all sessions below `session`. Names have a fixed width and begin with the
/// cluster and the session, so those of older sessions are contiguous.
pub fn markers_below(Cluster { number, deployment }: Cluster, session: u128) -> (String, String) {
    let start = format!("etx1:{number:08x}{deployment:08x}");
    let end = format!("{start}{session:032x}");
    (start, end)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
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
    use jeton_etx::{AttemptId, AttemptNumber, DecisionLocation, RequestId};

    #[test]
    fn labels_fit_the_limits_of_the_databases() {
        let coordinator = CoordinatorId { server: u16::MAX, incarnation: u64::MAX, work: u64::MAX };
        // PostgreSQL truncates application names to 63 bytes, MariaDB rejects lock names above 64.
        assert!(session_label(coordinator).len() + 3 <= 63);
    }

    #[test]
    fn markers_of_older_sessions_are_a_range() {
        let gid = |cluster: Cluster, session| {
            let coordinator = CoordinatorId { server: 1, incarnation: 2, work: 3 };
            let request = RequestId { session, sequence: 1 };
            let (number, decision_location) = (AttemptNumber::FIRST, DecisionLocation::Registers);
            AttemptId { request, number, coordinator, decision_location }.branch(cluster, 0, 4).gid()
        };
        let of = |number, deployment| Cluster { number, deployment };
        let (from, to) = markers_below(of(7, 1), 100);
        let contains = |gid: String| gid >= from && gid < to;
        assert!(contains(gid(of(7, 1), 0)) && contains(gid(of(7, 1), 99)));
        assert!(!contains(gid(of(7, 1), 100)));
        for others in [of(6, 1), of(8, 1), of(7, 0), of(7, 2)] {
            assert!(!contains(gid(others, 99)), "{others:?}");
        }
    }

    #[test]
    fn hex_round_trip() {
        assert_eq!(unhex(&hex(&[0, 15, 255])), Some(vec![0, 15, 255]));
        assert_eq!((unhex("0"), unhex("zz"), unhex("")), (Some(vec![0]), None, Some(vec![])));
    }
}
