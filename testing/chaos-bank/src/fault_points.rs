//! The failpoints, and how a server reaches them.

use std::time::Duration;

use jeton_etx::failpoints::POINTS;

/// Limit until a server reaches a failpoint.
const REACHED_WITHIN: Duration = Duration::from_secs(4);

/// The same for periodic work: expired sessions are forgotten every six seconds.
const RETIRED_WITHIN: Duration = Duration::from_secs(8);

/// Databases of the bank.
const DATABASES: usize = 3;

/// How a server reaches a failpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PathToPoint {
    /// With every request.
    Work,
    /// After the kill of another server, or a failed attempt.
    Kill,
    /// When another server is delayed and then killed.
    Delay,
    /// Periodically.
    Clock,
}

impl PathToPoint {
    pub fn to(point: &str) -> Self {
        match point {
            "looked" | "asked-others" | "awaiting" | "fenced" => Self::Delay,
            "rolling-back" | "rolled-back" => Self::Kill,
            "retiring" | "retired" => Self::Clock,
            _ if point.starts_with("recovery") => Self::Kill,
            _ => Self::Work,
        }
    }

    /// Limit until the failpoint is reached.
    pub fn timeout(self) -> Duration {
        match self {
            Self::Clock => RETIRED_WITHIN,
            Self::Work | Self::Kill | Self::Delay => REACHED_WITHIN,
        }
    }
}

/// All failpoints; those of a database with its number.
pub fn all() -> Vec<String> {
    let of = |point: &&str| match point.strip_suffix('*') {
        Some(stem) => (0..DATABASES).map(|database| format!("{stem}{database}")).collect(),
        None => vec![(*point).to_owned()],
    };
    POINTS.iter().flat_map(of).collect()
}

/// The database of a failpoint, if it belongs to one.
pub fn database(point: &str) -> Option<usize> {
    point.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_databases_are_numbered() {
        let all = all();
        assert_eq!(all.len(), 36);
        assert_eq!(all.iter().filter(|point| database(point).is_some()).count(), 12);
        assert_eq!(
            (database("voted-2"), database("recovery-asked"), database("taken")),
            (Some(2), None, None)
        );
        for (point, path) in [
            ("recovery-listed", PathToPoint::Kill),
            ("rolled-back", PathToPoint::Kill),
            ("begun", PathToPoint::Work),
        ] {
            assert!(all.iter().any(|listed| listed == point) && PathToPoint::to(point) == path, "{point}");
        }
    }
}
