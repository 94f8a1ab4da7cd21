//! The shortest way to where a property does not hold. The checker tells the last that it comes upon.

use std::collections::{HashMap, VecDeque};

use stateright::Model;

use super::figures::Action;
use super::state::State;
use super::variant::Variant;

/// The steps on a way: what happened, and what was so before it. The last is where it ends, where nothing happened.
pub type Path = Vec<(State, Option<Action>)>;

/// Looks at all states, nearest first.
pub fn shortest(variant: &Variant, property: &str) -> Option<Path> {
    let condition = variant.property(find(variant, property)?).condition;
    let mut reached: HashMap<State, Option<(State, Action)>> = HashMap::new();
    let mut waiting: VecDeque<State> = variant.init_states().into();
    reached.extend(waiting.iter().map(|state| (state.clone(), None)));
    while let Some(state) = waiting.pop_front() {
        if !condition(variant, &state) {
            return Some(way(&reached, state));
        }
        let mut actions = Vec::new();
        variant.actions(&state, &mut actions);
        for action in actions {
            let Some(next) = variant.next_state(&state, action) else { continue };
            if !reached.contains_key(&next) {
                reached.insert(next.clone(), Some((state.clone(), action)));
                waiting.push_back(next);
            }
        }
    }
    None
}

/// The property with this name, which may be the paper's.
fn find(variant: &Variant, name: &str) -> Option<&'static str> {
    variant.properties().into_iter().map(|property| property.name).find(|full| full.starts_with(name))
}

fn way(reached: &HashMap<State, Option<(State, Action)>>, end: State) -> Path {
    let mut path = vec![(end.clone(), None)];
    let mut at = &end;
    while let Some(Some((before, action))) = reached.get(at) {
        path.push((before.clone(), Some(*action)));
        at = before;
    }
    path.reverse();
    path
}
