//! Prints how the pseudocode of the paper fails, step by step:
//! `cargo run --manifest-path research/Cargo.toml --example counterexamples`.

#[path = "../tests/paper_pseudocode/paper/mod.rs"]
mod paper;

use paper::{Faults, Variant, check, explain};

fn main() {
    let crash = Faults::CRASH;
    let suspicion = Faults { suspicions: 1, ..crash };
    let restart = Faults { restarts: 1, ..crash };
    let unknown = Faults { suspicions: 1, unknown: 1, ..Faults::NONE };
    print("The figures as printed; a crash and a false suspicion", Variant::LITERAL.with(suspicion));
    print("Figure 6 advances always; a crash", Variant::LOOP_FIXED.with(crash));
    print("Figure 6 advances always, databases remember aborts; a crash", Variant::REMEMBERING.with(crash));
    print(
        "Figure 6 advances always, with recovery; a crash and a false suspicion",
        Variant::SWEPT.with(suspicion),
    );
    print("The same; a crash, and a restart under the same name", Variant::SWEPT.with(restart));
    print("The same; a crash, and a restart under a new name", Variant::NEW_NAMES.with(restart));
    print("The same; no crash, and \"no such branch\" is taken for committed", Variant::SWEPT.with(unknown));
}

/// Prints the violated properties with the shortest counterexample of each.
fn print(name: &str, variant: Variant) {
    let findings = check(variant);
    assert!(findings.impossible.is_empty(), "{name}: never happens: {:?}", findings.impossible);
    println!("# {name}: {} states", findings.states);
    if findings.violations.is_empty() {
        println!("\nAll hold.");
    }
    let mut printed: Vec<(&str, Vec<String>)> = Vec::new();
    for property in findings.violations {
        let steps = explain(variant, property).unwrap_or_default();
        if let Some((same, _)) = printed.iter().find(|(_, other)| *other == steps) {
            println!("\n{property}: violated, in the same steps as {}.", &same[..3]);
            continue;
        }
        println!("\n{property}: violated.");
        for (number, sentence) in steps.iter().enumerate() {
            println!("{:>3}. {sentence}", number + 1);
        }
        printed.push((property, steps));
    }
    println!();
}
