//! The files of one run. Everything known is in them after each message length.

use super::matrix::{Matrix, Statistic};
use super::names::Names;
use super::options::{FileFormat, Options, TestType};
use super::text;
use crate::measure::failure::Failure;
use crate::measure::netcdf::{Layout, RecordFile};
use crate::measure::report::{JsonList, csv_field, with_suffix};
use serde_json::json;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Length of a host's name in the original's files, with its closing zero.
pub const HOST_NAME_BYTES: usize = 101;

/// The open files.
pub struct Files {
    hosts: Vec<String>,
    /// Rows of the original's formats are senders.
    rows_send: bool,
    text: Vec<(Statistic, File)>,
    netcdf: Vec<(Statistic, RecordFile)>,
    csv: Option<File>,
    json: Option<JsonList>,
    paths: Vec<PathBuf>,
}

impl Files {
    /// Makes all files, with their heads. An error where one is there already, unless it may be
    /// overwritten.
    pub fn create(options: &Options, hosts: &[String]) -> Result<Self, Failure> {
        let names = Names::of(&options.path());
        if !options.overwrite {
            refuse_existing(options, &names)?;
        }
        let mut files = Self {
            hosts: hosts.to_vec(),
            rows_send: options.test_type == TestType::Put,
            text: Vec::new(),
            netcdf: Vec::new(),
            csv: None,
            json: None,
            paths: Vec::new(),
        };
        for format in &options.format {
            match format {
                FileFormat::Text => files.add_text(options, &names)?,
                FileFormat::Netcdf => files.add_netcdf(options, &names)?,
                FileFormat::Csv => {
                    let path = names.csv();
                    let mut file = files.made(path.clone(), File::create(&path))?;
                    let head = "message_bytes,sender,receiver,sender_host,receiver_host,\
                                average_s,median_s,deviation_s,min_s\n";
                    files.csv =
                        Some(files.made(path, file.write_all(head.as_bytes()).map(|()| file))?);
                }
                FileFormat::Json => {
                    let path = names.json();
                    let list = JsonList::create(&path, &json_head(options, hosts), "lengths");
                    files.json = Some(files.made(path, list)?);
                }
            }
        }
        Ok(files)
    }

    /// Remembers a file that was made, or says why it was not.
    fn made<T>(&mut self, path: PathBuf, result: io::Result<T>) -> Result<T, Failure> {
        let made = result.map_err(|error| Failure::file(&path, &error))?;
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
        Ok(made)
    }

    fn add_text(&mut self, options: &Options, names: &Names) -> Result<(), Failure> {
        for statistic in Statistic::ALL {
            let path = names.text(statistic);
            let head = text::head(options, statistic, &self.hosts);
            let created = File::create(&path)
                .and_then(|mut file| file.write_all(head.as_bytes()).map(|()| file));
            let file = self.made(path, created)?;
            self.text.push((statistic, file));
        }
        Ok(())
    }

    fn add_netcdf(&mut self, options: &Options, names: &Names) -> Result<(), Failure> {
        let hosts: String = self.hosts.iter().map(|host| format!("{host}\n")).collect();
        let written = std::fs::write(names.hosts(), hosts);
        self.made(names.hosts(), written)?;
        for statistic in Statistic::ALL {
            let path = names.netcdf(statistic);
            let file = create_netcdf(options, statistic, self.hosts.len(), &path);
            let file = self.made(path, file)?;
            self.netcdf.push((statistic, file));
        }
        Ok(())
    }

    /// Adds the matrix of one message length to all files.
    pub fn record(&mut self, length: usize, matrix: &Matrix) -> Result<(), Failure> {
        let written = self.record_all(length, matrix);
        written.map_err(|error| {
            Failure::file(self.paths.first().map_or(Path::new("output"), PathBuf::as_path), &error)
        })
    }

    fn record_all(&mut self, length: usize, matrix: &Matrix) -> io::Result<()> {
        let original = if self.rows_send { matrix.transposed() } else { matrix.clone() };
        for (statistic, file) in &mut self.text {
            let block = text::block(length, original.processes(), &original.values(*statistic));
            file.write_all(block.as_bytes())?;
        }
        for (statistic, file) in &mut self.netcdf {
            file.append(&original.values(*statistic))?;
        }
        if let Some(file) = &mut self.csv {
            file.write_all(csv_lines(length, matrix, &self.hosts).as_bytes())?;
        }
        if let Some(list) = &mut self.json {
            list.append(&json_item(length, matrix))?;
        }
        Ok(())
    }

    /// Names the files on standard error.
    pub fn tell(&self) {
        for path in &self.paths {
            eprintln!("wrote {}", path.display());
        }
    }
}

/// An error where a run would write over a file.
fn refuse_existing(options: &Options, names: &Names) -> Result<(), Failure> {
    let data = options.format.iter().flat_map(|format| names.files(*format));
    let plots = options.plot.iter().flat_map(|path| [path.clone(), with_suffix(path, "lengths")]);
    // A device has nothing to lose.
    match data.chain(plots).find(|path| path.is_file()) {
        Some(path) => Err(Failure::File {
            path: path.display().to_string(),
            reason: "is there already; give --file another name, or --overwrite".to_owned(),
        }),
        None => Ok(()),
    }
}

fn create_netcdf(
    options: &Options,
    statistic: Statistic,
    processes: usize,
    path: &Path,
) -> io::Result<RecordFile> {
    // All were checked to fit when the options were read.
    let number = |value: usize| value as i32;
    RecordFile::create(
        path,
        &Layout {
            dimensions: &[
                ("x", processes as u32),
                ("y", processes as u32),
                ("n", 0),
                ("strings", HOST_NAME_BYTES as u32),
            ],
            scalars: &[
                ("proc_num", number(processes)),
                ("test_type", options.test_type.code()),
                ("data_type", statistic.code()),
                ("begin_mes_length", number(options.begin)),
                ("end_mes_length", number(options.end)),
                ("step_length", number(options.step)),
                ("noise_mes_length", number(options.noise_length)),
                ("num_noise_mes", number(options.noise_messages)),
                ("num_noise_proc", number(options.noise_processes)),
                ("num_repeates", number(options.num_repeats)),
            ],
            record: ("data", &[2, 0, 1]),
        },
    )
}

fn csv_lines(length: usize, matrix: &Matrix, hosts: &[String]) -> String {
    let mut out = String::new();
    for receiver in 0..matrix.processes() {
        for sender in 0..matrix.processes() {
            let cell = matrix.cell(receiver, sender);
            out += &format!(
                "{length},{sender},{receiver},{},{},{:e},{:e},{:e},{:e}\n",
                csv_field(&hosts[sender]),
                csv_field(&hosts[receiver]),
                cell.average,
                cell.median,
                cell.deviation,
                cell.min
            );
        }
    }
    out
}

fn json_head(options: &Options, hosts: &[String]) -> serde_json::Value {
    json!({
        "program": "network_test",
        "version": env!("CARGO_PKG_VERSION"),
        "test_type": options.test_type.name(),
        "time_unit": "s",
        "rows": "receiver",
        "columns": "sender",
        "hosts": hosts,
        "begin_bytes": options.begin,
        "end_bytes": options.end,
        "step_bytes": options.step,
        "num_repeats": options.num_repeats,
        "parallel_pairs": options.parallel_pairs,
        "noise_length_bytes": options.noise_length,
        "noise_messages": options.noise_messages,
        "noise_processes": options.noise_processes,
    })
}

fn json_item(length: usize, matrix: &Matrix) -> serde_json::Value {
    let mut item = json!({ "message_bytes": length });
    for statistic in Statistic::ALL {
        let values = matrix.values(statistic);
        let rows: Vec<&[f64]> = values.chunks(matrix.processes()).collect();
        item[statistic.name()] = json!(rows);
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::Value;

    #[test]
    fn all_files_hold_every_recorded_length() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.mtr");
        let name = file.to_str().unwrap();
        let options =
            Options::parse_from(["network_test", "-f", name, "--format", "text,netcdf,csv,json"]);
        let hosts = ["a".to_owned(), "b".to_owned()];
        let mut files = Files::create(&options, &hosts).unwrap();
        let matrix = Matrix::from_rows(2, &(0..16).map(f64::from).collect::<Vec<_>>());
        files.record(0, &matrix).unwrap();
        files.record(100, &matrix).unwrap();

        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        let text = |name: &str| String::from_utf8(read(name)).unwrap();
        assert_eq!(
            text::parse(&text("out_min.mtr")).unwrap().matrices[1].1,
            [3.0, 7.0, 11.0, 15.0]
        );
        assert_eq!(text::parse(&text("out.mtr")).unwrap().matrices[0].1, [0.0, 4.0, 8.0, 12.0]);
        assert_eq!(text("out_hosts.txt"), "a\nb\n");
        for statistic in Statistic::ALL {
            assert_eq!(read(&format!("out_{}.nc", statistic.name()))[4..8], [0, 0, 0, 2]);
        }
        assert_eq!(text("out.csv").lines().count(), 1 + 2 * 4);
        assert!(text("out.csv").contains("\n100,1,0,b,a,4e0,5e0,6e0,7e0\n"));
        let json: Value = serde_json::from_slice(&read("out.json")).unwrap();
        assert_eq!(json["lengths"][1]["median"], json!([[1.0, 5.0], [9.0, 13.0]]));
    }

    #[test]
    fn no_run_writes_over_another_unless_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let create = |name: &str, more: &[&str]| {
            let file = folder.path().join(name);
            let given = ["network_test", "-f", file.to_str().unwrap()];
            let options = Options::parse_from(given.iter().chain(more));
            Files::create(&options, &["a".to_owned()]).map(|files| files.paths.len())
        };
        assert_eq!(create("run.1", &[]), Ok(9));
        assert_eq!(create("run.2", &[]), Ok(9));
        let refused = create("run.1", &[]).unwrap_err();
        assert_eq!(refused.exit_code(), 5);
        assert!(refused.to_string().contains("--overwrite"), "{refused}");
        // One file of many is enough, also a plot, and nothing is written then.
        std::fs::write(folder.path().join("third_hosts.txt"), "a\n").unwrap();
        std::fs::write(folder.path().join("map_lengths.svg"), "").unwrap();
        let plot = folder.path().join("map.svg");
        assert!(create("third.mtr", &[]).is_err());
        assert!(create("fourth", &["--plot", plot.to_str().unwrap()]).is_err());
        assert!(!folder.path().join("third.mtr").exists());
        assert_eq!(create("run.1", &["--overwrite"]), Ok(9));
    }

    /// Whoever reports has the row: of a put the sender. CSV and JSON name both.
    #[test]
    fn a_put_stands_in_the_originals_formats_as_the_original_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("put.mtr");
        let name = file.to_str().unwrap();
        let line = ["network_test", "-t", "put", "-f", name, "--format", "text,netcdf,csv,json"];
        let options = Options::parse_from(line);
        let mut files = Files::create(&options, &["a".to_owned(), "b".to_owned()]).unwrap();
        files
            .record(0, &Matrix::from_rows(2, &(0..16).map(f64::from).collect::<Vec<_>>()))
            .unwrap();
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        let text = String::from_utf8(read("put.mtr")).unwrap();
        assert_eq!(text::parse(&text).unwrap().matrices[0].1, [0.0, 8.0, 4.0, 12.0]);
        let bytes = read("put_average.nc");
        let second = &bytes[bytes.len() - 24..][..8];
        assert_eq!(second, 8.0f64.to_be_bytes());
        let csv = String::from_utf8(read("put.csv")).unwrap();
        assert!(csv.contains("\n0,1,0,b,a,4e0,"), "{csv}");
        let json: Value = serde_json::from_slice(&read("put.json")).unwrap();
        assert_eq!(json["lengths"][0]["average"], json!([[0.0, 4.0], [8.0, 12.0]]));
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let options = Options::parse_from(["network_test", "-f", "/no/such/folder/x.mtr"]);
        let failure = Files::create(&options, &["a".to_owned()]).err().unwrap();
        assert!(failure.to_string().contains("/no/such/folder/x.mtr"));
        assert_eq!(failure.exit_code(), 5);
    }
}
