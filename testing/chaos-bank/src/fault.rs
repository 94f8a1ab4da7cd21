//! The faults of the nemesis and their order.

use std::collections::VecDeque;

use crate::cluster::Database;
use crate::fault_plan::{FaultAction, PlannedFault};
use crate::fault_points;
use crate::rng::Rng;

/// A fault.
#[derive(Debug)]
pub enum Fault {
    /// Starts a server with these planned faults.
    Life(Vec<PlannedFault>),
    KillServer,
    StopServer,
    KillAllServers,
    RestartServers,
    Kill(Database),
    Stop(Database),
    Restart(Database),
    Cut(usize),
    Hold(usize),
    HoldAnswers(usize),
}

impl Fault {
    pub fn name(&self) -> String {
        let name = match self {
            Self::Life(_) => "server started for what is to come",
            Self::KillServer => "server killed",
            Self::StopServer => "server stopped",
            Self::KillAllServers => "all servers killed",
            Self::RestartServers => "servers restarted in turn",
            Self::Kill(database) => return format!("{} killed", database.name()),
            Self::Stop(database) => return format!("{} stopped", database.name()),
            Self::Restart(database) => return format!("{} restarted", database.name()),
            Self::Cut(_) => "connections cut",
            Self::Hold(_) => "requests held",
            Self::HoldAnswers(_) => "answers held",
        };
        name.to_owned()
    }
}

/// Each failpoint once with the death of a server and once with that of a database, and another fault after
/// every two.
pub fn deck(rng: &mut Rng, networks: usize) -> VecDeque<Fault> {
    let mut lives = lives(rng);
    let mut others = vec![Fault::KillServer, Fault::StopServer, Fault::KillAllServers, Fault::RestartServers];
    for database in Database::ALL {
        others.extend([Fault::Kill(database), Fault::Stop(database), Fault::Restart(database)]);
    }
    for network in 0..networks {
        others.extend([Fault::Cut(network), Fault::Hold(network), Fault::HoldAnswers(network)]);
    }
    rng.shuffle(&mut others);
    let mut deck = VecDeque::new();
    while !(lives.is_empty() && others.is_empty()) {
        deck.extend(lives.drain(..lives.len().min(2)).map(Fault::Life));
        deck.extend(others.pop());
    }
    deck
}

/// Plans that cover all failpoints with the death of a server and of a database. A database takes longer to
/// start than a server; so half of the server plans contain the death of a database, and the remaining ones
/// come at the end, without the death of a server.
fn lives(rng: &mut Rng) -> Vec<Vec<PlannedFault>> {
    let mut losses = fault_points::all();
    rng.shuffle(&mut losses);
    let mut losses: Vec<PlannedFault> = losses.into_iter().map(|point| loss(point, rng)).collect();
    let mut deaths = fault_points::all();
    rng.shuffle(&mut deaths);
    let mut lives = Vec::new();
    for (place, point) in deaths.into_iter().enumerate() {
        let mut life = Vec::new();
        if place.is_multiple_of(2) {
            life.extend(losses.pop());
        }
        if rng.below(6) == 0 {
            let points = fault_points::all();
            let slept = points[rng.below(points.len() as u64) as usize].clone();
            life.push(PlannedFault::new(slept, FaultAction::Sleeps, rng));
        }
        life.push(PlannedFault::new(point, FaultAction::Dies, rng));
        lives.push(life);
    }
    while !losses.is_empty() {
        lives.push(losses.drain(..losses.len().min(3)).collect());
    }
    lives
}

/// The death of a database, mostly the one of the failpoint.
fn loss(point: String, rng: &mut Rng) -> PlannedFault {
    let own = fault_points::database(&point).filter(|_| rng.below(4) > 0);
    let database = own.unwrap_or_else(|| rng.below(Database::ALL.len() as u64) as usize);
    PlannedFault::new(point, FaultAction::LosesDatabase(Database::ALL[database]), rng)
}
