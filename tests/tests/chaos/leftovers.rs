//! What must not be there any more when all has ended.

use arborcast_tests::Grid;
use std::path::Path;

/// What a process of the grid says of itself below /proc.
pub fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// The processes inside the hosts of a grid.
pub fn processes(grid: &Grid) -> Vec<u32> {
    let traces = gridlab::state::traces();
    let own = traces.into_iter().filter(|trace| trace.name == grid.lab().name());
    own.flat_map(|trace| trace.processes).map(|process| process.pid).collect()
}

/// Each process of the grid, in what state it is and what it waits for in the kernel.
pub fn picture(grid: &Grid) -> String {
    let describe = |pid: u32| {
        let of = |file: &str| {
            let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(file));
            text.unwrap_or_default()
        };
        let stat = of("stat");
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
        format!("{pid} {state} {} {}\n", of("wchan"), command_line(pid))
    };
    processes(grid).into_iter().map(describe).collect()
}

/// The number of descriptors that a process has open.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Files of ours on a node: segments, sockets, locks, and what is in the state directory.
pub fn files(grid: &Grid, node: &str) -> Vec<String> {
    let mut find = grid.lab().exec(node, "find").unwrap();
    let output = find.args(["/dev/shm", "/run", "-path", "*arborcast*"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
