//! An experiment whose MPI sends hardly anything before the receiver is there: nobody waits for anybody.

mod support;

use arborcast_tests::Background;
use std::ffi::OsStr;
use support::*;

/// Orders, news and pieces of broadcasts are all longer.
const EAGER: [(&str, &str); 2] =
    [("OMPI_MCA_btl_tcp_eager_limit", "128"), ("OMPI_MCA_btl_tcp_rndv_eager_limit", "128")];
const SECONDS: &str = "12";

/// Applications broadcast from several roots in several sizes, so that ranks tell the coordinator of
/// their demand and are held while it sends them orders.
#[test]
fn ranks_that_send_to_each_other_above_the_eager_limit_go_on() {
    let mut grid = four_nodes();
    grid.start_daemons(&["--linger", "0ms"]).unwrap();
    let job = arborcast_tests::program("arborcast-experiment", gridlab::Mpi::OpenMpi);
    let words: Vec<&OsStr> = [job.as_os_str(), "--for".as_ref(), SECONDS.as_ref()].to_vec();
    let command = grid.lab().mpirun(gridlab::Mpi::OpenMpi, None, 1, &EAGER, &words).unwrap();
    let experiment = Background::start(command, "arborcast-experiment").unwrap();
    let of =
        |(root, bytes): (&str, &str)| start(&grid, "bcast_steady.c", &[root, bytes, "40", "8"]);
    let applications: Vec<_> = [("0", "64"), ("1", "3000"), ("2", "20000"), ("3", "100000")]
        .map(of)
        .into_iter()
        .map(|application| finish(application, Vec::new()))
        .collect();
    let said = finish(experiment, Vec::new());
    let trials = said.iter().filter(|line| line.contains(" trial ")).count();
    let broadcasts: usize = applications.iter().map(Vec::len).sum();
    println!("{trials} trials beside {broadcasts} broadcasts");
    assert!(trials > 4, "{}", said.join("\n"));
}
