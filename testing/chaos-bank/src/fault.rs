//! The faults of the nemesis and their order.

use std::collections::VecDeque;

use crate::cluster::Database;
use crate::fault_plan::{FaultAction, PlannedFault};
use crate::fault_points;
use jeton_testkit::Rng;

#[derive(Debug)]
pub enum Fault {
    /// Starts a server with these planned faults.
    Planned(Vec<PlannedFault>),
    KillServer,
    StopServer,
    KillAllServers,
    RestartServers,
    Kill(Database),
    Stop(Database),
    Restart(Database),
    Cut(usize),
    Hold(usize),
    HoldResponses(usize),
}

impl Fault {
    pub fn name(&self) -> String {
        let name = match self {
            Self::Planned(_) => "server started with planned faults",
            Self::KillServer => "server killed",
            Self::StopServer => "server stopped",
            Self::KillAllServers => "all servers killed",
            Self::RestartServers => "servers restarted in turn",
            Self::Kill(database) => return format!("{} killed", database.name()),
            Self::Stop(database) => return format!("{} stopped", database.name()),
            Self::Restart(database) => return format!("{} restarted", database.name()),
            Self::Cut(_) => "connections cut",
            Self::Hold(_) => "requests held",
            Self::HoldResponses(_) => "responses held",
        };
        name.to_owned()
    }
}

/// Each failpoint once with the death of a server and once with that of a database, and another fault after
/// every two.
pub fn deck(rng: &mut Rng, networks: usize) -> VecDeque<Fault> {
    let mut plans = plans(rng);
    let mut others = vec![Fault::KillServer, Fault::StopServer, Fault::KillAllServers, Fault::RestartServers];
    for database in Database::ALL {
        others.extend([Fault::Kill(database), Fault::Stop(database), Fault::Restart(database)]);
    }
    for network in 0..networks {
        others.extend([Fault::Cut(network), Fault::Hold(network), Fault::HoldResponses(network)]);
    }
    rng.shuffle(&mut others);
    let mut deck = VecDeque::new();
    while !(plans.is_empty() && others.is_empty()) {
        deck.extend(plans.drain(..plans.len().min(2)).map(Fault::Planned));
        deck.extend(others.pop());
    }
    deck
}

/// Plans that cover all failpoints with the death of a server and of a database. A database takes longer to
/// start than a server; so half of the server plans contain the death of a database, and the remaining ones
/// come at the end, without the death of a server.
fn plans(rng: &mut Rng) -> Vec<Vec<PlannedFault>> {
    let mut database_kills = fault_points::all();
    rng.shuffle(&mut database_kills);
    let mut database_kills: Vec<PlannedFault> =
        database_kills.into_iter().map(|point| database_kill(point, rng)).collect();
    let mut deaths = fault_points::all();
    rng.shuffle(&mut deaths);
    let mut plans = Vec::new();
    for (place, point) in deaths.into_iter().enumerate() {
        let mut plan = Vec::new();
        if place.is_multiple_of(2) {
            plan.extend(database_kills.pop());
        }
        if rng.below(6) == 0 {
            let points = fault_points::all();
            let paused = points[rng.index(points.len())].clone();
            plan.push(PlannedFault::new(paused, FaultAction::Pause, rng));
        }
        plan.push(PlannedFault::new(point, FaultAction::Kill, rng));
        plans.push(plan);
    }
    while !database_kills.is_empty() {
        plans.push(database_kills.drain(..database_kills.len().min(3)).collect());
    }
    plans
}

/// The death of a database, mostly the one of the failpoint.
fn database_kill(point: String, rng: &mut Rng) -> PlannedFault {
    let own = fault_points::database(&point).filter(|_| rng.below(4) > 0);
    let database = own.unwrap_or_else(|| rng.index(Database::ALL.len()));
    PlannedFault::new(point, FaultAction::KillDatabase(Database::ALL[database]), rng)
}
