//! What is wrong is said, with what to do about it, and leaves nothing standing.

use std::process::{Output, Stdio};

use crate::support::*;

struct Wrong {
    folder: tempfile::TempDir,
}

impl Wrong {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let root = self.folder.path().join("labs");
        let mut command = gridlab();
        command.args(arguments).env("GRIDLAB_STATE", &root).env_remove("GRIDLAB_LAB");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let Output { status, stderr, .. } = finish_any(child, 30);
        assert!(!root.exists(), "{arguments:?} left something standing");
        (status.code().unwrap(), String::from_utf8(stderr).unwrap())
    }

    fn file(&self, text: &str) -> String {
        let path = self.folder.path().join("grid.toml");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn a_bad_topology_names_file_line_and_expectation() {
    let wrong = Wrong::new();
    let file =
        wrong.file("[[site]]\nname = \"a\"\nnodes = 2\nnode_rate = \"fast\"\nlatency = \"1ms\"\n");
    let (code, text) = wrong.run(&["up", &file]);
    assert_eq!(code, 1);
    for part in [file.as_str(), "line 4", "node_rate", "100mbit", "fast"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let wrong = Wrong::new();
    let (code, text) = wrong.run(&["up", "/nowhere/grid.toml"]);
    assert!(code == 1 && text.contains("/nowhere/grid.toml"), "{text}");
    let (code, text) = wrong.run(&["status"]);
    assert!(code == 1 && text.contains("gridlab up"), "{text}");
    let (code, text) = wrong.run(&["down", "none"]);
    assert!(code == 1 && text.contains("gridlab list"), "{text}");
    let (code, text) = wrong.run(&["--lab", "none", "exec", "a1", "--", "true"]);
    assert!(code == 127 && text.contains("none"), "{text}");
    assert_eq!(wrong.run(&["link", "a", "b", "--rate", "much"]).0, 2);
    assert_eq!(wrong.run(&["up"]).0, 2);
}

#[test]
fn a_name_that_is_a_path_is_refused() {
    let wrong = Wrong::new();
    let file = grid_file("two-sites.toml");
    let (code, text) = wrong.run(&["up", file.to_str().unwrap(), "--name", "../x"]);
    assert!(code == 1 && text.contains("../x"), "{text}");
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_refused() {
    let wrong = Wrong::new();
    let file = grid_file("two-sites.toml");
    let (code, text) = wrong.run(&["up", file.to_str().unwrap(), "--tcp", "semaphore"]);
    assert!(code == 1 && text.contains("`semaphore`"), "{text}");
}
