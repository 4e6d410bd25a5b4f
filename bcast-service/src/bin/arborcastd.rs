//! The daemon's program: flags, configuration, logging.

use arborcast_proto::NodeName;
use arborcast_service::config::{
    CONFIG_VARIABLE, Config, ConfigError, DEFAULT_CONFIG, SegmentPrefix,
};
use arborcast_service::daemon::{self, DaemonError};
use arborcast_service::log;
use arborcast_service::page::Token;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// The daemon of Arborcast: keeps the broadcast plans of this node and lets experiments run while
/// applications are quiet.
///
/// Exit codes: 0 ended by SIGTERM or SIGINT; 2 a flag or the configuration cannot be used; 3 another
/// daemon runs here; 4 the system refuses something.
#[derive(Debug, Clone, Parser)]
#[command(name = "arborcastd", version, args_override_self = true)]
struct Flags {
    /// The configuration file [default: /etc/arborcast/arborcastd.toml, if it is there]
    #[arg(long, value_name = "FILE", env = CONFIG_VARIABLE)]
    config: Option<PathBuf>,
    /// Print the default configuration, with a comment on every setting, and end
    #[arg(long)]
    print_default_config: bool,
    /// Say whether the configuration can be used, and end
    #[arg(long)]
    check_config: bool,
    /// This node's name [default: the host name]
    #[arg(long, value_parser = parse_name)]
    node: Option<NodeName>,
    /// The site this node belongs to
    #[arg(long, value_parser = parse_name)]
    site: Option<NodeName>,
    /// Where clients find the daemon
    #[arg(long, value_name = "PATH", env = "ARBORCAST_SOCKET")]
    socket: Option<PathBuf>,
    /// The group whose members may use the daemon
    #[arg(long)]
    group: Option<String>,
    /// First part of the names of the board's segment and of the wisdom file
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    segment_prefix: Option<SegmentPrefix>,
    /// Where plans are kept across restarts
    #[arg(long, value_name = "DIR")]
    state_directory: Option<PathBuf>,
    /// The longest an application waits for an experiment to stop
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    hold_wait_max: Option<Duration>,
    /// A claim that is not renewed for so long no longer holds experiments up
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    hold_max: Option<Duration>,
    /// Experiments stay quiet for so long after a broadcast
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    linger: Option<Duration>,
    /// The command that starts the experiment job of the grid
    #[arg(long, value_name = "COMMAND")]
    experiment_launch: Option<String>,
    /// A job that has no rank on this node after so long is started again; 0s: never
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    experiment_start_wait_max: Option<Duration>,
    /// A file of metrics for node_exporter's textfile collector; it ends in .prom
    #[arg(long, value_name = "FILE")]
    metrics_textfile: Option<PathBuf>,
    /// From one writing of that file to the next
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    metrics_interval: Option<Duration>,
    /// The most targets whose times are told
    #[arg(long, value_name = "COUNT")]
    metrics_targets: Option<usize>,
    /// Address and port of the page for browsers, and of /metrics for Prometheus [default: no page]
    #[arg(long, value_name = "ADDRESS:PORT")]
    page_listen: Option<SocketAddr>,
    /// A file with the token that a page beyond loopback takes
    #[arg(long, value_name = "FILE")]
    page_token_file: Option<PathBuf>,
    /// Names by which browsers may call the page
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    page_hosts: Option<Vec<String>>,
    /// What is logged: error, warn, info, debug, trace or a filter
    #[arg(long, value_name = "FILTER", env = "ARBORCAST_LOG")]
    log: Option<String>,
    /// What `make install` gives to a shell
    #[arg(long, hide = true)]
    completions: Option<Shell>,
}

fn parse_name(text: &str) -> Result<NodeName, String> {
    NodeName::new(text).map_err(|error| error.to_string())
}

fn parse_prefix(text: &str) -> Result<SegmentPrefix, String> {
    SegmentPrefix::try_from(text.to_owned())
}

impl Flags {
    /// The file's settings with the flags over them.
    fn configure(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load(self.config.as_deref())?;
        fn set<T: Clone>(setting: &mut T, flag: &Option<T>) {
            if let Some(value) = flag {
                *setting = value.clone();
            }
        }
        set(&mut config.site, &self.site);
        set(&mut config.socket, &self.socket);
        set(&mut config.segment_prefix, &self.segment_prefix);
        set(&mut config.state_directory, &self.state_directory);
        set(&mut config.hold_wait_max, &self.hold_wait_max);
        set(&mut config.hold_max, &self.hold_max);
        set(&mut config.linger, &self.linger);
        set(&mut config.experiment.start_wait_max, &self.experiment_start_wait_max);
        set(&mut config.metrics.interval, &self.metrics_interval);
        set(&mut config.metrics.targets, &self.metrics_targets);
        set(&mut config.page.hosts, &self.page_hosts);
        set(&mut config.log, &self.log);
        config.node = self.node.clone().or(config.node);
        config.group = self.group.clone().or(config.group);
        config.metrics.textfile = self.metrics_textfile.clone().or(config.metrics.textfile);
        config.page.listen = self.page_listen.or(config.page.listen);
        config.page.token_file = self.page_token_file.clone().or(config.page.token_file);
        config.experiment.launch = self.experiment_launch.clone().or(config.experiment.launch);
        config.check()?;
        Ok(config)
    }
}

fn filter(config: &Config) -> Targets {
    // `configure` has checked it.
    config.log.parse().unwrap_or_default()
}

fn run(flags: &Flags) -> Result<(), DaemonError> {
    if flags.print_default_config {
        print!("{DEFAULT_CONFIG}");
        return Ok(());
    }
    if let Some(shell) = flags.completions {
        let mut command = Flags::command();
        clap_complete::generate(shell, &mut command, "arborcastd", &mut std::io::stdout());
        return Ok(());
    }
    let config = flags.configure()?;
    if flags.check_config {
        config.node_name()?;
        config.gid()?;
        Token::configured(&config.page)?;
        println!("the configuration can be used");
        return Ok(());
    }
    let (layer, handle) = reload::Layer::new(filter(&config));
    let (writer, _finish) = log::start(std::io::stderr()).map_err(DaemonError::Runtime)?;
    let format = fmt::layer()
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    Registry::default().with(layer).with(format).init();
    let flags = flags.clone();
    daemon::run(config, &mut move || {
        let config = flags.configure()?;
        // Fails only after the end of the logging.
        let _ = handle.reload(filter(&config));
        Ok(config)
    })
}

fn main() -> ExitCode {
    // SAFETY: first of all, so that nothing here owns a descriptor.
    unsafe { daemon::close_inherited() };
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("arborcastd: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
