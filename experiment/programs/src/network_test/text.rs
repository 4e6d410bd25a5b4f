//! The text format of PARUS: a head of settings and host names, then for each message length its
//! matrix. Writing, and a reader by the rules of its viewers.

use super::matrix::Statistic;
use super::options::Options;
use std::fmt::Write;

/// The lines before the first matrix. The viewers know this format's data type `average`; the other
/// statistics are in files of their own, which name them in the same place.
pub fn head(options: &Options, statistic: Statistic, hosts: &[String]) -> String {
    let mut out = format!(
        "processors {}\n\
         test type \"{}\"\n\
         data type \"{}\"\n\
         begin message length {}\n\
         end message length {}\n\
         step length {}\n\
         noise message length {}\n\
         number of noise messages {}\n\
         number of noise processes {}\n\
         number of repeates {}\n\
         hosts:\n",
        hosts.len(),
        options.test_type.name(),
        statistic.word(),
        options.begin,
        options.end,
        options.step,
        options.noise_length,
        options.noise_messages,
        options.noise_processes,
        options.num_repeats,
    );
    for host in hosts {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{host}");
    }
    out
}

/// One matrix of `values`, row after row.
pub fn block(length: usize, processes: usize, values: &[f64]) -> String {
    let mut out = format!("Message length {length}\n");
    for row in values.chunks(processes) {
        let cells: Vec<String> = row.iter().map(|value| format!("{value:e}")).collect();
        out += &cells.join("\t");
        out.push('\n');
    }
    out
}

/// What a text file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextMatrices {
    /// The settings as they stand: name and value.
    pub settings: Vec<(String, String)>,
    pub hosts: Vec<String>,
    /// Message length in bytes and seconds of each cell, row after row.
    pub matrices: Vec<(usize, Vec<f64>)>,
}

/// What is wrong with a text file, with the number of the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}")]
pub struct ParseError {
    pub line: usize,
    pub expected: String,
}

const SETTINGS: [&str; 10] = [
    "processors",
    "test type",
    "data type",
    "begin message length",
    "end message length",
    "step length",
    "noise message length",
    "number of noise messages",
    "number of noise processes",
    "number of repeates",
];

/// Reads the format: settings in their fixed order, hosts, matrices. A `/` starts a comment.
pub fn parse(text: &str) -> Result<TextMatrices, ParseError> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split('/').next().unwrap_or("").trim()))
        .filter(|(_, line)| !line.is_empty());
    let missing = |expected: &str| ParseError {
        line: text.lines().count() + 1,
        expected: expected.to_owned(),
    };
    let mut found = TextMatrices::default();
    for name in SETTINGS {
        let (line, content) = lines.next().ok_or_else(|| missing(name))?;
        let value = content
            .strip_prefix(name)
            .ok_or_else(|| ParseError { line, expected: name.to_owned() })?;
        found.settings.push((name.to_owned(), value.trim().trim_matches('"').to_owned()));
    }
    let processes: usize = found.settings[0]
        .1
        .parse()
        .map_err(|_| ParseError { line: 1, expected: "a number of processors".to_owned() })?;
    match lines.next() {
        Some((_, "hosts:")) => {}
        Some((line, _)) => return Err(ParseError { line, expected: "hosts:".to_owned() }),
        None => return Err(missing("hosts:")),
    }
    for _ in 0..processes {
        found.hosts.push(lines.next().ok_or_else(|| missing("a host"))?.1.to_owned());
    }
    while let Some((line, content)) = lines.next() {
        let length = content.strip_prefix("Message length ").and_then(|n| n.parse().ok());
        let length =
            length.ok_or_else(|| ParseError { line, expected: "Message length L".to_owned() })?;
        let mut values = Vec::with_capacity(processes * processes);
        for _ in 0..processes {
            let (line, row) = lines.next().ok_or_else(|| missing("a row"))?;
            let cells: Result<Vec<f64>, _> = row.split('\t').map(str::parse).collect();
            match cells {
                Ok(cells) if cells.len() == processes => values.extend(cells),
                _ => {
                    let expected = format!("{processes} numbers separated by tabs");
                    return Err(ParseError { line, expected });
                }
            }
        }
        found.matrices.push((length, values));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn sample() -> String {
        let options = Options::parse_from(["network_test", "-e", "201", "-n", "7"]);
        let hosts = ["a0".to_owned(), "a1".to_owned()];
        head(&options, Statistic::Average, &hosts) + &block(100, 2, &[0.0, 1.25e-5, 3.0, 0.0])
    }

    #[test]
    fn what_is_written_is_read_back() {
        let found = parse(&sample()).unwrap();
        assert_eq!(found.hosts, ["a0", "a1"]);
        assert_eq!(found.matrices, [(100, vec![0.0, 1.25e-5, 3.0, 0.0])]);
        assert_eq!(found.settings[1].1, "one_to_one");
        assert_eq!(found.settings[9].1, "7");
    }

    #[test]
    fn rows_have_no_trailing_tab_and_the_head_is_as_specified() {
        let text = sample();
        assert!(
            text.starts_with("processors 2\ntest type \"one_to_one\"\ndata type \"average\"\n")
        );
        assert!(text.contains("number of repeates 7\nhosts:\na0\na1\nMessage length 100\n"));
        assert!(text.lines().all(|line| !line.ends_with('\t')));
        let least = head(&Options::parse_from(["network_test"]), Statistic::Min, &[]);
        assert!(least.contains("\ndata type \"minimum\"\n"));
    }

    #[test]
    fn comments_are_skipped_and_damage_is_told_with_its_line() {
        let commented = sample().replace("hosts:", "hosts: / names\n/ a comment");
        assert!(parse(&commented).is_ok());
        let damaged = sample().replace("\t0e0\n", "\n");
        assert_eq!(parse(&damaged).unwrap_err().line, 16);
        assert!(parse("processors 2\n").is_err());
    }
}
