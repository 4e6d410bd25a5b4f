//! Programs that are right natively and were not under Arborcast; each test's name says what must hold.
//! What needs no setting of its own is a row of `conformance`.

mod support;

use arborcast_tests::conformance::{compare, table};
use arborcast_tests::{Grid, Run, compile_c, compile_library};
use gridlab::Mpi;
use std::path::Path;
use support::{LIMIT, four_nodes, planted_for_every_group};

const ROWS: &str = "conformance";
const SHELL: &str = "/bin/sh";
/// For rank 2 alone; `$0 $@` is the program.
const DISABLED: &str = r#"[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 2 ] && export ARBORCAST_DISABLE=1
exec "$0" "$@""#;
/// What is preloaded behind the library stays: the lab itself may need it.
const WITHOUT_LIBRARY: &str = r#"if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 2 ]; then
  case "$LD_PRELOAD" in *:*) export LD_PRELOAD="${LD_PRELOAD#*:}" ;; *) unset LD_PRELOAD ;; esac
fi
exec "$0" "$@""#;
const TOOL_IN_FRONT: &str = r#"LD_PRELOAD="$TOOL:$LD_PRELOAD" exec "$0" "$@""#;
const TOOL_BEHIND: &str = r#"LD_PRELOAD="$LD_PRELOAD:$TOOL" exec "$0" "$@""#;

/// Rows of a program that each rank starts through a few lines of shell, beside the same natively.
fn assert_rows_through_shell(mpi: Mpi, script: &str, rows: &[&str], seed: u64) {
    let grid = planted_for_every_group(seed);
    let program = compile_c(ROWS, mpi);
    let flags = ["-c", script, program.to_str().unwrap()];
    let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
    let run = |managed| {
        let run = Run { mpi, managed, ..Run::default() };
        table(&grid, &run, Path::new(SHELL), &flags, &rows).unwrap()
    };
    let (native, managed) = (run(false), run(true));
    assert!(native.wrong().is_empty(), "natively: {:?}", native.wrong());
    assert_eq!(native.rows.len(), rows.len());
    let differ = compare(&native, &managed);
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

const SEVERAL: [&str; 5] =
    ["world", "split_in_halves", "split_all_but_one", "merged_intercommunicator", "errors_handled"];

#[test]
fn a_disabled_rank_holds_nobody_up_with_open_mpi() {
    assert_rows_through_shell(Mpi::OpenMpi, DISABLED, &SEVERAL, 3000);
}

#[test]
fn a_disabled_rank_holds_nobody_up_with_mpich() {
    assert_rows_through_shell(Mpi::Mpich, DISABLED, &SEVERAL, 3100);
}

#[test]
fn a_rank_without_the_library_holds_nobody_up() {
    assert_rows_through_shell(Mpi::OpenMpi, WITHOUT_LIBRARY, &SEVERAL, 3200);
}

/// The last line of a program that prints one, natively and under Arborcast.
fn assert_says_the_same(grid: &Grid, run: Run<'_>, program: &Path, line: &str) {
    for managed in [false, true] {
        let run = Run { managed, ..run.clone() };
        let said = grid.run(&run, program, &[], LIMIT).unwrap();
        assert!(said.contains(&line.to_owned()), "managed: {managed}: {said:?}");
    }
}

/// The process that is started later may have no library: nobody waits for it.
fn spawned(mpi: Mpi, seed: u64) {
    let grid = planted_for_every_group(seed);
    let run = Run { mpi, ranks: Some(3), ranks_per_node: 2, ..Run::default() };
    assert_says_the_same(&grid, run, &compile_c("bcast_spawned.c", mpi), "4 ranks, 0 wrong");
}

#[test]
fn a_spawned_process_is_broadcast_to_with_open_mpi() {
    spawned(Mpi::OpenMpi, 3300);
}

#[test]
fn a_program_with_sessions_alone_broadcasts() {
    let grid = planted_for_every_group(3400);
    let mpi = Mpi::Mpich;
    let run = Run { mpi, ..Run::default() };
    assert_says_the_same(&grid, run, &compile_c("bcast_sessions.c", mpi), "4 ranks, 0 wrong");
}

fn throws(mpi: Mpi, seed: u64) {
    let grid = planted_for_every_group(seed);
    let run = Run { mpi, ..Run::default() };
    assert_says_the_same(&grid, run, &compile_c("bcast_throws.cc", mpi), "100 caught, 0 wrong");
}

#[test]
fn a_handler_may_throw_with_open_mpi() {
    throws(Mpi::OpenMpi, 3500);
}

#[test]
fn a_handler_may_throw_with_mpich() {
    throws(Mpi::Mpich, 3600);
}

/// What a profiling tool of each rank counts in a program that never asks for Arborcast.
fn counted(grid: &Grid, mpi: Mpi, script: &str, managed: bool) -> Vec<String> {
    let tool = compile_library("pmpi_tool.c", mpi);
    let program = compile_c(ROWS, mpi);
    let run = Run { mpi, managed, env: vec![("TOOL", tool.to_str().unwrap())], ..Run::default() };
    let mut arguments = vec!["-c", script, program.to_str().unwrap(), "--plain"];
    arguments.extend(["world", "split_in_halves", "handler_that_longjmps"]);
    let said = grid.run(&run, Path::new(SHELL), &arguments, LIMIT).unwrap();
    let mut of_tool: Vec<String> =
        said.into_iter().filter(|line| line.starts_with("tool of rank")).collect();
    of_tool.sort();
    of_tool
}

fn tool_sees_all(mpi: Mpi, script: &str, seed: u64) {
    let grid = planted_for_every_group(seed);
    let native = counted(&grid, mpi, script, false);
    assert_eq!(native.len(), 4, "{native:?}");
    assert!(
        native[0].contains(" broadcasts") && !native[0].contains(" 0 broadcasts"),
        "{native:?}"
    );
    assert_eq!(counted(&grid, mpi, script, true), native);
}

#[test]
fn a_tool_in_front_of_the_library_sees_every_broadcast_with_open_mpi() {
    tool_sees_all(Mpi::OpenMpi, TOOL_IN_FRONT, 3700);
}

#[test]
fn a_tool_behind_the_library_sees_every_broadcast_with_open_mpi() {
    tool_sees_all(Mpi::OpenMpi, TOOL_BEHIND, 3800);
}

#[test]
fn a_tool_in_front_of_the_library_sees_every_broadcast_with_mpich() {
    tool_sees_all(Mpi::Mpich, TOOL_IN_FRONT, 3900);
}

#[test]
fn a_tool_behind_the_library_sees_every_broadcast_with_mpich() {
    tool_sees_all(Mpi::Mpich, TOOL_BEHIND, 4000);
}

/// `"host: 16 broadcasts, 48 along trees"`: 48.
fn along_trees(said: &[String], of: &str) -> Option<u64> {
    let line = said.iter().find(|line| line.starts_with(of))?;
    line.rsplit(", ").next()?.split(' ').next()?.parse().ok()
}

/// A GPU runtime that nothing global shows, as CUDA's opens its driver.
#[test]
fn device_memory_never_goes_along_trees_without_a_gpu_aware_mpi() {
    let grid = planted_for_every_group(4100);
    let program = compile_c("bcast_device.c", Mpi::OpenMpi);
    let cuda = compile_library("fake_cuda.c", Mpi::OpenMpi);
    let folder = tempfile::tempdir().unwrap();
    let cuda_of_driver = folder.path().join("libcuda.so.1");
    std::fs::copy(cuda, &cuda_of_driver).unwrap();
    for when in ["before", "after"] {
        let arguments = [cuda_of_driver.to_str().unwrap(), when];
        let said = grid.run(&Run::default(), &program, &arguments, LIMIT).unwrap();
        assert!(said.contains(&"0 wrong".to_owned()), "{said:?}");
        assert_eq!(along_trees(&said, "device"), Some(0), "opened {when}: {said:?}");
        let host = along_trees(&said, "host");
        assert_eq!(host.is_some_and(|along| along > 0), when == "after", "{said:?}");
    }
}

/// Not even a daemon: whatever goes wrong at the set-up, the program goes on.
#[test]
fn a_grid_without_daemons_is_as_natively() {
    let grid = four_nodes();
    let program = compile_c(ROWS, Mpi::OpenMpi);
    let run = |managed| {
        let run = Run { managed, ..Run::default() };
        let rows: Vec<String> = SEVERAL.iter().map(|row| (*row).to_owned()).collect();
        table(&grid, &run, &program, &[], &rows).unwrap()
    };
    let (native, managed) = (run(false), run(true));
    assert!(native.wrong().is_empty(), "natively: {:?}", native.wrong());
    assert!(compare(&native, &managed).is_empty());
    assert_eq!(managed.along_trees, 0);
}
