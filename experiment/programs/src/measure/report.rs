//! Files that are whole at any moment, so that an interrupted run leaves what it has: a document
//! rewritten behind what was in the file before, and a JSON document to whose last list items are
//! added. CSV and JSON need no more here than a quoting rule and `serde_json`.

use super::failure::Failure;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How results are written besides the original's own format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The original program's.
    Original,
    Csv,
    Json,
}

/// One field of a CSV line (RFC 4180).
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// `FOLDER/stem_suffix.extension` of `FOLDER/stem.extension`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut name = format!("{stem}_{suffix}");
    if let Some(extension) = path.extension() {
        name = format!("{name}.{}", extension.to_string_lossy());
    }
    path.with_file_name(name)
}

/// A text that grows or changes as a whole, in a file or on standard output.
#[derive(Debug)]
pub struct Document {
    target: Option<(File, PathBuf)>,
    /// What the file held before; kept.
    begin: u64,
    /// Bytes that standard output has got.
    printed: usize,
}

impl Document {
    /// Standard output without a path; that gets the text from [`Document::finish`], or the part that
    /// is final already from [`Document::print`].
    pub fn open(path: Option<&Path>, append: bool) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self { target: None, begin: 0, printed: 0 }) };
        let open = || -> io::Result<(File, u64)> {
            let mut file =
                OpenOptions::new().create(true).write(true).truncate(!append).open(path)?;
            let begin = file.seek(SeekFrom::End(0))?;
            Ok((file, begin))
        };
        let (file, begin) = open().map_err(|error| Failure::file(path, &error))?;
        Ok(Self { target: Some((file, path.to_owned())), begin, printed: 0 })
    }

    /// Whether the file held something before.
    pub fn has_history(&self) -> bool {
        self.begin > 0
    }

    /// Puts the present state of the text into the file.
    pub fn update(&mut self, text: &str) -> Result<(), Failure> {
        let begin = self.begin;
        let Some((file, path)) = &mut self.target else { return Ok(()) };
        let mut write = || -> io::Result<()> {
            file.seek(SeekFrom::Start(begin))?;
            file.write_all(text.as_bytes())?;
            file.set_len(begin + text.len() as u64)
        };
        write().map_err(|error| Failure::file(path, &error))
    }

    /// As [`Document::update`] for a text that only grows: standard output gets what is new.
    pub fn print(&mut self, text: &str) -> Result<(), Failure> {
        if self.target.is_some() {
            return self.update(text);
        }
        let new = text.get(self.printed..).unwrap_or("");
        self.printed = text.len();
        let mut out = io::stdout();
        let written = out.write_all(new.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| Failure::file(Path::new("standard output"), &error))
    }

    /// The last update.
    pub fn finish(mut self, text: &str) -> Result<(), Failure> {
        self.print(text)
    }
}

/// A JSON object whose last member is a list; valid after every [`JsonList::append`].
#[derive(Debug)]
pub struct JsonList {
    file: File,
    end_of_items: u64,
    items: usize,
}

impl JsonList {
    const TAIL: &'static [u8] = b"\n]}\n";

    /// Writes `head` (an object) with an empty list `list` added to it.
    pub fn create(path: &Path, head: &serde_json::Value, list: &str) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let head = head.to_string();
        let open = head.trim_end_matches('}');
        let comma = if open.len() > 1 { "," } else { "" };
        let text = format!("{open}{comma}{}:[", serde_json::Value::from(list));
        file.write_all(text.as_bytes())?;
        file.write_all(Self::TAIL)?;
        Ok(Self { file, end_of_items: text.len() as u64, items: 0 })
    }

    /// One write, so that no reader and no signal finds half an item.
    pub fn append(&mut self, item: &serde_json::Value) -> io::Result<()> {
        let comma = if self.items > 0 { ",\n" } else { "\n" };
        let mut bytes = format!("{comma}{item}").into_bytes();
        let length = bytes.len() as u64;
        bytes.extend(Self::TAIL);
        self.file.seek(SeekFrom::Start(self.end_of_items))?;
        self.file.write_all(&bytes)?;
        self.end_of_items += length;
        self.items += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_json_list_parses_after_every_item() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.json");
        let read = || -> Value { serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap() };
        let mut list = JsonList::create(&path, &json!({"hosts": ["a", "b"]}), "lengths").unwrap();
        assert_eq!(read()["lengths"], json!([]));
        for item in 0..3 {
            list.append(&json!({ "bytes": item })).unwrap();
            assert_eq!(read()["lengths"].as_array().unwrap().len(), item + 1);
        }
        assert_eq!(read()["hosts"][1], "b");
    }

    #[test]
    fn a_document_keeps_what_was_there_and_replaces_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs");
        std::fs::write(&path, "before\n").unwrap();
        let mut document = Document::open(Some(&path), true).unwrap();
        assert!(document.has_history());
        document.update("a long first text\n").unwrap();
        document.finish("short\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nshort\n");
        assert!(Document::open(Some(Path::new("/no/such/folder/x")), true).is_err());
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(csv_field("plain"), "plain");
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(with_suffix(Path::new("d/x.mtr"), "min"), Path::new("d/x_min.mtr"));
    }
}
