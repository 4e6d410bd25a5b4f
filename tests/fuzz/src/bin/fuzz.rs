//! libFuzzer on the target that the environment names; its flags are libFuzzer's own (`-help=1`).
#![no_main]

use arborcast_fuzz::{TARGET_VARIABLE, TARGETS, Target};
use std::sync::OnceLock;

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var(TARGET_VARIABLE).unwrap_or_default();
        TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
            let names = TARGETS.each_ref().map(|target| target.name).join(", ");
            eprintln!("{TARGET_VARIABLE} has to be one of {names}, not {name:?}");
            std::process::exit(2)
        })
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (target().run)(bytes));
