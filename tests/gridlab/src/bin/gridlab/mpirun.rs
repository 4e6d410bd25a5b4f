//! `gridlab mpirun`: runs an MPI's own launcher inside the lab's first node, and sees to it that
//! nothing it started outlives it, however it ends.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use gridlab::mpi::{Job, Launch};
use gridlab::{Lab, Mpi, Signals, die_with_parent, state};

use crate::Failure;

/// What the processes of one run have in their environment.
const RUN: &str = "GRIDLAB_RUN";
/// How long a launcher that was sent SIGTERM may take to end its processes itself.
const TERM_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Args)]
pub struct MpirunArgs {
    /// The lab; not needed while only one is up
    pub name: Option<String>,
    /// Which MPI; the distribution's Open MPI or MPICH if not given
    #[arg(long, value_enum)]
    mpi: Option<Mpi>,
    /// Processes in all; all nodes times --ppn if not given
    #[arg(short)]
    n: Option<usize>,
    /// Processes a node
    #[arg(long, default_value_t = 1)]
    ppn: usize,
    /// A variable for the program's environment (may be repeated)
    #[arg(long = "env", value_name = "K=V")]
    env: Vec<String>,
    /// The program and its arguments
    #[arg(required = true, last = true)]
    program: Vec<OsString>,
}

pub fn run(lab: &str, args: MpirunArgs) -> Result<ExitCode, Failure> {
    let mut env = Vec::new();
    for pair in &args.env {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("--env expects K=V, found `{pair}`"))?;
        env.push((key.into(), value.into()));
    }
    let mpi = args.mpi.map_or_else(Mpi::default_present, Ok)?;
    let job = Job { n: args.n, ppn: args.ppn, env, program: args.program };
    let launch = mpi.launch(Lab::attach(lab)?.topology(), &job)?;
    let signals = Signals::block(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD])?;
    let run = format!("{lab}-{}-{}", std::process::id(), start_time());
    let mut child = start(lab, &launch, &run)?;
    let ended = wait(&mut child, &signals);
    state::kill_processes(lab, |pid| runs_in(pid, &run))?;
    ended
}

fn start_time() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |t| t.as_nanos())
}

fn start(lab: &str, launch: &Launch, run: &str) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--lab", lab, "exec", &launch.node, "--"]).args(&launch.command);
    command.envs(launch.env.iter().cloned()).env(RUN, run);
    die_with_parent(&mut command);
    Ok(command.spawn()?)
}

/// Waits for the launcher; passes a signal on to it, and kills it where it doesn't heed it.
fn wait(child: &mut Child, signals: &Signals) -> Result<ExitCode, Failure> {
    let mut told: Option<(Instant, i32)> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            // Some launchers that were told to end claim that all went well.
            let signal = told.map(|(_, signal)| signal).or(status.signal());
            let code = signal.map_or(status.code().unwrap_or(1), |signal| 128 + signal);
            return Ok(ExitCode::from(code as u8));
        }
        let signal = signals.wait(100).filter(|&s| s != libc::SIGCHLD);
        if let (Some(signal), None) = (signal, told) {
            told = Some((Instant::now(), signal));
            if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
            }
        }
        if told.is_some_and(|(at, _)| at.elapsed() > TERM_PATIENCE) {
            child.kill()?;
        }
    }
}

/// Whether a process was started by this run, directly or not.
fn runs_in(pid: u32, run: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = format!("{RUN}={run}");
    environment.split(|&b| b == 0).any(|entry| entry == wanted.as_bytes())
}
