//! Placement: which nodes a stripe prefers.

use xxhash_rust::xxh3::xxh3_64;

use crate::frame::NodeId;

/// The nodes in the order in which they should own a stripe: rendezvous hashing. The first one is the owner,
/// the second one the follower. If a node is removed, the order of the others stays.
pub fn rank(stripe: u16, nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    let weight = |node: &NodeId| {
        let mut bytes = [0; 18];
        bytes[..2].copy_from_slice(&stripe.to_le_bytes());
        bytes[2..].copy_from_slice(&node.0.to_le_bytes());
        (xxh3_64(&bytes), *node)
    };
    let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(weight(node)));
    nodes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_removed_node_changes_no_other_place(nodes: [u128; 6], stripe: u16, removed in 0usize..6) {
            let all = nodes.map(NodeId);
            let mut expected = rank(stripe, all);
            expected.retain(|node| *node != all[removed]);
            let rest = all.into_iter().filter(|node| *node != all[removed]);
            prop_assert_eq!(rank(stripe, rest), expected);
        }

        #[test]
        fn stripes_are_spread_over_the_nodes(nodes: [u128; 4]) {
            let mut owned = [0; 4];
            for stripe in 0..256 {
                let first = rank(stripe, nodes.map(NodeId))[0];
                owned[nodes.iter().position(|node| *node == first.0).unwrap_or(0)] += 1;
            }
            prop_assert!(owned.iter().all(|count| (25..110).contains(count)), "{owned:?}");
        }
    }
}
