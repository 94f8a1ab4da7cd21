//! Names the targets on which lookups are vectorised: x86-64, except where an interpreter or a model checker
//! runs.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(vectorised)");
    let set = |name: &str| std::env::var_os(name).is_some();
    let x86_64 = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    if x86_64 && !set("CARGO_CFG_MIRI") && !set("CARGO_CFG_LOOM") {
        println!("cargo::rustc-cfg=vectorised");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
