//! The name of a branch: the part of an attempt in one database.
//!
//! It is an XA identifier of two parts. The first (`gtrid`) names the attempt; the second (`bqual`) names the
//! coordinator, the database and the connection. So any server that finds the branch can read its decision
//! and terminate its session. Both parts are digits of a fixed width: a name has exactly one encoding.

use crate::{AttemptNumber, Cluster, CoordinatorId, DecisionLocation, RequestId};

/// The format id of our XA identifiers: "JETX".
const FORMAT: u32 = 0x4a45_5458;

/// Prefix of the one-part names in PostgreSQL.
const PREFIX: &str = "etx1:";

/// The name of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid {
    /// The cluster, which identifies our branches in a shared database.
    pub cluster: Cluster,
    pub request: RequestId,
    /// The attempt of the request.
    pub attempt: AttemptNumber,
    /// Where the decision of the attempt is recorded.
    pub decision_location: DecisionLocation,
    /// The coordinator that began it.
    pub coordinator: CoordinatorId,
    /// The number of the database in the settings of the cluster.
    pub resource: u8,
    /// The connection that began it, by the database's own number.
    pub connection: u64,
}

/// A name that does not belong to a branch of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a branch of this system")]
pub struct ForeignXid;

impl Xid {
    /// The format id of the XA identifier.
    pub const FORMAT: u32 = FORMAT;

    /// The part that names the attempt: 60 digits.
    pub fn gtrid(&self) -> String {
        let RequestId { session, sequence } = self.request;
        let (Cluster { number, deployment }, decision_location) =
            (self.cluster, self.decision_location.number());
        format!(
            "{number:08x}{deployment:08x}{session:032x}{sequence:08x}{:02x}{decision_location:02x}",
            self.attempt.0
        )
    }

    /// The part that names the branch: 54 digits.
    pub fn bqual(&self) -> String {
        let CoordinatorId { server, incarnation, work } = self.coordinator;
        let (resource, connection) = (self.resource, self.connection);
        format!("{server:04x}{incarnation:016x}{work:016x}{resource:02x}{connection:016x}")
    }

    /// Parses the two-part name.
    pub fn from_xid(format: u32, gtrid: &[u8], bqual: &[u8]) -> Result<Self, ForeignXid> {
        if format != FORMAT {
            return Err(ForeignXid);
        }
        let (mut attempt_part, mut branch_part) = (Digits(gtrid), Digits(bqual));
        let name = Self {
            cluster: Cluster {
                number: attempt_part.take(8)? as u32,
                deployment: attempt_part.take(8)? as u32,
            },
            request: RequestId { session: attempt_part.take(32)?, sequence: attempt_part.take(8)? as u32 },
            attempt: AttemptNumber(attempt_part.take(2)? as u8),
            decision_location: DecisionLocation::from_number(attempt_part.take(2)? as u8),
            coordinator: CoordinatorId {
                server: branch_part.take(4)? as u16,
                incarnation: branch_part.take(16)? as u64,
                work: branch_part.take(16)? as u64,
            },
            resource: branch_part.take(2)? as u8,
            connection: branch_part.take(16)? as u64,
        };
        let attempts = 1..=crate::ATTEMPTS_MAX;
        let whole = attempt_part.0.is_empty() && branch_part.0.is_empty();
        if whole && attempts.contains(&name.attempt.0) { Ok(name) } else { Err(ForeignXid) }
    }

    /// The one-part name for PostgreSQL: 120 characters.
    pub fn gid(&self) -> String {
        format!("{PREFIX}{}:{}", self.gtrid(), self.bqual())
    }

    /// Parses the one-part name.
    pub fn from_gid(gid: &str) -> Result<Self, ForeignXid> {
        let (gtrid, bqual) =
            gid.strip_prefix(PREFIX).and_then(|parts| parts.split_once(':')).ok_or(ForeignXid)?;
        Self::from_xid(FORMAT, gtrid.as_bytes(), bqual.as_bytes())
    }
}

/// Hexadecimal digits in lower case, most significant first.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn take(&mut self, count: usize) -> Result<u128, ForeignXid> {
        let (digits, rest) = self.0.split_at_checked(count).ok_or(ForeignXid)?;
        self.0 = rest;
        digits.iter().try_fold(0, |number, digit| match digit {
            b'0'..=b'9' => Ok(number << 4 | u128::from(digit - b'0')),
            b'a'..=b'f' => Ok(number << 4 | u128::from(digit - b'a' + 10)),
            _ => Err(ForeignXid),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Xid {
        Xid {
            cluster: Cluster { number: 0xc1, deployment: 0xd2 },
            request: RequestId { session: 0x0192_8f00_dead_7000_8000_0000_0000_00ff, sequence: 12 },
            attempt: AttemptNumber(3),
            decision_location: DecisionLocation::Registers,
            coordinator: CoordinatorId { server: 2, incarnation: u64::MAX, work: 9 },
            resource: 1,
            connection: 4_711,
        }
    }

    #[test]
    fn name_round_trip() {
        let name = name();
        assert_eq!(Xid::from_gid(&name.gid()), Ok(name));
        let (gtrid, bqual) = (name.gtrid(), name.bqual());
        assert_eq!(Xid::from_xid(FORMAT, gtrid.as_bytes(), bqual.as_bytes()), Ok(name));
        // XA allows 64 bytes for each part, PostgreSQL 200 for the whole name.
        let elsewhere = Xid { decision_location: DecisionLocation::Resource(1), ..name };
        assert_eq!(Xid::from_gid(&elsewhere.gid()), Ok(elsewhere));
        assert!(gtrid.len() <= 64 && bqual.len() <= 64 && name.gid().len() < 200);
    }

    #[test]
    fn foreign_names_are_rejected() {
        let gid = name().gid();
        let longer = format!("{gid}0");
        let upper = gid.replace('f', "F");
        let foreign = gid.replace("etx1", "etx2");
        let parts = gid.replacen(':', ";", 2);
        let attempt_zero = gid.replacen("0c03ff:", "0c00ff:", 1);
        assert_ne!(attempt_zero, gid);
        for other in ["", "etx1:", &gid[..gid.len() - 1], &longer, &upper, &foreign, &parts, &attempt_zero] {
            assert_eq!(Xid::from_gid(other), Err(ForeignXid), "{other}");
        }
        let (gtrid, bqual) = (name().gtrid(), name().bqual());
        assert_eq!(Xid::from_xid(1, gtrid.as_bytes(), bqual.as_bytes()), Err(ForeignXid));
    }
}
