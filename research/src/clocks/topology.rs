//! Who takes a turn, and to whom a message goes.

use jeton_testkit::Rng;

/// How processes communicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topology {
    /// Everybody with everybody.
    Uniform,
    /// Everybody with the next one only.
    Ring,
    /// One process of twenty serves: clients ask one of the servers and wait for the answer, servers answer. Half of all turns are those of servers.
    ClientServer,
    /// Groups of about the root of n; one message of twenty leaves the group.
    Community,
}

/// Processes for each server, the server included.
const PER_SERVER: usize = 20;

/// Of a hundred messages, how many leave the group.
const LEAVING: u32 = 5;

impl Topology {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [Self::Uniform, Self::Ring, Self::ClientServer, Self::Community];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Ring => "ring",
            Self::ClientServer => "client-server",
            Self::Community => "community",
        }
    }

    /// Whether this process of so many waits for answers, or gives them.
    pub(crate) fn serves(self, process: usize, processes: usize) -> bool {
        self == Self::ClientServer && process < servers(processes)
    }

    /// Whose turn it is.
    pub(crate) fn turn(self, processes: usize, rng: &mut Rng) -> usize {
        match self {
            Self::ClientServer if rng.percent(50) => rng.index(servers(processes)),
            Self::ClientServer => {
                let servers = servers(processes);
                servers + rng.index(processes - servers)
            }
            Self::Uniform | Self::Ring | Self::Community => rng.index(processes),
        }
    }

    /// To whom this process sends, if nobody waits for its answer.
    pub(crate) fn peer(self, process: usize, processes: usize, rng: &mut Rng) -> usize {
        match self {
            Self::Uniform => other(process, 0, processes, rng),
            Self::Ring => (process + 1) % processes,
            Self::ClientServer => rng.index(servers(processes)),
            Self::Community => {
                let size = group(processes);
                let first = process / size * size;
                let size = size.min(processes - first);
                if size < 2 || rng.percent(LEAVING) {
                    other(process, 0, processes, rng)
                } else {
                    other(process, first, size, rng)
                }
            }
        }
    }
}

fn servers(processes: usize) -> usize {
    (processes / PER_SERVER).max(1)
}

/// How many processes a group has.
fn group(processes: usize) -> usize {
    processes.isqrt().max(2)
}

/// One of so many from the first on, but not this one of them.
fn other(process: usize, first: usize, count: usize, rng: &mut Rng) -> usize {
    let drawn = first + rng.index(count - 1);
    if drawn >= process { drawn + 1 } else { drawn }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sends_to_itself_and_messages_stay_where_they_belong() {
        let mut rng = Rng::new(1);
        for processes in [2, 3, 10, 21, 100] {
            for topology in Topology::ALL {
                let mut left = 0;
                for _ in 0..2000 {
                    let process = topology.turn(processes, &mut rng);
                    assert!(process < processes);
                    if topology.serves(process, processes) {
                        continue;
                    }
                    let peer = topology.peer(process, processes, &mut rng);
                    assert!(
                        peer < processes && peer != process,
                        "{topology:?} of {processes}: {process} to {peer}"
                    );
                    assert!(topology != Topology::ClientServer || topology.serves(peer, processes));
                    left += usize::from(process / group(processes) != peer / group(processes));
                }
                if topology == Topology::Community && processes == 100 {
                    assert!((40..200).contains(&left), "{left} of 2000 leave their group");
                }
            }
        }
    }
}
