//! What a daemon is told: a TOML file, and flags over it. The documented default is
//! `default_config.toml`, which is part of the program.

use arborcast_proto::NodeName;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing_subscriber::filter::Targets;

/// The default configuration, with a comment on every setting.
pub const DEFAULT_CONFIG: &str = include_str!("default_config.toml");
/// The file that is read where no other is named; it need not exist.
pub const DEFAULT_CONFIG_PATH: &str = "/etc/arborcast/arborcastd.toml";
/// Names another file.
pub const CONFIG_VARIABLE: &str = "ARBORCAST_CONFIG";

/// Nothing scrapes more often.
const MIN_METRICS_INTERVAL: Duration = Duration::from_secs(1);
/// No queue is longer.
const LONGEST_START: Duration = Duration::from_secs(365 * 24 * 3600);
/// As many targets as the daemon keeps account of the use of.
const MAX_METRICS_TARGETS: usize = 256;

/// The settings of a daemon.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `None`: the host name.
    pub node: Option<NodeName>,
    pub site: NodeName,
    pub socket: PathBuf,
    /// `None`: the daemon's own group.
    pub group: Option<String>,
    pub segment_prefix: SegmentPrefix,
    pub state_directory: PathBuf,
    #[serde(deserialize_with = "duration")]
    pub hold_wait_max: Duration,
    #[serde(deserialize_with = "duration")]
    pub hold_max: Duration,
    #[serde(deserialize_with = "duration")]
    pub linger: Duration,
    pub log: String,
    pub experiment: ExperimentConfig,
    pub metrics: MetricsConfig,
    pub page: PageConfig,
}

/// The experiment job, on the node that starts it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentConfig {
    pub launch: Option<String>,
    /// Zero: a launcher may take as long as it likes.
    #[serde(deserialize_with = "duration")]
    pub start_wait_max: Duration,
}

/// What is told to Prometheus, and how.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsConfig {
    /// `None`: no metrics.
    pub textfile: Option<PathBuf>,
    #[serde(deserialize_with = "duration")]
    pub interval: Duration,
    /// The most targets whose times are told.
    pub targets: usize,
}

/// The page in a browser, and metrics over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageConfig {
    /// `None`: no page, and nothing listens.
    pub listen: Option<SocketAddr>,
    /// Has to be there where `listen` is beyond loopback.
    pub token_file: Option<PathBuf>,
    /// Names that browsers may call the page by, beside addresses, localhost and the host's own.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// The first part of the names of segment and wisdom: letters, digits, dots, dashes and underscores.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SegmentPrefix(String);

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{path}: cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}see `arborcastd --print-default-config`")]
    Toml { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{0}")]
    Value(String),
    #[error("there is no group {0:?} on this node")]
    NoSuchGroup(String),
    #[error("the host name {0:?} cannot be a node's name; set `node`")]
    HostName(String),
}

impl TryFrom<String> for SegmentPrefix {
    type Error = String;

    fn try_from(prefix: String) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if (1..=64).contains(&prefix.len()) && prefix.bytes().all(allowed) {
            Ok(SegmentPrefix(prefix))
        } else {
            Err(format!(
                "a segment prefix has 1 to 64 letters, digits, '.', '-', '_', not {prefix:?}"
            ))
        }
    }
}

impl SegmentPrefix {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|error| {
        serde::de::Error::custom(format!("{text:?} is no duration such as \"250ms\": {error}"))
    })
}

impl Config {
    /// The settings in the text of a file; what it does not say is as in [`DEFAULT_CONFIG`].
    ///
    /// # Errors
    /// Where the text is no TOML, or a key is unknown, or a value cannot be used. `path` is for the
    /// message.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let error = |source| ConfigError::Toml { path: path.into(), source: Box::new(source) };
        // Checked by itself first, since only then does a message name line and column.
        toml::from_str::<Overrides>(text).map_err(error)?;
        let mut table: toml::Table = toml::from_str(DEFAULT_CONFIG).map_err(error)?;
        for (key, value) in toml::from_str::<toml::Table>(text).map_err(error)? {
            match (table.get_mut(&key), value) {
                (Some(toml::Value::Table(old)), toml::Value::Table(new)) => old.extend(new),
                (_, value) => {
                    table.insert(key, value);
                }
            }
        }
        let config: Config = table.try_into().map_err(error)?;
        config.check()?;
        Ok(config)
    }

    /// Reads the file at `path`, or where none is named the default one, if it is there.
    ///
    /// # Errors
    /// As [`Config::parse`], and where the file cannot be read.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let named = path.is_some();
        let path = path.unwrap_or(Path::new(DEFAULT_CONFIG_PATH));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => {
                Self::parse("", path)
            }
            Err(source) => Err(ConfigError::Read { path: path.into(), source }),
        }
    }

    /// What no type says: limits that make sense together, a log filter that can be read.
    ///
    /// # Errors
    /// `Value` with what is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let value = |text: String| Err(ConfigError::Value(text));
        for (name, duration, most) in [
            ("hold_wait_max", self.hold_wait_max, Duration::from_secs(60)),
            ("linger", self.linger, Duration::from_secs(3600)),
            ("hold_max", self.hold_max, Duration::from_secs(30 * 24 * 3600)),
            ("experiment.start_wait_max", self.experiment.start_wait_max, LONGEST_START),
            ("metrics.interval", self.metrics.interval, Duration::from_secs(3600)),
        ] {
            if duration > most {
                return value(format!("{name} is at most {}", humantime::format_duration(most)));
            }
        }
        if self.hold_wait_max.is_zero() {
            return value("hold_wait_max must be above zero".into());
        }
        if self.hold_max.is_zero() {
            return value("hold_max must be above zero".into());
        }
        if self.metrics.interval < MIN_METRICS_INTERVAL {
            let least = humantime::format_duration(MIN_METRICS_INTERVAL);
            return value(format!("metrics.interval is at least {least}"));
        }
        if self
            .metrics
            .textfile
            .as_ref()
            .is_some_and(|file| file.extension() != Some("prom".as_ref()))
        {
            return value(
                "metrics.textfile must end in .prom, or node_exporter does not read it".into(),
            );
        }
        if self.metrics.targets > MAX_METRICS_TARGETS {
            return value(format!("metrics.targets is at most {MAX_METRICS_TARGETS}"));
        }
        if let Some(listen) = self.page.listen
            && !listen.ip().to_canonical().is_loopback()
            && self.page.token_file.is_none()
        {
            return value(format!(
                "page.listen = \"{listen}\" can be reached from other hosts, which takes a token: name a file that has one in page.token_file, or listen on 127.0.0.1"
            ));
        }
        // Not `EnvFilter`, which on some texts panics, and on others takes time without end.
        if let Err(error) = self.log.parse::<Targets>() {
            return value(format!("log: {:?} is no log filter: {error}", self.log));
        }
        if self.socket.file_name().is_none() {
            return value("socket must name a file".into());
        }
        Ok(())
    }

    /// The configured name, or the host's.
    ///
    /// # Errors
    /// `HostName` where that cannot be a node's name.
    pub fn node_name(&self) -> Result<NodeName, ConfigError> {
        match &self.node {
            Some(node) => Ok(node.clone()),
            None => {
                let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
                NodeName::new(host.clone()).map_err(|_| ConfigError::HostName(host))
            }
        }
    }

    /// The number of the group whose members may be clients, where one is configured.
    ///
    /// # Errors
    /// `NoSuchGroup`.
    pub fn gid(&self) -> Result<Option<u32>, ConfigError> {
        let Some(group) = &self.group else { return Ok(None) };
        if let Ok(gid) = group.parse() {
            return Ok(Some(gid));
        }
        match nix::unistd::Group::from_name(group) {
            Ok(Some(found)) => Ok(Some(found.gid.as_raw())),
            _ => Err(ConfigError::NoSuchGroup(group.clone())),
        }
    }

    pub fn wisdom_path(&self) -> PathBuf {
        self.state_directory.join(format!("{}.wisdom", self.segment_prefix.as_str()))
    }
}

/// A file's settings, none of which need be there: for messages that name the place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // read by nobody: its purpose is to be deserialized
struct Overrides {
    node: Option<NodeName>,
    site: Option<NodeName>,
    socket: Option<PathBuf>,
    group: Option<String>,
    segment_prefix: Option<SegmentPrefix>,
    state_directory: Option<PathBuf>,
    #[serde(default, deserialize_with = "some_duration")]
    hold_wait_max: Option<Duration>,
    #[serde(default, deserialize_with = "some_duration")]
    hold_max: Option<Duration>,
    #[serde(default, deserialize_with = "some_duration")]
    linger: Option<Duration>,
    log: Option<String>,
    experiment: Option<ExperimentOverrides>,
    metrics: Option<MetricsOverrides>,
    page: Option<PageConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // as above
struct ExperimentOverrides {
    launch: Option<String>,
    #[serde(default, deserialize_with = "some_duration")]
    start_wait_max: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // as above
struct MetricsOverrides {
    textfile: Option<PathBuf>,
    #[serde(default, deserialize_with = "some_duration")]
    interval: Option<Duration>,
    targets: Option<usize>,
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("arborcastd.toml"))
    }

    #[test]
    fn the_default_is_what_it_says() {
        let config = parse("").unwrap();
        assert_eq!(config, parse(DEFAULT_CONFIG).unwrap());
        assert_eq!(config.hold_wait_max, Duration::from_millis(250));
        assert_eq!(config.segment_prefix.as_str(), "arborcast");
        assert_eq!((config.metrics.textfile, config.metrics.interval.as_secs()), (None, 15));
        assert_eq!(config.hold_max, Duration::from_secs(600));
        assert_eq!(config.experiment.start_wait_max, Duration::from_secs(600));
        assert_eq!(config.socket.to_str(), Some(arborcast_proto::client::DEFAULT_SOCKET));
    }

    #[test]
    fn settings_without_a_default_are_documented_as_they_are_read() {
        let shown = DEFAULT_CONFIG
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(line))
            .collect::<Vec<_>>()
            .join("\n");
        let config = parse(&shown).unwrap();
        assert_eq!(config.node.unwrap().as_str(), "n0");
        assert_eq!(config.group.as_deref(), Some("mpi"));
        assert!(config.experiment.launch.unwrap().starts_with("mpirun"));
        assert!(config.metrics.textfile.unwrap().ends_with("arborcast.prom"));
        assert!(config.page.listen.unwrap().ip().is_loopback());
        assert!(config.page.token_file.is_some() && config.page.hosts.len() == 1);
    }

    #[test]
    fn a_file_says_only_what_differs() {
        let config = parse("linger = \"2s\"\n[experiment]\nlaunch = \"true\"").unwrap();
        assert_eq!(config.linger, Duration::from_secs(2));
        assert_eq!(config.experiment.launch.as_deref(), Some("true"));
        assert_eq!(config.experiment.start_wait_max, Duration::from_secs(600));
        assert_eq!(config.site.as_str(), "default");
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, word) in [
            ("lingr = \"1s\"", "lingr"),
            ("linger = 5", "line 1"),
            ("site = \"a\"\nlinger = \"soon\"", "line 2"),
            ("segment_prefix = \"a/b\"", "segment prefix"),
            ("node = \"a b\"", "a b"),
            ("[experiment]\nlunch = \"x\"", "lunch"),
            ("[experiment]\nstart_wait_max = \"3y\"", "start_wait_max"),
            ("hold_wait_max = \"0s\"", "hold_wait_max"),
            ("hold_wait_max = \"2h\"", "hold_wait_max"),
            ("hold_max = \"0s\"", "hold_max"),
            ("hold_max = \"1000d\"", "hold_max"),
            ("log = \"a=b=c\"", "log"),
            ("[metrics]\ninterval = \"1ms\"", "metrics.interval"),
            ("[metrics]\ntextfile = \"/var/lib/metrics\"", ".prom"),
            ("[metrics]\ntargets = 1000", "metrics.targets"),
            ("[metrics]\ntextfle = \"x\"", "textfle"),
            ("[page]\nlisten = \"localhost\"", "line 2"),
            ("[page]\nlisten = \"0.0.0.0:8430\"", "token_file"),
            ("[page]\nport = 8430", "port"),
            ("= 3", "line 1"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(word), "{text}: {message}");
        }
    }

    #[test]
    fn a_page_beyond_loopback_takes_a_token() {
        for loopback in ["127.0.0.1:1", "127.8.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(parse(&format!("[page]\nlisten = \"{loopback}\"")).is_ok(), "{loopback}");
        }
        for beyond in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
            let listen = format!("[page]\nlisten = \"{beyond}\"\n");
            let message = parse(&listen).unwrap_err().to_string();
            assert!(message.contains("token_file"), "{beyond}: {message}");
            assert!(parse(&format!("{listen}token_file = \"/etc/token\"")).is_ok(), "{beyond}");
        }
    }

    #[test]
    fn a_group_is_a_name_or_a_number() {
        let gid = |group: &str| parse(&format!("group = \"{group}\"")).unwrap().gid();
        assert_eq!(gid("root").unwrap(), Some(0));
        assert_eq!(gid("4711").unwrap(), Some(4711));
        assert!(matches!(gid("no-such-group"), Err(ConfigError::NoSuchGroup(_))));
    }
}
