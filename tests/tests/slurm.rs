//! `srun --arborcast` and the TaskProlog with the distribution's Slurm: a controller and a slurmd on each
//! node of a grid. Where there is no Slurm these tests say so and are not run.

mod support;

use arborcast_tests::{Background, Grid, compile_c, program};
use gridlab::Mpi;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{LIMIT, carried_by_trees, planted_for_every_group, shell, wait_until};

/// Below /run, which each node has for itself.
const FOLDER_OF_NODE: &str = "/run/slurm";
/// The variable by which a job of the TaskProlog asks.
const ASK: (&str, &str) = ("SLURM_ARBORCAST", "everywhere");
/// The plugin's word where it has found a node without the library.
const NATIVE: &str = "all broadcasts are native";

struct Slurm {
    // Ends before the grid goes.
    daemons: Vec<Background>,
    grid: Grid,
    folder: tempfile::TempDir,
}

fn is_root() -> bool {
    // SAFETY: geteuid(2) touches no memory.
    unsafe { libc::geteuid() == 0 }
}

/// A program on the PATH, or where distributions have daemons.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A file of packaging/slurm, as `make install` fills it in for the programs under test.
fn fill(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/slurm").join(name);
    let arborcast = program("arborcast", Mpi::OpenMpi);
    let text = std::fs::read_to_string(&source).unwrap();
    let (to, command) = (folder.join(name), "@PREFIX@/bin/arborcast");
    assert!(text.contains(command), "{name}");
    std::fs::write(&to, text.replace(command, arborcast.to_str().unwrap())).unwrap();
    std::fs::set_permissions(&to, source.metadata().unwrap().permissions()).unwrap();
    to
}

impl Slurm {
    fn start(grid: Grid) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", &at("plugin.so")]);
        let built = compiler.arg(fill("spank_arborcast.c", folder.path())).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        std::fs::write(at("plugstack.conf"), format!("required {}\n", at("plugin.so"))).unwrap();
        let task_prolog = fill("task-prolog", folder.path());
        let nodes = grid.nodes();
        let configuration = format!(
            "ClusterName=lab\nSlurmctldHost={}\nSlurmUser=root\nAuthType=auth/none\nCredType=cred/none\n\
             StateSaveLocation={}\nSlurmctldPidFile={FOLDER_OF_NODE}/slurmctld.pid\n\
             SlurmdPidFile={FOLDER_OF_NODE}/slurmd.pid\nSlurmdSpoolDir={FOLDER_OF_NODE}\nTmpFS={FOLDER_OF_NODE}\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             ReturnToService=2\nPlugStackConfig={}\nTaskProlog={}\n\
             NodeName={} CPUs=2 State=UNKNOWN\nPartitionName=all Nodes=ALL Default=YES State=UP\n",
            nodes[0],
            at("state"),
            at("plugstack.conf"),
            task_prolog.display(),
            nodes.join(","),
        );
        std::fs::create_dir(at("state")).unwrap();
        std::fs::write(at("slurm.conf"), configuration).unwrap();
        // The default looks for a file system that a host of a lab has not.
        std::fs::write(at("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let mut slurm = Slurm { daemons: Vec::new(), grid, folder };
        slurm.start_daemon(&nodes[0], "slurmctld");
        for node in &nodes {
            slurm.start_daemon(node, "slurmd");
        }
        wait_until("all nodes to be idle", || {
            let states = slurm.command("sinfo").args(["-h", "-N", "-o", "%T"]).output().ok()?;
            let states = String::from_utf8_lossy(&states.stdout).into_owned();
            let idle = states.lines().filter(|state| *state == "idle").count();
            (idle == nodes.len()).then_some(())
        });
        slurm
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    fn start_daemon(&mut self, node: &str, name: &str) {
        shell(&self.grid, node, &format!("mkdir -p {FOLDER_OF_NODE}"));
        let mut command = self.grid.lab().exec(node, found(name).unwrap()).unwrap();
        command.arg("-D").env("SLURM_CONF", self.configuration());
        self.daemons.push(Background::start(command, format!("{name} on {node}")).unwrap());
    }

    /// A command of Slurm's, on the first node.
    fn command(&self, name: &str) -> Command {
        let mut command = self.grid.lab().exec(&self.grid.nodes()[0], name).unwrap();
        command.env("SLURM_CONF", self.configuration());
        command
    }

    /// What an MPI program says that checks broadcasts, one rank on each node, and how many broadcasts
    /// trees carried.
    fn run(&self, mpi: Mpi, options: &[&str], environment: &[(&str, &str)]) -> (Vec<String>, u64) {
        let report = self.folder.path().join("report.json");
        let mut srun = self.command("srun");
        srun.args(["--nodes=4", "--ntasks-per-node=1"]).args(options).envs(environment.to_vec());
        srun.env("ARBORCAST_REPORT", &report);
        match mpi {
            Mpi::Mpich => {
                // As `gridlab mpirun` has it for this MPI.
                let library = program("libgridlab.so", Mpi::OpenMpi);
                srun.arg("--mpi=pmi2")
                    .arg(format!("--export=ALL,LD_PRELOAD={}", library.display()));
                srun.envs([("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "tun0")]);
            }
            _ => {
                srun.arg("--mpi=pmix").env("OMPI_MCA_btl_tcp_if_include", "tun0");
                srun.envs([("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "tcp,self")]);
                srun.env("OMPI_MCA_mpi_yield_when_idle", "1");
            }
        }
        srun.arg(compile_c("bcast_payloads.c", mpi)).args(["1", "65536", "0"]);
        let mut running = Background::start(srun, "srun").unwrap();
        let status = running.wait(LIMIT);
        std::thread::sleep(std::time::Duration::from_millis(50));
        let lines = running.lines();
        assert!(status.success(), "{status}:\n{}", lines.join("\n"));
        assert!(lines.iter().any(|line| line.contains(" broadcasts, ")), "{lines:?}");
        let (processes, along_trees) = match report.exists() {
            true => carried_by_trees(&report),
            false => (0, 0),
        };
        let _ = std::fs::remove_file(&report);
        println!(
            "{} {options:?}: {along_trees} broadcasts along trees, counted by {processes}",
            mpi.name()
        );
        assert!(processes == 0 || processes == 4, "a rank has the library where another has not");
        (lines, along_trees)
    }
}

/// Whether tests of Slurm can be run; says why not.
fn slurm_is_here() -> bool {
    let needed = ["slurmctld", "slurmd", "srun", "sinfo"];
    let missing = needed.iter().find(|name| found(name).is_none());
    let has_header = ["/usr/include", "/usr/local/include"]
        .iter()
        .any(|folder| Path::new(folder).join("slurm/spank.h").exists());
    let reason = match missing {
        Some(name) => format!("no {name}: packages slurm-wlm and libslurm-dev have it"),
        None if !has_header => "no slurm/spank.h: package libslurm-dev has it".into(),
        None if !is_root() => "Slurm's daemons need root".into(),
        None => return true,
    };
    println!("not run: {reason}");
    false
}

#[test]
fn srun_runs_programs_along_trees_where_asked() {
    if !slurm_is_here() {
        return;
    }
    let slurm = Slurm::start(planted_for_every_group(6100));
    assert_eq!(slurm.run(Mpi::Mpich, &[], &[]).1, 0, "nobody has asked");
    assert!(slurm.run(Mpi::Mpich, &[], &[ASK]).1 > 0, "through the TaskProlog");
    for mpi in [Mpi::Mpich, Mpi::OpenMpi] {
        assert!(slurm.run(mpi, &["--arborcast"], &[]).1 > 0, "through the plugin");
    }
}

#[test]
#[ignore = "ten seconds of what `arborcast run` has shorter tests for"]
fn srun_runs_programs_natively_where_a_node_lacks_the_library() {
    if !slurm_is_here() {
        return;
    }
    let slurm = Slurm::start(planted_for_every_group(6200));
    assert!(slurm.run(Mpi::OpenMpi, &[], &[ASK]).1 > 0, "all nodes have it yet");
    let library = program("libarborcast.so", Mpi::OpenMpi);
    shell(&slurm.grid, "b1", &format!("mount --bind /dev/null {}", library.display()));
    for mpi in [Mpi::Mpich, Mpi::OpenMpi] {
        let (said, along_trees) = slurm.run(mpi, &["--arborcast"], &[]);
        assert_eq!(along_trees, 0);
        assert_eq!(said.iter().filter(|line| line.contains(NATIVE)).count(), 1, "{said:?}");
    }
    // The same where srun hands on no more variables than are named.
    let mut print = slurm.command("srun");
    print.args([
        "-N4",
        "-n4",
        "--arborcast",
        "--export=PATH",
        "sh",
        "-c",
        "echo \"<$LD_PRELOAD>\"",
    ]);
    assert_eq!(String::from_utf8_lossy(&print.output().unwrap().stdout), "<>\n".repeat(4));
    let ask = slurm
        .command("srun")
        .args(["-N4", "-n4"])
        .arg(program("arborcast", Mpi::OpenMpi))
        .arg("env")
        .output();
    assert_eq!(ask.unwrap().status.code(), Some(125), "what a job script asks first");
}
