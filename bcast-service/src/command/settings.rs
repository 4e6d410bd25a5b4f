//! `arborcast settings`: everything that can be set, with default and meaning. The daemon's
//! settings are read from its documented default configuration, so that there is one text.

use super::{json, print_table, table};
use crate::config::DEFAULT_CONFIG;
use serde::Serialize;
use serde_json::json;

/// Something that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub name: String,
    /// Where it is set.
    pub kind: &'static str,
    pub default: Option<String>,
    pub meaning: String,
}

/// Name, who reads it, default, meaning.
const VARIABLES: [(&str, &str, Option<&str>, &str); 7] = [
    (
        "ARBORCAST_SOCKET",
        "variable of every program",
        Some(arborcast_proto::client::DEFAULT_SOCKET),
        "Where the daemon of this node is found.",
    ),
    (
        "ARBORCAST_DISABLE",
        "variable of MPI programs",
        None,
        "Set to anything but 0 on one rank or more: every broadcast is native, on all ranks.",
    ),
    (
        "ARBORCAST_VERBOSE",
        "variable of MPI programs",
        None,
        "Set to anything but 0: the library says on standard error what it decides.",
    ),
    (
        "ARBORCAST_REPORT",
        "variable of MPI programs",
        None,
        "A file to which each process appends a line of JSON at its end: what carried its broadcasts.",
    ),
    (
        super::run::LIBRARY_VARIABLE,
        "variable of `arborcast run`, `env` and `doctor`",
        None,
        "The library to load, instead of the one installed beside it.",
    ),
    (
        crate::config::CONFIG_VARIABLE,
        "variable of arborcastd and `arborcast doctor`",
        Some(crate::config::DEFAULT_CONFIG_PATH),
        "The configuration file; the default one need not exist.",
    ),
    ("ARBORCAST_LOG", "variable of arborcastd", None, "As the setting `log`."),
];

/// The settings of the daemon, then the environment variables.
pub fn all() -> Vec<Setting> {
    let mut settings = Vec::new();
    let (mut comment, mut section) = (Vec::new(), String::new());
    for line in DEFAULT_CONFIG.lines() {
        let uncommented = line.strip_prefix("# ").unwrap_or(line);
        if line.is_empty() {
            comment.clear();
        } else if let Some(name) = line.strip_prefix('[') {
            section = format!("{}.", name.trim_end_matches(']'));
        } else if let Some((name, value)) = assignment(uncommented) {
            settings.push(Setting {
                name: format!("{section}{name}"),
                kind: "arborcastd.toml",
                default: (!line.starts_with('#')).then(|| value.trim_matches('"').to_owned()),
                meaning: comment.join(" "),
            });
            comment.clear();
        } else {
            comment.push(uncommented);
        }
    }
    let variables = VARIABLES.map(|(name, kind, default, meaning)| Setting {
        name: name.into(),
        kind,
        default: default.map(Into::into),
        meaning: meaning.into(),
    });
    settings.extend(variables);
    settings
}

/// `name = value`, where the name is a key and not the words of a comment.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" = ")?;
    let is_key = |b: u8| b.is_ascii_lowercase() || b == b'_';
    name.bytes().all(is_key).then_some((name, value))
}

/// Needs no daemon.
pub fn settings(as_json: bool) -> String {
    let settings = all();
    if as_json {
        return json::print(&json!(settings));
    }
    let mut table = table(&["SETTING", "WHERE", "DEFAULT", "MEANING"]);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    for Setting { name, kind, default, meaning } in settings {
        table.add_row([&name, kind, default.as_deref().unwrap_or("-"), &meaning]);
    }
    print_table(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_the_daemon_is_listed_with_its_meaning() {
        let settings = all();
        let names: Vec<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
        for name in [
            "node",
            "site",
            "socket",
            "group",
            "segment_prefix",
            "state_directory",
            "hold_wait_max",
            "hold_max",
            "linger",
            "log",
            "experiment.launch",
            "experiment.start_wait_max",
            "metrics.textfile",
            "metrics.interval",
            "metrics.targets",
            "page.listen",
            "page.token_file",
            "page.hosts",
            "ARBORCAST_SOCKET",
        ] {
            assert_eq!(names.iter().filter(|listed| **listed == name).count(), 1, "{name}");
        }
        assert_eq!(settings.len(), 18 + VARIABLES.len());
        for setting in &settings {
            assert!(setting.meaning.len() > 10, "{setting:?}");
        }
        let linger = settings.iter().find(|setting| setting.name == "linger").unwrap();
        assert_eq!(linger.default.as_deref(), Some("100ms"));
        assert!(linger.meaning.starts_with("(reload)"));
    }
}
