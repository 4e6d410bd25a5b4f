//! An emulated grid with a daemon on every node.

use crate::{Background, program, shim};
use gridlab::{Lab, LabError, Mpi, Options, Topology};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Why a grid cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GridError {
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Topology(#[from] gridlab::TopologyError),
    #[error("{0}: {1}")]
    Start(String, std::io::Error),
    #[error("node {node}: no daemon after {waited:?}:\n{said}")]
    NoDaemon { node: String, waited: Duration, said: String },
    #[error("{what} ended with {status}:\n{said}")]
    Failed { what: String, status: String, said: String },
}

/// How an application is run.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    pub mpi: Mpi,
    /// Ranks in all; `None`: as many as fit.
    pub ranks: Option<usize>,
    pub ranks_per_node: usize,
    /// Under Arborcast, or as it is.
    pub managed: bool,
    pub env: Vec<(&'a str, &'a str)>,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Run { mpi: Mpi::OpenMpi, ranks: None, ranks_per_node: 1, managed: true, env: vec![] }
    }
}

/// A lab and its daemons.
pub struct Grid {
    // Daemons end before the lab goes.
    daemons: Vec<(String, Background)>,
    daemon_env: Vec<(OsString, OsString)>,
    lab: Lab,
}

impl Grid {
    /// Brings the grid up; daemons have to be started.
    ///
    /// # Errors
    /// Where the lab does not come up.
    pub fn up(topology: &Path) -> Result<Self, GridError> {
        Self::of(Topology::load(topology)?)
    }

    /// As [`Grid::up`], of a topology that is no file.
    ///
    /// # Errors
    /// Where the lab does not come up.
    pub fn of(topology: Topology) -> Result<Self, GridError> {
        let lab = Lab::up(topology, Options::default())?;
        Ok(Grid { daemons: Vec::new(), daemon_env: Vec::new(), lab })
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    pub fn nodes(&self) -> Vec<String> {
        self.lab.nodes().into_iter().map(str::to_owned).collect()
    }

    /// Daemons that are started from now on find this variable in their environment.
    pub fn set_daemon_env(&mut self, key: impl Into<OsString>, value: impl Into<OsString>) {
        self.daemon_env.push((key.into(), value.into()));
    }

    /// Starts a daemon on every node, with more flags, and waits until all of them answer.
    ///
    /// # Errors
    /// Where one does not.
    pub fn start_daemons(&mut self, flags: &[&str]) -> Result<(), GridError> {
        for node in self.nodes() {
            self.start_daemon(&node, flags)?;
        }
        for node in self.nodes() {
            self.wait_for_daemon(&node)?;
        }
        Ok(())
    }

    /// Starts the daemon of one node.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_daemon(&mut self, node: &str, flags: &[&str]) -> Result<(), GridError> {
        let topology = self.lab.topology();
        let site = topology.nodes.iter().find(|n| n.name == node).map(|n| n.site);
        let site = site.map_or("default", |site| &topology.sites[site].name);
        let mut command = self.lab.exec(node, program("arborcastd", Mpi::OpenMpi))?;
        // Below /run, which each node has for itself.
        command.args(["--site", site, "--state-directory", "/run/arborcast/state"]).args(flags);
        command.envs(self.daemon_env.iter().cloned());
        let what = format!("arborcastd on {node}");
        let daemon = Background::start(command, &what).map_err(|e| GridError::Start(what, e))?;
        self.daemons.push((node.to_owned(), daemon));
        Ok(())
    }

    /// Waits until the daemon of a node answers.
    ///
    /// # Errors
    /// Where it does not within half a minute.
    pub fn wait_for_daemon(&self, node: &str) -> Result<(), GridError> {
        let (started, limit) = (Instant::now(), Duration::from_secs(30));
        while !self.operator(node, &["status"])?.status.success() {
            if started.elapsed() > limit {
                let daemon = self.daemons.iter().find(|(name, _)| name == node);
                let said = daemon.map(|(_, daemon)| daemon.lines().join("\n")).unwrap_or_default();
                return Err(GridError::NoDaemon { node: node.into(), waited: limit, said });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The daemon of a node, to be signalled or taken away.
    pub fn take_daemon(&mut self, node: &str) -> Option<Background> {
        let index = self.daemons.iter().position(|(name, _)| name == node)?;
        Some(self.daemons.swap_remove(index).1)
    }

    /// Runs the operator's command on a node.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn operator(&self, node: &str, arguments: &[&str]) -> Result<Output, GridError> {
        let mut command = self.lab.exec(node, program("arborcast", Mpi::OpenMpi))?;
        command.args(arguments);
        command.output().map_err(|error| GridError::Start("arborcast".into(), error))
    }

    /// What the operator's command prints with `--json`.
    ///
    /// # Errors
    /// Where it fails or prints something else.
    pub fn operator_json(
        &self,
        node: &str,
        arguments: &[&str],
    ) -> Result<serde_json::Value, GridError> {
        let output = self.operator(node, &[arguments, &["--json"]].concat())?;
        let failed = || GridError::Failed {
            what: format!("arborcast {}", arguments.join(" ")),
            status: output.status.to_string(),
            said: String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat())
                .into(),
        };
        serde_json::from_slice(&output.stdout).map_err(|_| failed())
    }

    /// Starts an experiment job on all nodes.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn experiment(&self, arguments: &[&str]) -> Result<Background, GridError> {
        let job = program("arborcast-experiment", Mpi::OpenMpi);
        let mut words: Vec<&OsStr> = vec![job.as_os_str()];
        words.extend(arguments.iter().map(OsStr::new));
        let command = self.lab.mpirun(Mpi::OpenMpi, None, 1, &[], &words)?;
        let what = "arborcast-experiment";
        Background::start(command, what).map_err(|error| GridError::Start(what.into(), error))
    }

    /// The command that runs an application on the grid.
    ///
    /// # Errors
    /// Where the MPI is not there.
    pub fn application(
        &self,
        run: &Run<'_>,
        application: &Path,
        arguments: &[&str],
    ) -> Result<Command, GridError> {
        let mut words: Vec<OsString> = Vec::new();
        if run.managed {
            words.push(program("arborcast", Mpi::OpenMpi).into());
            words.extend(["run".into(), "--library".into(), shim().into(), "--".into()]);
        }
        words.push(application.into());
        words.extend(arguments.iter().map(OsString::from));
        let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
        Ok(self.lab.mpirun(run.mpi, run.ranks, run.ranks_per_node, &run.env, &words)?)
    }

    /// Runs an application to its end; returns the lines of its standard output.
    ///
    /// # Errors
    /// Where it fails or takes longer than `limit`.
    pub fn run(
        &self,
        run: &Run<'_>,
        application: &Path,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Vec<String>, GridError> {
        let what = application.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let command = self.application(run, application, arguments)?;
        let mut running =
            Background::start(command, &what).map_err(|e| GridError::Start(what.clone(), e))?;
        let status = running.wait(limit);
        // The readers of the streams may still have something.
        std::thread::sleep(Duration::from_millis(50));
        let mut lines = running.lines();
        // Open MPI's launcher loses a race against the end of what it starts, now and then, and says so.
        lines.retain(|line| !line.contains("plm:rsh: Warning: setpgid"));
        match status.success() {
            true => Ok(lines),
            false => {
                Err(GridError::Failed { what, status: status.to_string(), said: lines.join("\n") })
            }
        }
    }
}
