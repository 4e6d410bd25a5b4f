//! goptest lays the native broadcast and Arborcast's side by side, with the plan that an experiment
//! has found for this grid.

mod measurement;

use arborcast_tests::Grid;
use gridlab::Topology;
use measurement::{THREE_HOSTS, alone, believed, ensure, json_of, run};
use std::time::Duration;

#[test]
#[ignore = "long: make test-lab"]
fn native_and_arborcast_side_by_side() {
    let _alone = alone();
    let mut grid = Grid::of(Topology::parse(THREE_HOSTS).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("both.json");
    let arguments = format!(
        "-bcastalt -bcastwith both -sizelist 65536 -reps 5 -sample_reps 3 -smooth 0 -format json \
         -fname {}",
        file.display()
    );
    // Without daemons there is nothing to compare with, which is an error and no second native run.
    let refused = measurement::attempt(grid.lab(), 3, "goptest", &arguments);
    assert_eq!(refused.status.code(), Some(6));
    grid.start_daemons(&[]).unwrap();
    let mut job = grid
        .experiment(&["--root", "a1", "--bytes", "256Ki", "--once", "--for", "20s", "--quiet"])
        .unwrap();
    job.wait(Duration::from_secs(60));
    let measure = || {
        run(grid.lab(), 3, "goptest", &arguments);
        json_of(&file)["runs"].clone()
    };
    let runs = believed(grid.lab(), measure, |runs| {
        let seconds = |index: usize| runs[index]["entries"][0]["seconds"].as_f64().unwrap();
        let (native, planned) = (seconds(0), seconds(1));
        eprintln!("256 KiB: native {native} s, Arborcast {planned} s, {}", runs[1]["note"]);
        // c is reached sooner by way of b, which the MPI does not know.
        ensure(planned < 0.8 * native, || format!("native {native} s, Arborcast {planned} s"))
    });
    let Some(runs) = runs else { return };
    assert_eq!([&runs[0]["broadcast"], &runs[1]["broadcast"]], ["native", "arborcast"]);
    let note = runs[1]["note"].as_str().unwrap();
    let words: Vec<&str> = note.split(' ').collect();
    assert!(words[0] == words[2] && words[0] != "0", "{note}");
}
