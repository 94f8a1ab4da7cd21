//! The name of a branch: the part of a try that is in one database.
//!
//! Databases know it as an XA identifier of two parts. The first (`gtrid`) names the try, the second (`bqual`) who works on it, in which
//! database, and on which connection, so that whoever finds the branch can look up its outcome, and end a connection that hangs.
//! Both are digits of a fixed width: a name has one spelling, and nothing else is taken for one.

use crate::{AttemptNumber, Cluster, CoordinatorId, DecisionLocation, RequestId};

/// Marks our names among those of others, as the format of an XA identifier: "JETX".
const FORMAT: u32 = 0x4a45_5458;

/// What PostgreSQL's one-part names begin with.
const PREFIX: &str = "etx1:";

/// The name of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid {
    /// Those who share databases and do not know of each other are told apart by this.
    pub cluster: Cluster,
    /// The request.
    pub request: RequestId,
    /// Its try.
    pub attempt: AttemptNumber,
    /// Where the decision about the try is kept.
    pub home: DecisionLocation,
    /// Who works on it.
    pub executor: CoordinatorId,
    /// Which of the databases, by its number in the cluster's settings.
    pub resource: u8,
    /// The connection that made it, by the database's own number.
    pub connection: u64,
}

/// A name that is not ours to touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a branch of ours")]
pub struct ForeignXid;

impl Xid {
    /// The format of the XA identifier.
    pub const FORMAT: u32 = FORMAT;

    /// The part that names the try: 60 digits.
    pub fn gtrid(&self) -> String {
        let RequestId { session, sequence } = self.request;
        let (Cluster { number, deployment }, home) = (self.cluster, self.home.number());
        format!("{number:08x}{deployment:08x}{session:032x}{sequence:08x}{:02x}{home:02x}", self.attempt.0)
    }

    /// The part that names the branch: 54 digits.
    pub fn bqual(&self) -> String {
        let CoordinatorId { server, incarnation, work } = self.executor;
        let (resource, connection) = (self.resource, self.connection);
        format!("{server:04x}{incarnation:016x}{work:016x}{resource:02x}{connection:016x}")
    }

    /// The branch with this two-part name.
    pub fn from_xid(format: u32, gtrid: &[u8], bqual: &[u8]) -> Result<Self, ForeignXid> {
        if format != FORMAT {
            return Err(ForeignXid);
        }
        let (mut try_part, mut branch_part) = (Digits(gtrid), Digits(bqual));
        let name = Self {
            cluster: Cluster { number: try_part.take(8)? as u32, deployment: try_part.take(8)? as u32 },
            request: RequestId { session: try_part.take(32)?, sequence: try_part.take(8)? as u32 },
            attempt: AttemptNumber(try_part.take(2)? as u8),
            home: DecisionLocation::from_number(try_part.take(2)? as u8),
            executor: CoordinatorId {
                server: branch_part.take(4)? as u16,
                incarnation: branch_part.take(16)? as u64,
                work: branch_part.take(16)? as u64,
            },
            resource: branch_part.take(2)? as u8,
            connection: branch_part.take(16)? as u64,
        };
        let tries = 1..=crate::TRIES_MAX;
        let whole = try_part.0.is_empty() && branch_part.0.is_empty();
        if whole && tries.contains(&name.attempt.0) { Ok(name) } else { Err(ForeignXid) }
    }

    /// The name as PostgreSQL has it: one part, of 120 characters.
    pub fn gid(&self) -> String {
        format!("{PREFIX}{}:{}", self.gtrid(), self.bqual())
    }

    /// The branch with this one-part name.
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
            home: DecisionLocation::Registers,
            executor: CoordinatorId { server: 2, incarnation: u64::MAX, work: 9 },
            resource: 1,
            connection: 4_711,
        }
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = name();
        assert_eq!(Xid::from_gid(&name.gid()), Ok(name));
        let (gtrid, bqual) = (name.gtrid(), name.bqual());
        assert_eq!(Xid::from_xid(FORMAT, gtrid.as_bytes(), bqual.as_bytes()), Ok(name));
        // XA grants 64 bytes to each part, PostgreSQL 200 to the whole.
        let elsewhere = Xid { home: DecisionLocation::Resource(1), ..name };
        assert_eq!(Xid::from_gid(&elsewhere.gid()), Ok(elsewhere));
        assert!(gtrid.len() <= 64 && bqual.len() <= 64 && name.gid().len() < 200);
    }

    #[test]
    fn what_others_prepared_is_not_taken_for_ours() {
        let gid = name().gid();
        let longer = format!("{gid}0");
        let upper = gid.replace('f', "F");
        let foreign = gid.replace("etx1", "etx2");
        let parts = gid.replacen(':', ";", 2);
        let never_tried = gid.replacen("0c03ff:", "0c00ff:", 1);
        assert_ne!(never_tried, gid);
        for other in ["", "etx1:", &gid[..gid.len() - 1], &longer, &upper, &foreign, &parts, &never_tried] {
            assert_eq!(Xid::from_gid(other), Err(ForeignXid), "{other}");
        }
        let (gtrid, bqual) = (name().gtrid(), name().bqual());
        assert_eq!(Xid::from_xid(1, gtrid.as_bytes(), bqual.as_bytes()), Err(ForeignXid));
    }
}
