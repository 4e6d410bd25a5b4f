//! The command line of `arborcast-experiment`.

use arborcast_planner::search::schedule::{Ceilings, Settings};
use arborcast_planner::search::strategy::random_transform::{Parameters, Segments, Threshold};
use arborcast_planner::search::strategy::{Description, STRATEGIES, strategy};
use clap::Parser;
use std::time::Duration;

/// Searches for the best broadcast trees of a grid, as an MPI job of one rank a node.
///
/// Without --root and --bytes it serves what applications have asked their daemons for, most recent
/// first, until it is ended; before any has asked, it surveys the links between all nodes once. It stands
/// still whenever an application broadcasts.
#[derive(Debug, Clone, Parser)]
#[command(version, after_help = after_help())]
pub struct Options {
    /// Searches for broadcasts from this node, over all nodes of the job
    #[arg(long, value_name = "NODE", requires = "bytes")]
    pub root: Option<String>,

    /// Message sizes to search for: 1, 64Ki, 1Mi, ... separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = bytes)]
    pub bytes: Vec<u64>,

    /// Ends after this time: 90, 60s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,

    /// How to search; see below
    #[arg(long, value_name = "NAME", default_value = STRATEGIES[0].name, value_parser = strategy_named)]
    pub strategy: &'static Description,

    /// Equal seeds draw equal random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// The first rest of a search that has nothing left to try; each is longer than the last, up to an hour
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub rest: Duration,

    /// Links are measured again, and the plans found by them, once what is known is this old and nothing
    /// else is left to try
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub refresh: Duration,

    /// Larger messages are measured at this size, and so are told with its times
    #[arg(long, value_name = "BYTES", default_value = "64Mi", value_parser = bytes)]
    pub max_bytes: u64,

    /// The MPI's eager limit in bytes: larger messages use rendezvous; the default is the least of the usual
    /// MPIs', so that plans serve them all
    #[arg(long, value_name = "BYTES", default_value = "17Ki", value_parser = bytes)]
    pub eager: u64,

    /// What programs pause before a broadcast, where they have not shown it: trials do so too where the hosts'
    /// TCP begins anew after a pause and that makes a difference
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub pause: Duration,

    /// Measurements use the network for this part of the time at most, an hour at a time: 5%
    #[arg(long, value_name = "PART", value_parser = part)]
    pub time_share: Option<f64>,

    /// Where programs leave no room for trials, their own broadcasts are the trials: these make them take longer by this
    /// part of their time at most; 0% for no such trials
    #[arg(long, value_name = "PART", default_value = "1%", value_parser = part_or_none)]
    pub explore_max: f64,

    /// Measurements send this much in an hour at most, all nodes together: 500Mi, 2Gi
    #[arg(long, value_name = "BYTES", value_parser = size_above_none)]
    pub bytes_per_hour: Option<u64>,

    /// random-transform: a tree joins the list where it is slower than the list's best by less than this: a
    /// part of its time, as 5%, or a time, as published: 2ms, 0.5s
    #[arg(long, value_name = "PART|TIME", default_value = "5%", value_parser = threshold)]
    pub transform_threshold: Threshold,

    /// random-transform: how many trees the list has
    #[arg(long, value_name = "TREES", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub transform_list: u16,

    /// random-transform: how messages are cut: in segments of a number of bytes, whole, as published, or
    /// below-eager
    #[arg(long, value_name = "BYTES|whole|below-eager", default_value = "below-eager", value_parser = segments)]
    pub transform_segments: Segments,

    /// Ends when there is nothing left to try
    #[arg(long)]
    pub once: bool,

    /// Says nothing but errors
    #[arg(long, short)]
    pub quiet: bool,

    /// What `make install` gives to a shell
    #[arg(long, hide = true)]
    pub completions: Option<clap_complete::Shell>,
}

fn after_help() -> String {
    let strategies: Vec<_> =
        STRATEGIES.iter().map(|s| format!("  {:<18}{}", s.name, s.about)).collect();
    format!(
        "Strategies:\n{}\n\nExit codes: 0 the search has ended, 1 the job could not go on, 2 a wrong \
         option, 3 a daemon refused the job (another experiment runs, or not its user)",
        strategies.join("\n")
    )
}

impl Options {
    /// How to search, and for what; `begins_anew` says whether the hosts' TCP does after a pause.
    pub fn settings(&self, begins_anew: bool) -> Settings {
        Settings {
            strategy: self.strategy,
            seed: self.seed,
            rest: self.rest,
            refresh: self.refresh,
            max_bytes: self.max_bytes,
            eager_bytes: self.eager,
            pause_s: begins_anew.then_some(self.pause.as_secs_f64()),
            random_transform: Parameters {
                threshold: self.transform_threshold,
                list_length: self.transform_list.into(),
                segments: self.transform_segments,
            },
            explore_max: self.explore_max,
            ceilings: Ceilings { time_share: self.time_share, bytes_per_hour: self.bytes_per_hour },
            fixed: self.root.clone().map(|root| (root, self.bytes.clone())),
        }
    }
}

fn strategy_named(name: &str) -> Result<&'static Description, String> {
    strategy(name).map_err(|error| error.to_string())
}

/// A part of a time, as `5%`, or a time, as `2ms` or `0.5s`.
fn threshold(text: &str) -> Result<Threshold, String> {
    let units = [("%", 0.01), ("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
    let read = |(unit, factor): (&str, f64)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        let value = number * factor;
        let threshold =
            if unit == "%" { Threshold::Part(value) } else { Threshold::Seconds(value) };
        (value.is_finite() && value >= 0.0).then_some(threshold)
    };
    let wrong = || format!("{text:?} is neither a part nor a time; write 5%, 2ms or 0.5s");
    units.into_iter().find_map(read).ok_or_else(wrong)
}

/// A part of a whole, as `5%`.
fn part(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let part = percent.map(|percent| percent / 100.0).filter(|part| *part > 0.0 && *part <= 1.0);
    part.ok_or_else(|| format!("{text:?} is no part; write 5%, and at most 100%"))
}

fn part_or_none(text: &str) -> Result<f64, String> {
    if text == "0%" { Ok(0.0) } else { part(text) }
}

fn segments(text: &str) -> Result<Segments, String> {
    match text {
        "whole" => Ok(Segments::Whole),
        "below-eager" => Ok(Segments::BelowEager),
        // What fits an i32 fits this.
        number => bytes(number).map(|bytes| Segments::Bytes(bytes as u32)),
    }
}

/// A size as people write it: `1`, `64Ki`, `1MiB`, `8M` (powers of two).
/// Of one message.
fn bytes(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    let wrong = || format!("{text:?} is too long for a message; at most {} B", i32::MAX);
    Some(bytes).filter(|&bytes| bytes <= i32::MAX as u64).ok_or_else(wrong)
}

fn size_above_none(text: &str) -> Result<u64, String> {
    let wrong = || "nothing can be measured then; to let nothing run, use `arborcast pause`".into();
    size(text).and_then(|bytes| Some(bytes).filter(|&bytes| bytes > 0).ok_or_else(wrong))
}

fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write 4096, 64Ki or 1Mi");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "Ki" | "KiB" => 10,
        "M" | "Mi" | "MiB" => 20,
        "G" | "Gi" | "GiB" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write 90, 60s, 10m or 2h");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(number.checked_mul(factor).ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_read_as_people_write_them() {
        assert_eq!(bytes("64Ki"), Ok(65536));
        assert_eq!(bytes("1MiB"), Ok(1 << 20));
        assert_eq!(bytes("7"), Ok(7));
        assert!(bytes("x").is_err() && bytes("1Q").is_err() && bytes("9999G").is_err());
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("soon").is_err());
    }

    #[test]
    fn ceilings_are_parts_of_the_time_and_bytes_of_any_size_but_none() {
        assert_eq!(part("5%"), Ok(0.05));
        assert_eq!((part_or_none("0%"), part_or_none("1%")), (Ok(0.0), Ok(0.01)));
        assert!(part("5").is_err() && part("0%").is_err() && part("101%").is_err());
        assert_eq!(size_above_none("100Gi"), Ok(100 << 30));
        assert!(size_above_none("0").is_err());
    }

    #[test]
    fn thresholds_are_parts_or_times() {
        assert_eq!(threshold("5%"), Ok(Threshold::Part(0.05)));
        assert_eq!(threshold("2ms"), Ok(Threshold::Seconds(0.002)));
        assert_eq!(threshold("0.5s"), Ok(Threshold::Seconds(0.5)));
        assert!(threshold("5").is_err() && threshold("-1%").is_err() && threshold("nan%").is_err());
        assert_eq!(segments("whole"), Ok(Segments::Whole));
        assert_eq!(segments("16Ki"), Ok(Segments::Bytes(16 << 10)));
        assert!(segments("half").is_err());
    }

    #[test]
    fn a_root_needs_sizes() {
        let parse = |arguments: &[&str]| {
            Options::try_parse_from([&["arborcast-experiment"], arguments].concat())
        };
        assert!(parse(&["--root", "a0"]).is_err());
        let options = parse(&["--root", "a0", "--bytes", "1,1Ki", "--for", "60s"]).unwrap();
        assert_eq!(
            (options.bytes, options.duration),
            (vec![1, 1024], Some(Duration::from_secs(60)))
        );
        assert!(parse(&["--strategy", "magic"]).is_err());
    }
}
