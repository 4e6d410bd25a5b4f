//! docs/unsafe.md says where `unsafe` stands, and how often.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

type Counts = BTreeMap<String, usize>;

/// The Rust files below a folder, by their paths from `root`; not those of builds or of this crate, which
/// has the word in strings.
fn count(folder: &Path, root: &Path, counts: &mut Counts) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let is_hidden = path.file_name().unwrap().to_str().unwrap().starts_with('.');
        if path.is_dir() {
            if !is_hidden && name != "target" && name != "tests/fuzz" {
                count(&path, root, counts);
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            let number = text.lines().map(in_line).sum();
            if number > 0 {
                counts.insert(name, number);
            }
        }
    }
}

fn in_line(line: &str) -> usize {
    let code = line.split("//").next().unwrap_or_default().replace("\"unsafe\"", "");
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| *word == "unsafe").count()
}

fn documented(page: &str) -> Counts {
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        Some((cells.next()?.to_owned(), cells.next()?.parse().ok()?))
    };
    page.lines().filter_map(row).collect()
}

#[test]
fn the_page_on_unsafe_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Counts::new();
    count(&root, &root, &mut found);
    let page = documented(&fs::read_to_string(root.join("docs/unsafe.md")).unwrap());
    assert!(found.len() > 20, "the files are there");
    for file in found.keys().chain(page.keys()) {
        assert_eq!(found.get(file), page.get(file), "{file}: what is there, and in docs/unsafe.md");
    }
}
