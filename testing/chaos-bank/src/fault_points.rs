//! The named points of a server's work, and what brings a server to them.

use std::time::Duration;

use jeton_etx::failpoints::POINTS;

/// How long a server may take to come to a point.
const REACHED_WITHIN: Duration = Duration::from_secs(4);

/// The same, where it is a matter of the clock: old sessions are forgotten each sixth second.
const RETIRED_WITHIN: Duration = Duration::from_secs(8);

/// Databases of the bank.
const DATABASES: usize = 3;

/// How a server comes to a point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PathToPoint {
    /// With every request.
    Work,
    /// When another server has died, or a try has failed.
    Death,
    /// When another server is at work for too long, and dies.
    Delay,
    /// From time to time.
    Clock,
}

impl PathToPoint {
    pub fn to(point: &str) -> Self {
        match point {
            "looked" | "asked-others" | "awaiting" | "fenced" => Self::Delay,
            "undoing" | "undone" => Self::Death,
            "retiring" | "retired" => Self::Clock,
            _ if point.starts_with("sweep") => Self::Death,
            _ => Self::Work,
        }
    }

    /// How long it may take.
    pub fn patience(self) -> Duration {
        match self {
            Self::Clock => RETIRED_WITHIN,
            Self::Work | Self::Death | Self::Delay => REACHED_WITHIN,
        }
    }
}

/// All points, with the number of the database where they have one.
pub fn all() -> Vec<String> {
    let of = |point: &&str| match point.strip_suffix('*') {
        Some(stem) => (0..DATABASES).map(|database| format!("{stem}{database}")).collect(),
        None => vec![(*point).to_owned()],
    };
    POINTS.iter().flat_map(of).collect()
}

/// The database whose part in the work a point is about, if it is about one.
pub fn database(point: &str) -> Option<usize> {
    point.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_many_and_some_are_about_a_database() {
        let all = all();
        assert_eq!(all.len(), 36);
        assert_eq!(all.iter().filter(|point| database(point).is_some()).count(), 12);
        assert_eq!((database("voted-2"), database("sweep-asked"), database("taken")), (Some(2), None, None));
    }
}
