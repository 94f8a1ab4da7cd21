//! Communication patterns: which process acts, and where its messages go.

use jeton_testkit::Rng;

/// How processes communicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topology {
    /// Every process sends to every other process.
    Uniform,
    /// Every process sends to the next one only.
    Ring,
    /// One process of twenty is a server. Clients send to a server and wait for the answer; servers answer.
    /// Half of all turns belong to servers.
    ClientServer,
    /// Groups of about sqrt(n) processes; one message of twenty leaves the group.
    Community,
}

/// Processes per server, the server included.
const PER_SERVER: usize = 20;

/// Percentage of messages that leave the group.
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

    /// Whether this process is a client or a server.
    pub(crate) fn serves(self, process: usize, processes: usize) -> bool {
        self == Self::ClientServer && process < servers(processes)
    }

    /// The process whose turn it is.
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

    /// The receiver of a message of this process, if no client waits for its answer.
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

/// Processes per group.
fn group(processes: usize) -> usize {
    processes.isqrt().max(2)
}

/// One of `count` processes from `first` on, except `process`.
fn other(process: usize, first: usize, count: usize, rng: &mut Rng) -> usize {
    let drawn = first + rng.index(count - 1);
    if drawn >= process { drawn + 1 } else { drawn }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_within_the_topology() {
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
