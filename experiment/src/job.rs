//! The program: starts MPI, then leads or follows.

use crate::daemon_link::{self, DaemonLink};
use crate::error::JobError;
use crate::leader::lead;
use crate::mailbox::Mailbox;
use crate::options::Options;
use crate::worker::Worker;
use arborcast_planner::job::wire::{News, Order};
use arborcast_planner::job::{IDLE_NAP, SHORT_NAP};
use arborcast_planner::search::schedule::fixed_targets;
use arborcast_proto::NodeName;
use arborcast_shim::host_tcp;
use arborcast_shim::pmpi::Comm;
use clap::{CommandFactory, Parser};
use mpi::raw::AsRaw;
use mpi::traits::*;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

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
        Ok(options) => job(&options, &Mailbox::new(&world), Comm::from_raw(world.as_raw())),
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

/// What a rank tells all others before they begin.
#[derive(Serialize, Deserialize)]
struct Introduction {
    /// Since 1970, by its own clock.
    now_us: u64,
    /// See [`daemon_link::running`].
    epoch: u64,
    node: String,
    site: String,
    /// See [`host_tcp::begins_anew`].
    begins_anew: bool,
}

impl Introduction {
    fn own() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        let begins_anew = host_tcp::begins_anew();
        let (epoch, node, site) =
            daemon_link::running().unwrap_or_else(|| (0, host(), String::new()));
        Introduction { now_us: now as u64, epoch, node, site, begins_anew }
    }
}

fn job(options: &Options, mailbox: &Mailbox, world: Comm) -> Result<(), JobError> {
    let own = Introduction::own();
    let all: Option<Vec<Introduction>> = mailbox.all_gather(&own).into_iter().collect();
    let Some(all) = all else {
        let reason =
            "the ranks' programs are of several versions; install the same one on all nodes";
        return Err(JobError::Usage(reason.to_owned()));
    };
    // Clocks differ and are set back: a job that is started later is the newer one all the same.
    let running = all.iter().map(|rank| rank.epoch).max().unwrap_or(0);
    let epoch = all[0].now_us.max(running.saturating_add(1));
    let daemon = DaemonLink::open(epoch).map_err(JobError::Refused)?;
    let begins_anew = all.iter().any(|rank| rank.begins_anew);
    let (nodes, sites): (Vec<_>, Vec<_>) =
        all.into_iter().map(|rank| (rank.node, rank.site)).unzip();
    let own = NodeName::new(own.node).map_err(|error| JobError::Usage(error.to_string()))?;
    let names: Result<Vec<_>, _> = nodes.into_iter().map(NodeName::new).collect();
    let names = names.map_err(|error| JobError::Usage(error.to_string()))?;
    if let Err(error) = arborcast_proto::Group::new(names.clone()) {
        return Err(JobError::Usage(format!("{error}; start one rank on each node")));
    }
    let settings = options.settings(begins_anew);
    let worker = Worker::new(daemon, world, &fixed_targets(&settings, &names, &own));
    if mailbox.rank() == 0 {
        lead(options, settings, mailbox, worker, (names, sites))
    } else {
        follow(worker, mailbox)
    }
}

/// Every rank but 0.
fn follow(mut worker: Worker, mailbox: &Mailbox) -> Result<(), JobError> {
    let mut nap = SHORT_NAP;
    loop {
        for news in worker.poll(mailbox).map_err(JobError::Refused)? {
            mailbox.send(0, &news);
        }
        match mailbox.receive::<Order>() {
            Some((_, Order::End)) => {
                mailbox.close();
                return Ok(());
            }
            Some((_, order)) => {
                nap = SHORT_NAP;
                if let Some(news) = worker.obey(order, mailbox) {
                    mailbox.send(0, &news);
                    if let News::Failed(reason) = news {
                        return Err(JobError::Rank(reason));
                    }
                }
            }
            None => {
                worker.daemon.sleep(nap);
                // Bound to a step, a rank must be there when it comes.
                let is_awaited = worker.is_bound() || mailbox.is_busy();
                nap = if is_awaited { SHORT_NAP } else { (nap * 2).min(IDLE_NAP) };
            }
        }
    }
}
