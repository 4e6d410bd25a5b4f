//! The files of one run. Everything known is in them after each message length.

use super::matrix::{Matrix, Statistic};
use super::options::{FileFormat, Options};
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
    text: Vec<(Statistic, File)>,
    netcdf: Vec<(Statistic, RecordFile)>,
    csv: Option<File>,
    json: Option<JsonList>,
    paths: Vec<PathBuf>,
}

impl Files {
    /// Makes all files, with their heads.
    pub fn create(options: &Options, hosts: &[String]) -> Result<Self, Failure> {
        let mut files = Self {
            hosts: hosts.to_vec(),
            text: Vec::new(),
            netcdf: Vec::new(),
            csv: None,
            json: None,
            paths: Vec::new(),
        };
        let path = options.path();
        for format in &options.format {
            match format {
                FileFormat::Text => files.add_text(options, &path)?,
                FileFormat::Netcdf => files.add_netcdf(options, &path)?,
                FileFormat::Csv => {
                    let path = path.with_extension("csv");
                    let mut file = files.made(path.clone(), File::create(&path))?;
                    let head = "message_bytes,sender,receiver,sender_host,receiver_host,\
                                average_s,median_s,deviation_s,min_s\n";
                    files.csv =
                        Some(files.made(path, file.write_all(head.as_bytes()).map(|()| file))?);
                }
                FileFormat::Json => {
                    let path = path.with_extension("json");
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

    fn add_text(&mut self, options: &Options, path: &Path) -> Result<(), Failure> {
        for statistic in Statistic::ALL {
            let path = match statistic {
                Statistic::Average => path.to_owned(),
                other => with_suffix(path, other.name()),
            };
            let head = text::head(options, statistic, &self.hosts);
            let created = File::create(&path)
                .and_then(|mut file| file.write_all(head.as_bytes()).map(|()| file));
            let file = self.made(path, created)?;
            self.text.push((statistic, file));
        }
        Ok(())
    }

    fn add_netcdf(&mut self, options: &Options, path: &Path) -> Result<(), Failure> {
        let hosts_path = with_suffix(&path.with_extension("txt"), "hosts");
        let names: String = self.hosts.iter().map(|host| format!("{host}\n")).collect();
        let written = std::fs::write(&hosts_path, names);
        self.made(hosts_path, written)?;
        for statistic in Statistic::ALL {
            let path = with_suffix(&path.with_extension("nc"), statistic.name());
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
        for (statistic, file) in &mut self.text {
            let block = text::block(length, matrix.processes(), &matrix.values(*statistic));
            file.write_all(block.as_bytes())?;
        }
        for (statistic, file) in &mut self.netcdf {
            file.append(&matrix.values(*statistic))?;
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
    fn a_folder_that_is_not_there_is_told() {
        let options = Options::parse_from(["network_test", "-f", "/no/such/folder/x.mtr"]);
        let failure = Files::create(&options, &["a".to_owned()]).err().unwrap();
        assert!(failure.to_string().contains("/no/such/folder/x.mtr"));
        assert_eq!(failure.exit_code(), 5);
    }
}
