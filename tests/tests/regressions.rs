//! Programs that are right natively and were not under Arborcast; each test's name says what must hold.
//! What needs no setting of its own is a row of `conformance`.

mod support;

use arborcast_tests::conformance::{compare, table};
use arborcast_tests::{Background, Grid, Run, compile_c, compile_library, program, shim};
use gridlab::Mpi;
use std::ffi::OsStr;
use std::path::Path;
use support::{LIMIT, carried_by_trees, four_nodes, planted_for_every_group};

const ROWS: &str = "conformance";
const SHELL: &str = "/bin/sh";
/// For rank 2 alone; `$0 $@` is the program.
const DISABLED: &str = r#"[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 2 ] && export ARBORCAST_DISABLE=1
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

/// On one node the library is missing: nothing is started, so that nobody waits.
#[test]
fn a_node_without_the_library_is_told_of_before_anybody_waits() {
    let grid = planted_for_every_group(3200);
    let (run, library) = (program("arborcast", Mpi::OpenMpi), shim());
    let application = compile_c("bcast_times.c", Mpi::OpenMpi);
    let script = format!(
        r#"[ "$OMPI_COMM_WORLD_RANK" = 2 ] && library=/nowhere/libarborcast.so || library={}
exec {} run --library $library -- "$0" "$@""#,
        library.display(),
        run.display()
    );
    let words = ["/bin/sh", "-c", &script, application.to_str().unwrap(), "70000", "3"];
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    let command = grid.lab().mpirun(Mpi::OpenMpi, None, 1, &[], &words).unwrap();
    let mut running = Background::start(command, "bcast_times").unwrap();
    let status = running.wait(LIMIT);
    assert_eq!(status.code(), Some(125), "{:?}", running.lines());
    let said = running.lines().join("\n");
    assert!(said.contains("/nowhere/libarborcast.so does not exist"), "{said}");
}

/// The last line of a program that prints one, natively and under Arborcast.
fn assert_says_the_same(grid: &Grid, run: Run<'_>, command: (&Path, &[&str]), line: &str) {
    for managed in [false, true] {
        let run = Run { managed, ..run.clone() };
        let said = grid.run(&run, command.0, command.1, LIMIT).unwrap();
        assert!(said.contains(&line.to_owned()), "managed: {managed}: {said:?}");
    }
}

/// The process that is started later may have no library: nobody waits for it.
fn spawned(mpi: Mpi, seed: u64) {
    let grid = planted_for_every_group(seed);
    let run = Run { mpi, ranks: Some(3), ranks_per_node: 2, ..Run::default() };
    let program = compile_c("bcast_spawned.c", mpi);
    assert_says_the_same(&grid, run, (&program, &[]), "4 ranks, 0 wrong");
}

#[test]
fn a_spawned_process_is_broadcast_to_with_open_mpi() {
    spawned(Mpi::OpenMpi, 3300);
}

#[test]
fn a_program_with_sessions_broadcasts_without_a_world_and_after_it() {
    let grid = planted_for_every_group(3400);
    let mpi = Mpi::Mpich;
    let program = compile_c("bcast_sessions.c", mpi);
    for arguments in [&[][..], &["world"]] {
        let run = Run { mpi, ..Run::default() };
        assert_says_the_same(&grid, run, (&program, arguments), "4 ranks, 0 wrong");
    }
}

fn throws(mpi: Mpi, seed: u64) {
    let grid = planted_for_every_group(seed);
    let run = Run { mpi, ..Run::default() };
    let program = compile_c("bcast_throws.cc", mpi);
    assert_says_the_same(&grid, run, (&program, &[]), "100 caught, 0 wrong");
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
    // It may come in the midst of a line of rank 0's, whose full buffers end anywhere.
    let of_tool = |line: String| line.find("tool of rank").map(|at| line[at..].to_owned());
    let mut of_tool: Vec<String> = said.into_iter().filter_map(of_tool).collect();
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

/// A GPU runtime that nothing global shows, as CUDA's opens its driver. Where it is there at the set-up,
/// all is native; where it comes later, the MPI itself packs and unpacks what may be a device's.
#[test]
fn device_memory_is_left_to_the_mpi() {
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
        let goes_along_trees = |what| along_trees(&said, what).is_some_and(|along| along > 0);
        assert_eq!(goes_along_trees("device"), when == "after", "opened {when}: {said:?}");
        assert_eq!(goes_along_trees("host"), when == "after", "opened {when}: {said:?}");
    }
}

/// How many broadcasts of all go along trees, as each rank sees it: on `number` communicators, each of the first `ranks`,
/// it is broadcast `times`.
fn along_trees_of_new(
    grid: &Grid,
    mpi: Mpi,
    env: &[(&str, &str)],
    [bytes, times, number, ranks]: [&str; 4],
) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let env = [&[("ARBORCAST_REPORT", report.to_str().unwrap())], env].concat();
    let program = compile_c("bcast_new_communicators.c", mpi);
    grid.run(&Run { mpi, env, ..Run::default() }, &program, &[bytes, times, number, ranks], LIMIT)
        .unwrap();
    carried_by_trees(&report).1
}

/// One that takes a message to set up has three short broadcasts before; those after it go on where it was.
fn ranks_agree_once(mpi: Mpi, seed: u64) {
    let grid = planted_for_every_group(seed);
    for ranks in [3, 4] {
        let short = along_trees_of_new(&grid, mpi, &[], ["8192", "5", "40", &ranks.to_string()]);
        assert_eq!(short, ranks * (200 - 3));
        let long = along_trees_of_new(&grid, mpi, &[], ["1048576", "2", "10", &ranks.to_string()]);
        assert_eq!(long, ranks * 20);
    }
}

/// With that, MPICH 4 fails in calls that broadcasts along trees make.
#[test]
fn a_job_that_may_lose_ranks_broadcasts_natively() {
    let grid = planted_for_every_group(3970);
    let tolerant = [("MPIR_CVAR_ENABLE_FT", "1")];
    let arguments = ["8192", "5", "40", "4"];
    assert_eq!(along_trees_of_new(&grid, Mpi::Mpich, &tolerant, arguments), 0);
}

#[test]
fn ranks_agree_once_with_open_mpi() {
    ranks_agree_once(Mpi::OpenMpi, 3900);
}

#[test]
fn ranks_agree_once_with_mpich() {
    ranks_agree_once(Mpi::Mpich, 3950);
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
