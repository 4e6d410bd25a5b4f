//! The operator's program: flags, and where the answers go.

use arborcast_proto::client;
use arborcast_proto::message::Ask;
use arborcast_service::command::plan::{Question, WhatIf};
use arborcast_service::command::{self, CommandError, Daemon, Doctor, TargetName, TreeFormat};
use arborcast_service::config;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Asks the Arborcast daemon of this node, and runs MPI programs with Arborcast.
///
/// A TARGET is ROOT, ROOT/SIZE or GROUP/ROOT/SIZE as `arborcast targets` shows them: ROOT a node's
/// name or index, SIZE a message size such as 1MiB, GROUP the first digits of the group.
///
/// Exit codes: 0 done; 1 there is no such target; 2 the command line, or a file it names, cannot be used; 3 no daemon, or
/// no access to it; 4 the daemon refuses; 5 it does not answer or is of another version. `run` ends
/// as the program does; 125 where the library cannot be loaded, and the program is not started; 127 where
/// it is not found, 126 where it cannot be started. `env` ends with 125 where `run` would. `doctor` ends with 0 where it finds no fault, 3 and 5
/// as above, and 1 for any other fault; advice is none.
#[derive(Debug, Parser)]
#[command(name = "arborcast", version)]
struct Flags {
    /// The daemon's socket
    #[arg(long, global = true, value_name = "PATH", env = client::SOCKET_VARIABLE,
          default_value = client::DEFAULT_SOCKET)]
    socket: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Json {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What the daemon and its experiment are doing
    Status(Json),
    /// What applications broadcast, and what has been found for it
    Targets(Json),
    /// Status and targets, drawn anew each second; q ends it
    Top {
        /// From one look to the next
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
        interval: Duration,
    },
    /// The trees of the plans in use
    Trees {
        /// Only of this target
        target: Option<TargetName>,
        /// For Graphviz
        #[arg(long, conflicts_with_all = ["svg", "json"])]
        dot: bool,
        /// As a picture
        #[arg(long, conflicts_with = "json")]
        svg: bool,
        #[command(flatten)]
        json: Json,
    },
    /// How a target converged
    History {
        target: TargetName,
        /// As a picture: best time against time of searching
        #[arg(long, conflicts_with = "json")]
        svg: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Why a target has its plan: what was predicted and measured, and against what
    Explain {
        target: TargetName,
        #[command(flatten)]
        json: Json,
    },
    /// Latencies and rates of the links as measured
    Matrix {
        /// As a picture
        #[arg(long, conflicts_with = "json")]
        svg: bool,
        #[command(flatten)]
        json: Json,
    },
    /// What the planner makes of a matrix of links, and of one that is not; asks no daemon
    Plan {
        /// What `arborcast matrix --json` wrote
        #[arg(long, value_name = "FILE")]
        matrix: PathBuf,
        /// The first digits of the group, where the file has several
        #[arg(long)]
        group: Option<String>,
        /// The node that broadcasts
        #[arg(long, value_name = "NODE")]
        root: String,
        /// The size of the message, such as 1MiB
        #[arg(long, value_name = "SIZE", value_parser = command::parse_size)]
        bytes: u64,
        /// What if: another rate (200mbit, or x2 of what it was), one-way latency (20ms) or both between the
        /// sites of nodes A and B; B may be * for all other sites
        #[arg(long, value_name = "A-B=RATE,LATENCY")]
        set: Vec<WhatIf>,
        /// Time between broadcasts after which connections begin anew, as TCP's do by default
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
        pause: Duration,
        /// Every pair of nodes has a link of its own; else those of two sites share one
        #[arg(long)]
        unshared: bool,
        #[command(flatten)]
        json: Json,
    },
    /// No experiment on this node until `resume`, and so none on the grid
    Pause(Json),
    /// Let experiments go on
    Resume(Json),
    /// Forget the plan and history of a target, so that it is searched for anew
    Forget {
        #[arg(required_unless_present = "all")]
        target: Option<TargetName>,
        /// Everything that was learned, the links too
        #[arg(long, conflicts_with = "target")]
        all: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Write everything that the daemon knows into a file
    Export {
        file: PathBuf,
        #[command(flatten)]
        json: Json,
    },
    /// Give the daemon what a file knows: of each entry the newer and better known one stays
    Import {
        file: PathBuf,
        #[command(flatten)]
        json: Json,
    },
    /// Put two files together, of each entry the newer and better known one; asks no daemon
    Merge {
        #[arg(value_name = "FILE")]
        one: PathBuf,
        #[arg(value_name = "FILE")]
        other: PathBuf,
        /// The file to write, which may be one of the two
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        #[command(flatten)]
        json: Json,
    },
    /// Everything that can be set, with its default
    Settings(Json),
    /// Whether this node has what Arborcast needs, and what to do where it has not
    Doctor {
        /// The daemon's configuration [default: /etc/arborcast/arborcastd.toml, if it is there]
        #[arg(long, value_name = "FILE", env = config::CONFIG_VARIABLE)]
        config: Option<PathBuf>,
        /// The library to look at, instead of the one beside this program
        #[arg(long, value_name = "PATH", env = command::run::LIBRARY_VARIABLE)]
        library: Option<PathBuf>,
        /// Where /dev/shm, /etc, /proc and /sys of the node are found, as in a container
        #[arg(long, value_name = "DIR", default_value = "/")]
        root: PathBuf,
        #[command(flatten)]
        json: Json,
    },
    /// Run an MPI program with Arborcast: mpirun -n 64 arborcast run -- ./app
    Run {
        /// The library to load, instead of the one beside this program
        #[arg(long, value_name = "PATH", env = command::run::LIBRARY_VARIABLE)]
        library: Option<PathBuf>,
        #[arg(value_name = "PROG")]
        program: OsString,
        /// The program's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// The variable that `run` sets, for what starts programs itself, as batch systems do
    Env {
        /// The library to load, instead of the one beside this program
        #[arg(long, value_name = "PATH", env = command::run::LIBRARY_VARIABLE)]
        library: Option<PathBuf>,
        #[command(flatten)]
        json: Json,
    },
    /// What `make install` gives to a shell
    #[command(hide = true)]
    Completions { shell: Shell },
}

/// A daemon that is asked more often does little else.
fn parse_interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if interval < LEAST { Err(format!("at least {LEAST:?}")) } else { Ok(interval) }
}

fn answer(flags: &Flags) -> Result<String, CommandError> {
    let open = || Daemon::open(&flags.socket);
    let done = |as_json: bool| if as_json { "{ \"done\": true }\n".into() } else { String::new() };
    Ok(match &flags.command {
        Command::Status(Json { json }) => command::status(&mut open()?, *json)?,
        Command::Targets(Json { json }) => command::targets(&mut open()?, *json)?,
        Command::Top { interval } => {
            command::top(&flags.socket, *interval)?;
            String::new()
        }
        Command::Trees { target, dot, svg, json } => {
            let format = match (dot, svg, json.json) {
                (true, ..) => TreeFormat::Dot,
                (_, true, _) => TreeFormat::Svg,
                (.., true) => TreeFormat::Json,
                _ => TreeFormat::Text,
            };
            command::trees(&mut open()?, target.as_ref(), format)?
        }
        Command::History { target, svg, json } => {
            command::history(&mut open()?, target, json.json, *svg)?
        }
        Command::Explain { target, json } => command::explain(&mut open()?, target, json.json)?,
        Command::Matrix { svg, json } => command::matrix(&mut open()?, json.json, *svg)?,
        Command::Plan { matrix, group, root, bytes, set, pause, unshared, json } => {
            let question = Question {
                matrix: matrix.clone(),
                group: group.clone(),
                root: root.clone(),
                bytes: *bytes,
                what_if: set.clone(),
                pause_s: pause.as_secs_f64(),
                unshared: *unshared,
            };
            command::plan(&question, json.json)?
        }
        Command::Pause(Json { json }) => {
            open()?.tell(&Ask::Pause)?;
            done(*json)
        }
        Command::Resume(Json { json }) => {
            open()?.tell(&Ask::Resume)?;
            done(*json)
        }
        Command::Forget { target, json, .. } => {
            command::forget(&mut open()?, target.as_ref())?;
            done(json.json)
        }
        Command::Export { file, json } => command::export(&mut open()?, file, json.json)?,
        Command::Import { file, json } => command::import(&mut open()?, file, json.json)?,
        Command::Merge { one, other, output, json } => {
            command::merge(one, other, output, json.json)?
        }
        Command::Settings(Json { json }) => command::settings::settings(*json),
        Command::Run { .. } | Command::Env { .. } | Command::Doctor { .. } => String::new(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            let mut flags = Flags::command();
            clap_complete::generate(*shell, &mut flags, "arborcast", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    })
}

fn print(text: &str) {
    // A reader that has seen enough, such as `head`, is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    match &flags.command {
        Command::Run { library, program, arguments } => {
            return command::run::run(library.as_deref(), program, arguments).into();
        }
        Command::Env { library, json } => {
            return match command::run::env(library.as_deref(), json.json) {
                Ok(text) => {
                    print(&text);
                    ExitCode::SUCCESS
                }
                Err(reason) => {
                    eprintln!("arborcast: {reason}");
                    command::run::NO_LIBRARY.into()
                }
            };
        }
        Command::Doctor { config, library, root, json } => {
            let (socket, config) = (flags.socket.clone(), config.clone());
            let doctor = Doctor { socket, config, library: library.clone(), root: root.clone() };
            let (text, exit_code) = command::doctor(&doctor, json.json);
            print(&text);
            return exit_code.into();
        }
        _ => {}
    }
    match answer(&flags) {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("arborcast: {error}");
            error.exit_code().into()
        }
    }
}
