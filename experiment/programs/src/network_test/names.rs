//! Names of a run's files. They are made from the name that the user gives, which is taken verbatim but
//! for an extension that one of the files has: `run.1` and `run.2` are two runs.

use super::matrix::Statistic;
use super::options::FileFormat;
use std::path::{Path, PathBuf};

/// Extension of the text files where the user gives none of its own.
const TEXT_EXTENSION: &str = ".mtr";

/// Extensions that are no part of a prefix; whether text files keep them.
const KNOWN_EXTENSIONS: [(&str, bool); 5] =
    [(TEXT_EXTENSION, true), (".txt", true), (".nc", false), (".csv", false), (".json", false)];

/// What the names of a run's files are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    prefix: PathBuf,
    /// Of the text files, with its dot; may be empty.
    text_extension: &'static str,
}

impl Names {
    /// From the file that the user has named.
    pub fn of(file: &Path) -> Self {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        for (extension, is_of_text) in KNOWN_EXTENSIONS {
            if let Some(stem) = name.strip_suffix(extension).filter(|stem| !stem.is_empty()) {
                let text_extension = if is_of_text { extension } else { TEXT_EXTENSION };
                return Self { prefix: file.with_file_name(stem), text_extension };
            }
        }
        Self { prefix: file.to_owned(), text_extension: "" }
    }

    fn with(&self, tail: &str) -> PathBuf {
        let mut name = self.prefix.clone().into_os_string();
        name.push(tail);
        name.into()
    }

    pub fn text(&self, statistic: Statistic) -> PathBuf {
        match statistic {
            Statistic::Average => self.with(self.text_extension),
            other => self.with(&format!("_{}{}", other.name(), self.text_extension)),
        }
    }

    pub fn netcdf(&self, statistic: Statistic) -> PathBuf {
        self.with(&format!("_{}.nc", statistic.name()))
    }

    pub fn hosts(&self) -> PathBuf {
        self.with("_hosts.txt")
    }

    pub fn csv(&self) -> PathBuf {
        self.with(".csv")
    }

    pub fn json(&self) -> PathBuf {
        self.with(".json")
    }

    /// All files of a format.
    pub fn files(&self, format: FileFormat) -> Vec<PathBuf> {
        match format {
            FileFormat::Text => Statistic::ALL.map(|statistic| self.text(statistic)).into(),
            FileFormat::Netcdf => {
                let matrices = Statistic::ALL.map(|statistic| self.netcdf(statistic));
                [self.hosts()].into_iter().chain(matrices).collect()
            }
            FileFormat::Csv => vec![self.csv()],
            FileFormat::Json => vec![self.json()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(given: &str) -> Vec<String> {
        let names = Names::of(Path::new(given));
        let all = [
            names.text(Statistic::Average),
            names.text(Statistic::Min),
            names.netcdf(Statistic::Average),
            names.hosts(),
            names.csv(),
        ];
        all.map(|path| path.to_str().unwrap().to_owned()).into()
    }

    #[test]
    fn a_prefix_is_taken_verbatim() {
        for given in ["d.0/run.1", "run", "1.5", ".mtr", "a.mtr.old"] {
            let wanted = ["", "_min", "_average.nc", "_hosts.txt", ".csv"];
            assert_eq!(files(given), wanted.map(|tail| format!("{given}{tail}")));
        }
    }

    #[test]
    fn an_extension_of_a_file_that_is_written_is_no_part_of_the_prefix() {
        let wanted = ["d/x.mtr", "d/x_min.mtr", "d/x_average.nc", "d/x_hosts.txt", "d/x.csv"];
        for given in ["d/x.mtr", "d/x.nc", "d/x.csv", "d/x.json"] {
            assert_eq!(files(given), wanted);
        }
        assert_eq!(files("x.1.txt")[..3], ["x.1.txt", "x.1_min.txt", "x.1_average.nc"]);
    }
}
