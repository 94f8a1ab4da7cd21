//! The shortest path to a violation. The checker itself reports the last violation that it finds.

use std::collections::{HashMap, VecDeque};

use stateright::Model;

use super::figures::Action;
use super::state::State;
use super::variant::Variant;

/// Each state with the action that leaves it; `None` for the last.
pub type Path = Vec<(State, Option<Action>)>;

/// Searches all states breadth first.
pub fn shortest(variant: &Variant, property: &str) -> Option<Path> {
    let condition = variant.property(find(variant, property)?).condition;
    let mut reached: HashMap<State, Option<(State, Action)>> = HashMap::new();
    let mut waiting: VecDeque<State> = variant.init_states().into();
    reached.extend(waiting.iter().map(|state| (state.clone(), None)));
    while let Some(state) = waiting.pop_front() {
        if !condition(variant, &state) {
            return Some(path_to(&reached, state));
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

/// The property whose name begins with `name`.
fn find(variant: &Variant, name: &str) -> Option<&'static str> {
    variant.properties().into_iter().map(|property| property.name).find(|full| full.starts_with(name))
}

fn path_to(reached: &HashMap<State, Option<(State, Action)>>, end: State) -> Path {
    let mut path = vec![(end.clone(), None)];
    let mut at = &end;
    while let Some(Some((before, action))) = reached.get(at) {
        path.push((before.clone(), Some(*action)));
        at = before;
    }
    path.reverse();
    path
}
