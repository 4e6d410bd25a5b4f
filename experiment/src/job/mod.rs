//! `arborcast-experiment`: the MPI job that searches for broadcast trees.
//!
//! One rank a node. Rank 0 decides ([`coordinator`]), every rank speaks with its own daemon
//! ([`station`]) and takes part in broadcasts ([`worker`], [`groups`]). Between orders a rank sleeps.

mod agenda;
mod coordinator;
mod groups;
mod options;
mod post;
mod search;
mod standings;
mod station;
mod wire;
mod worker;

pub use options::Options;

use arborcast_proto::NodeName;
use arborcast_proto::message::Refusal;
use arborcast_shim::raw::Comm;
use clap::{CommandFactory, Parser};
use coordinator::Coordinator;
use mpi::raw::AsRaw;
use mpi::traits::*;
use post::Post;
use station::Station;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::{News, Order};
use worker::Worker;

/// How long a rank sleeps between two looks at its post while a search goes on, and at most when
/// nothing happens. The daemon wakes it earlier.
const SHORT_NAP: Duration = Duration::from_millis(1);
const IDLE_NAP: Duration = Duration::from_millis(50);

/// Why the job ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("{0}")]
    Usage(String),
    #[error("the daemon refuses this job: {0}")]
    Refused(Refusal),
    #[error("node {0}")]
    Rank(String),
}

impl JobError {
    fn exit_code(&self) -> u8 {
        match self {
            JobError::Rank(_) => 1,
            JobError::Usage(_) => 2,
            JobError::Refused(_) => 3,
        }
    }
}

/// The program: all ranks run it.
pub fn main() -> ExitCode {
    let options = Options::try_parse();
    // Asked at installation, where no MPI may be able to start.
    if let Ok(Options { completions: Some(shell), .. }) = options {
        let mut command = Options::command();
        let name = "arborcast-experiment";
        clap_complete::generate(shell, &mut command, name, &mut std::io::stdout());
        return ExitCode::SUCCESS;
    }
    let Some(universe) = mpi::initialize() else {
        eprintln!("arborcast-experiment: MPI was started already");
        return ExitCode::FAILURE;
    };
    let world = universe.world();
    let speaks = world.rank() == 0;
    let outcome = match options {
        Ok(options) => job(&options, &Post::new(&world), Comm::from_raw(world.as_raw())),
        Err(error) => {
            if speaks {
                let _ = error.print();
            }
            world.barrier();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("arborcast-experiment: {error}");
            // The others may be in the middle of anything; the launcher ends them.
            world.abort(error.exit_code().into())
        }
    }
}

fn job(options: &Options, post: &Post, world: Comm) -> Result<(), JobError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let epoch = post.number_of_rank_0(now as u64);
    let station = Station::open(epoch).map_err(JobError::Refused)?;
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (node, site) = station.names().unwrap_or_else(|| (host(), String::new()));
    let nodes = post.all_gather(&node);
    let sites = post.all_gather(&site);
    let names: Result<Vec<_>, _> = nodes.into_iter().map(NodeName::new).collect();
    let names = names.map_err(|error| JobError::Usage(error.to_string()))?;
    if let Err(error) = arborcast_proto::Group::new(names.clone()) {
        return Err(JobError::Usage(format!("{error}; start one rank on each node")));
    }
    let worker = Worker::new(station, world);
    if post.rank() == 0 {
        Coordinator::new(options, post, worker, names, sites).run()
    } else {
        follow(worker, post)
    }
}

/// Every rank but 0.
fn follow(mut worker: Worker, post: &Post) -> Result<(), JobError> {
    let mut nap = SHORT_NAP;
    loop {
        for news in worker.look().map_err(JobError::Refused)? {
            post.send(0, &news);
        }
        match post.receive::<Order>() {
            Some((_, Order::End)) => {
                post.close();
                return Ok(());
            }
            Some((_, order)) => {
                nap = SHORT_NAP;
                if let Some(news) = worker.obey(order, post) {
                    post.send(0, &news);
                    if let News::Failed(reason) = news {
                        return Err(JobError::Rank(reason));
                    }
                }
            }
            None => {
                worker.station.sleep(nap);
                // Bound to a step, a rank must be there when it comes.
                let is_awaited = worker.is_bound() || post.is_busy();
                nap = if is_awaited { SHORT_NAP } else { (nap * 2).min(IDLE_NAP) };
            }
        }
    }
}
