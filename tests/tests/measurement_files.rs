//! Files of network_test as foreign readers see them, also after an interruption, and how the three
//! programs end on bad options. These run on this host, without a lab.

mod measurement;

use measurement::{alone, ended, finished, mpirun, wait_for};
use std::path::Path;
use std::process::{Command, Stdio};

fn ncdump(path: &Path) -> String {
    let mut command = Command::new("ncdump");
    command.arg(path);
    let output = finished(command, "ncdump");
    String::from_utf8(output.stdout).unwrap()
}

/// Lengths in a text file, which must obey the format's rules.
fn text_lengths(path: &Path, processes: usize) -> Vec<usize> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    for name in
        ["processors", "test type \"", "data type \"", "begin message length", "end message"]
    {
        let line = lines.next().unwrap();
        assert!(line.starts_with(name), "{line:?} is not {name}");
    }
    for name in ["step length", "noise message length", "number of noise messages"] {
        assert!(lines.next().unwrap().starts_with(name));
    }
    assert!(lines.next().unwrap().starts_with("number of noise processes"));
    assert!(lines.next().unwrap().starts_with("number of repeates"));
    assert_eq!(lines.next().unwrap(), "hosts:");
    assert_eq!(lines.by_ref().take(processes).filter(|host| !host.is_empty()).count(), processes);
    let mut lengths = Vec::new();
    while let Some(line) = lines.next() {
        lengths.push(line.strip_prefix("Message length ").unwrap().parse().unwrap());
        for row in 0..processes {
            let line = lines.next().expect("a whole matrix");
            let cells: Vec<f64> = line.split('\t').map(|cell| cell.parse().unwrap()).collect();
            assert_eq!(cells.len(), processes);
            assert_eq!(cells[row], 0.0, "the diagonal");
        }
    }
    lengths
}

#[test]
fn foreign_readers_open_the_files() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("grid.mtr");
    let mut command = mpirun(3, "network_test");
    command.arg("-f").arg(&file).args(["-b", "0", "-e", "500", "-s", "200", "-n", "5"]);
    command.args(["-t", "send_recv_and_recv_send"]);
    finished(command, "network_test");
    assert_eq!(text_lengths(&file, 3), [0, 200, 400]);
    for (code, name) in [(1, "average"), (2, "median"), (3, "deviation"), (4, "min")] {
        let dump = ncdump(&folder.path().join(format!("grid_{name}.nc")));
        let mut wanted = vec![
            "x = 3 ;".to_owned(),
            "y = 3 ;".to_owned(),
            "n = UNLIMITED ; // (3 currently)".to_owned(),
            "strings = 101 ;".to_owned(),
            "double data(n, x, y) ;".to_owned(),
            format!("data_type = {code} ;"),
        ];
        for (scalar, value) in [
            ("proc_num", 3),
            ("test_type", 4),
            ("begin_mes_length", 0),
            ("end_mes_length", 500),
            ("step_length", 200),
            ("noise_mes_length", 0),
            ("num_noise_mes", 1),
            ("num_noise_proc", 0),
            ("num_repeates", 5),
        ] {
            wanted.push(format!("int {scalar} ;"));
            wanted.push(format!("{scalar} = {value} ;"));
        }
        for line in wanted {
            assert!(dump.contains(&line), "{name}: no {line:?} in\n{dump}");
        }
        let mut kind = Command::new("ncdump");
        kind.arg("-k").arg(folder.path().join(format!("grid_{name}.nc")));
        assert_eq!(finished(kind, "ncdump -k").stdout, b"64-bit offset\n");
    }
    let hosts = std::fs::read_to_string(folder.path().join("grid_hosts.txt")).unwrap();
    assert_eq!(hosts.lines().count(), 3);
}

/// Averages in the text file and in the NetCDF file are the same numbers at the same places.
#[test]
fn text_and_netcdf_hold_the_same_matrix() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("same.mtr");
    let mut command = mpirun(3, "network_test");
    command.arg("-f").arg(&file).args(["-e", "1", "-n", "5"]);
    finished(command, "network_test");
    let text = std::fs::read_to_string(&file).unwrap();
    let cells: Vec<f64> = text
        .lines()
        .skip_while(|line| !line.starts_with("Message"))
        .skip(1)
        .flat_map(|line| line.split('\t'))
        .map(|cell| cell.parse().unwrap())
        .collect();
    let dump = ncdump(&folder.path().join("same_average.nc"));
    let (_, data) = dump.split_once(" data =").unwrap();
    let foreign: Vec<f64> = data
        .split(|c: char| c == ',' || c == ';' || c.is_whitespace())
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(foreign.len(), 9, "{dump}");
    for (own, foreign) in cells.iter().zip(foreign) {
        assert!((own - foreign).abs() <= 1e-12 * own.abs(), "{own} {foreign}");
    }
}

#[test]
fn an_interrupted_run_leaves_whole_files() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.mtr");
    let mut command = mpirun(2, "network_test");
    command.arg("-f").arg(&file).args(["-e", "1000000", "-s", "100", "-n", "100"]);
    command.args(["--format", "text,netcdf,csv,json"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let written = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_for("five message lengths in the text file", || {
        (written().matches("Message length").count() >= 5).then_some(())
    });
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let status = wait_for("the end of the interrupted run", || child.try_wait().unwrap());
    assert!(!status.success(), "an interrupted run has not succeeded");
    let lengths = text_lengths(&file, 2);
    assert!((5..10_000).contains(&lengths.len()), "{} lengths", lengths.len());
    assert!(lengths.iter().enumerate().all(|(index, length)| *length == index * 100));
    // One length is written to one file after the other.
    let whole = [lengths.len() - 1, lengths.len()];
    for name in ["average", "median", "deviation", "min"] {
        let dump = ncdump(&folder.path().join(format!("cut_{name}.nc")));
        let claims = |count: &usize| dump.contains(&format!("({count} currently)"));
        assert!(whole.iter().any(claims), "{name}: not {whole:?}\n{}", &dump[..300]);
    }
    let json = measurement::json_of(&file.with_extension("json"));
    assert!(whole.contains(&json["lengths"].as_array().unwrap().len()));
    let csv = std::fs::read_to_string(file.with_extension("csv")).unwrap();
    assert!(whole.contains(&((csv.lines().count() - 1) / 4)));
    assert!(csv.lines().all(|line| line.split(',').count() == 9));
}

/// One line of one rank that names the option, exit code 2, no hang.
#[test]
#[ignore = "long: make test-lab"]
fn bad_options_end_with_code_2_and_one_line() {
    let _alone = alone();
    for (name, arguments, option) in [
        ("network_test", "-t nonsense", "--type"),
        ("network_test", "--bogus", "--bogus"),
        ("goptest", "-bogus 1", "-bogus"),
        ("goptest", "-size 1 2", "-size"),
        ("mpi_collective_benchmark", "-methods all", "-methods"),
        ("mpi_collective_benchmark", "-startSize 0", "-startSize"),
    ] {
        let mut command = mpirun(3, name);
        command.args(arguments.split_whitespace());
        let output = ended(command, name);
        assert_eq!(output.status.code(), Some(2), "{name} {arguments}");
        let text = String::from_utf8_lossy(&output.stderr);
        let own: Vec<&str> =
            text.lines().filter(|line| line.contains(&format!("{name}:"))).collect();
        assert_eq!(own.len(), 1, "{text}");
        assert!(own[0].contains(option), "{}", own[0]);
    }
}

#[test]
#[ignore = "long: make test-lab"]
fn one_process_is_too_few_and_memory_that_is_not_there_is_told() {
    let _alone = alone();
    for name in ["network_test", "goptest"] {
        let output = ended(mpirun(1, name), name);
        assert_eq!(output.status.code(), Some(3), "{name}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("at least 2 processes"));
    }
    for (name, arguments) in [
        ("network_test", "-t all_to_all -b 2147483646 -e 2147483647 -f /dev/null"),
        ("goptest", "-mpiscatter -sizelist 2000000000"),
        ("mpi_collective_benchmark", "-method gather -bytes 2147483644"),
    ] {
        let mut command = mpirun(32, name);
        command.args(arguments.split_whitespace());
        let output = ended(command, name);
        assert_eq!(output.status.code(), Some(4), "{name} {arguments}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no memory for"));
    }
}
