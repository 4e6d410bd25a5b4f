//! The command `gridlab`. See `gridlab --help`.
//!
//! Exit codes: 0 done, 1 it could not be done, 2 wrong usage; `exec` and `mpirun` end with the code
//! of what they ran, or 127 where it could not be started.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use gridlab::units::{parse_loss, parse_rate, parse_time};
use gridlab::{Lab, LinkChange, Options, enter, state};

mod mpirun;
mod probe;
mod serve;
mod show;

/// An emulated grid of hosts on one machine, with real MPI running on it.
#[derive(Parser)]
#[command(
    version,
    about,
    after_help = "Exit codes: 0 done, 1 not done, 2 wrong usage; exec and \
    mpirun end with the code of what they ran, or 127."
)]
struct Cli {
    /// The lab that is meant; not needed while only one is up
    #[arg(long, global = true, env = "GRIDLAB_LAB")]
    lab: Option<String>,
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    /// Bring up the grid of a topology file
    Up {
        file: PathBuf,
        /// Name of the lab; the file's name without its ending if not given
        #[arg(long)]
        name: Option<String>,
        /// Seed of the links' random losses
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Congestion control of the hosts' TCP; CUBIC if not given, where the kernel has it
        #[arg(long, value_name = "NAME", env = "GRIDLAB_TCP")]
        tcp: Option<String>,
    },
    /// Take a lab down, with every process, host and file of it
    Down {
        name: Option<String>,
        /// All labs, and what killed ones left behind
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Show nodes, links and the lab's own lateness
    Status {
        name: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Run a command on a node
    Exec {
        node: String,
        #[arg(required = true, last = true)]
        command: Vec<OsString>,
    },
    /// Change the link between two sites while the lab runs
    Link(LinkArgs),
    /// Start an MPI program on the lab's nodes
    Mpirun(mpirun::MpirunArgs),
    /// List labs that are up, and what others left behind
    List {
        #[arg(long)]
        json: bool,
    },
    /// Check a topology file and print it as it is understood
    Check {
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Measure round trips between two nodes
    Ping(probe::PingArgs),
    /// Measure what one TCP stream gets between two nodes
    Stream(probe::StreamArgs),
    /// The receiving end of `stream`
    #[command(hide = true)]
    StreamReceive,
    /// The sending end of `stream`
    #[command(hide = true)]
    StreamSend { to: std::net::Ipv4Addr, port: u16, seconds: f64 },
    /// The lab's forwarding process (started by `up`)
    #[command(hide = true)]
    Forwarder,
}

#[derive(Args)]
struct LinkArgs {
    from: String,
    to: String,
    /// One-way latency, such as 40ms
    #[arg(long, value_parser = parse_time)]
    latency: Option<std::time::Duration>,
    /// Rate, such as 100mbit
    #[arg(long, value_parser = parse_rate)]
    rate: Option<f64>,
    /// Loss, such as 0.1%
    #[arg(long, value_parser = parse_loss)]
    loss: Option<f64>,
    /// Change only the direction named, not both
    #[arg(long)]
    one_way: bool,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let called_as = arguments.next().unwrap_or_default();
    if called_as.to_string_lossy().ends_with("gridlab-agent") {
        return agent(arguments.collect());
    }
    gridlab::end_quietly_on_closed_pipe();
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gridlab: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Called by an MPI launcher in place of ssh.
fn agent(arguments: Vec<OsString>) -> ExitCode {
    let error = match std::env::var("GRIDLAB_LAB") {
        Ok(lab) => enter::agent(&lab, &arguments).to_string(),
        Err(_) => "GRIDLAB_LAB is not set: the agent works below `gridlab mpirun` only".to_owned(),
    };
    eprintln!("gridlab-agent: {error}");
    ExitCode::from(127)
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let lab_name = |name: Option<String>| match name.or(cli.lab.clone()) {
        Some(name) => Ok(name),
        None => state::only_lab(),
    };
    match cli.command {
        Cmd::Up { file, name, seed, tcp } => up(file, name.or(cli.lab), seed, tcp)?,
        Cmd::Down { name, all: false } => {
            let name = lab_name(name)?;
            if !state::traces().iter().any(|t| t.name == name) {
                return Err(state::StateError::Unknown(name).into());
            }
            gridlab::lab::down(&name)?;
            println!("{name} is down");
        }
        Cmd::Down { all: true, .. } => {
            for trace in state::traces() {
                gridlab::lab::down(&trace.name)?;
                println!("{} is down", trace.name);
            }
        }
        Cmd::Status { name, json } => {
            let status = Lab::attach(&lab_name(name)?)?.status()?;
            show::status(&status, json)?;
        }
        Cmd::Exec { node, command } => {
            let error = enter::exec(&lab_name(None)?, &node, &command);
            eprintln!("gridlab: {error}");
            return Ok(ExitCode::from(127));
        }
        Cmd::Link(link) => {
            let change =
                LinkChange { latency: link.latency, rate_bytes_per_s: link.rate, loss: link.loss };
            if change == LinkChange::default() {
                return Err("nothing to change: give --latency, --rate or --loss".into());
            }
            Lab::attach(&lab_name(None)?)?.link(&link.from, &link.to, !link.one_way, change)?;
        }
        Cmd::Mpirun(args) => return mpirun::run(&lab_name(args.name.clone())?, args),
        Cmd::List { json } => show::list(&state::traces(), json)?,
        Cmd::Check { file, json } => show::topology(&load(&file)?, json)?,
        Cmd::Ping(args) => return probe::ping(&lab_name(None)?, &args),
        Cmd::Stream(args) => return probe::stream(&lab_name(None)?, &args),
        Cmd::StreamReceive => probe::receive()?,
        Cmd::StreamSend { to, port, seconds } => probe::send(to, port, seconds)?,
        Cmd::Forwarder => serve::run()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn load(file: &std::path::Path) -> Result<gridlab::Topology, Failure> {
    gridlab::Topology::load(file).map_err(|e| format!("{}: {e}", file.display()).into())
}

fn up(file: PathBuf, name: Option<String>, seed: u64, tcp: Option<String>) -> Result<(), Failure> {
    let topology = load(&file)?;
    let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned());
    let lab = Lab::up(topology, Options { name: name.or(stem), seed, tcp })?;
    let status = lab.status()?;
    let (nodes, sites) = (status.nodes.len(), status.sites.len());
    println!("{} is up: {nodes} nodes on {sites} sites", lab.name());
    if let Some(reason) = status.real_time_refused {
        eprintln!(
            "gridlab: the forwarder has no real-time priority ({reason}); busy processors will \
             make packets late, which `gridlab status` shows. Run as root, or allow it with \
             `ulimit -r`."
        );
    }
    Ok(lab.keep()?)
}
