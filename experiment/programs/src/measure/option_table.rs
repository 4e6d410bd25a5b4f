//! Options in the manner of perftest and DUNE: a single dash, long names, a fixed number of values
//! after each (`-size 0 1024 256`). A second dash is accepted. Which options there are is a table,
//! from which the help is printed too.

use super::failure::Failure;

/// One option of a program.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// Without dashes.
    pub name: &'static str,
    /// Names of its values, separated by blanks; empty for a flag.
    pub values: &'static str,
    /// What it does, with units and the default.
    pub help: &'static str,
}

/// Options given, the last one of each name.
#[derive(Debug, Clone, Default)]
pub struct Given {
    values: std::collections::HashMap<&'static str, Vec<String>>,
}

impl Given {
    /// Reads a command line. Names that `table` lacks, and options with too few values, are errors.
    pub fn parse(table: &[OptionSpec], arguments: &[String]) -> Result<Self, Failure> {
        let mut given = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let spec = table
                .iter()
                .find(|spec| {
                    argument.starts_with('-') && argument.trim_start_matches('-') == spec.name
                })
                .ok_or_else(|| Failure::BadOption(format!("unknown option {argument}")))?;
            let wanted = spec.values.split_whitespace().count();
            let values: Vec<String> = rest.by_ref().take(wanted).cloned().collect();
            if values.len() < wanted {
                return Err(Failure::BadOption(format!("-{} needs {}", spec.name, spec.values)));
            }
            given.values.insert(spec.name, values);
        }
        Ok(given)
    }

    /// Adds an option unless it is there, as from a file that the command line overrides.
    pub fn add_default(&mut self, spec: &OptionSpec, value: String) {
        self.values.entry(spec.name).or_insert_with(|| vec![value]);
    }

    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The first value of an option.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|values| values.first()).map(String::as_str)
    }

    /// The `index`th value of an option, read as a `T` that is at least `least`.
    pub fn number<T>(&self, name: &str, index: usize, least: T) -> Result<Option<T>, Failure>
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.values.get(name).and_then(|values| values.get(index)) else {
            return Ok(None);
        };
        match text.parse::<T>() {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(Failure::BadOption(format!(
                "-{name}: {text:?} is not a number of at least {least}"
            ))),
        }
    }

    /// One of `choices`, by name; the first is the default.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, Failure> {
        let Some(text) = self.text(name) else { return Ok(choices[0].1) };
        choices.iter().find(|choice| choice.0 == text).map(|choice| choice.1).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
            Failure::BadOption(format!("-{name}: {text:?} is none of {}", names.join(", ")))
        })
    }

    /// A list of numbers separated by commas.
    pub fn list(&self, name: &str) -> Result<Option<Vec<usize>>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let numbers: Result<Vec<usize>, _> = text.split(',').map(|n| n.trim().parse()).collect();
        match numbers {
            Ok(numbers) => Ok(Some(numbers)),
            Err(_) => Err(Failure::BadOption(format!(
                "-{name}: {text:?} is not a list of whole numbers separated by commas"
            ))),
        }
    }
}

/// The table as help text, one option a paragraph.
pub fn help_of(table: &[OptionSpec]) -> String {
    let mut text = String::new();
    for spec in table {
        let heading = format!("  -{} {}", spec.name, spec.values);
        text += heading.trim_end();
        for line in spec.help.lines() {
            text += &format!("\n        {}", line.trim());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[OptionSpec] = &[
        OptionSpec { name: "size", values: "START END STRIDE", help: "sizes" },
        OptionSpec { name: "reps", values: "N", help: "repetitions" },
        OptionSpec { name: "sync", values: "", help: "barrier" },
    ];

    fn parse(line: &str) -> Result<Given, Failure> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Given::parse(TABLE, &arguments)
    }

    #[test]
    fn options_take_their_fixed_number_of_values() {
        let given = parse("-size 0 1024 256 -sync --reps 7").unwrap();
        assert_eq!(given.number::<usize>("size", 2, 1).unwrap(), Some(256));
        assert_eq!(given.number::<usize>("reps", 0, 1).unwrap(), Some(7));
        assert!(given.has("sync"));
        assert!(!parse("").unwrap().has("sync"));
    }

    #[test]
    fn an_error_names_the_option() {
        for (line, name) in [("-syze 1", "-syze"), ("-size 0 1", "-size"), ("stray", "stray")] {
            assert!(parse(line).unwrap_err().to_string().contains(name), "{line}");
        }
        let given = parse("-reps none").unwrap();
        let failure = given.number::<usize>("reps", 0, 1).unwrap_err();
        assert!(failure.to_string().contains("-reps"));
        assert_eq!(failure.exit_code(), 2);
        assert!(parse("-reps 0").unwrap().number::<usize>("reps", 0, 1).is_err());
    }

    #[test]
    fn lists_and_choices_refuse_what_they_do_not_know() {
        let given = parse("-reps 1,2,x").unwrap();
        assert!(given.list("reps").is_err());
        assert!(given.choice("reps", &[("a", 1)]).is_err());
        assert_eq!(parse("").unwrap().choice("reps", &[("a", 1)]).unwrap(), 1);
        assert_eq!(parse("-reps 1,20").unwrap().list("reps").unwrap(), Some(vec![1, 20]));
    }
}
