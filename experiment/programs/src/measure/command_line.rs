//! Command lines of the programs, read by clap. Those of perftest and DUNE write long names behind one
//! dash (`-size 0 1024 256`): there a name may have one dash or two.

use super::failure::Failure;
use clap::Parser;

/// What a command line asks for.
#[derive(Debug)]
pub enum Parsed<T> {
    Options(T),
    /// Help or version, to be printed.
    Text(String),
}

/// Reads the arguments after the program's name.
pub fn parse<T: Parser>(arguments: Vec<String>) -> Result<Parsed<T>, Failure> {
    let name = T::command().get_name().to_owned();
    match T::try_parse_from(std::iter::once(name).chain(arguments)) {
        Ok(options) => Ok(Parsed::Options(options)),
        Err(error) if !error.use_stderr() => Ok(Parsed::Text(error.to_string())),
        Err(error) => Err(Failure::BadOption(first_paragraph(&error.to_string()))),
    }
}

/// What clap says before its hints, on one line.
fn first_paragraph(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    words.join(" ").trim_start_matches("error: ").to_owned()
}

/// The arguments with two dashes before each name of more than one letter.
pub fn with_two_dashes(arguments: &[String]) -> Vec<String> {
    let is_name =
        |rest: &str| rest.len() > 1 && rest.starts_with(|c: char| c.is_ascii_alphabetic());
    let rewritten = |argument: &String| match argument.strip_prefix('-') {
        Some(rest) if is_name(rest) => format!("--{rest}"),
        _ => argument.clone(),
    };
    arguments.iter().map(rewritten).collect()
}

/// Whole numbers separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List(pub Vec<usize>);

impl std::str::FromStr for List {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<usize>, _> = text.split(',').map(|n| n.trim().parse()).collect();
        numbers.map(List).map_err(|_| "want whole numbers separated by commas".to_owned())
    }
}

/// A value parser for numbers of at least `least`.
pub fn at_least(least: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| match text.parse::<f64>() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(format!("want a number of at least {least}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_two_dashes_and_nothing_else_does() {
        let arguments = ["-size", "0", "-1", "--reps", "-h", "-title=a -b", "x.svg"];
        let rewritten = with_two_dashes(&arguments.map(str::to_owned));
        assert_eq!(rewritten, ["--size", "0", "-1", "--reps", "-h", "--title=a -b", "x.svg"]);
    }

    #[test]
    fn lists_and_numbers_refuse_what_they_do_not_know() {
        assert_eq!("1, 20".parse(), Ok(List(vec![1, 20])));
        assert!("1,x".parse::<List>().is_err());
        assert_eq!(at_least(1.0)("1.5"), Ok(1.5));
        assert!(["0.5", "NaN", "x"].iter().all(|text| at_least(1.0)(text).is_err()));
    }
}
