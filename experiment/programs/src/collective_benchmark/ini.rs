//! `options.ini`, by the rules of DUNE's parameter files: `key = value`, `#` starts a comment, a value
//! may stand in quotes and then reach over several lines, and `[section]` puts its name and a dot
//! before the keys that follow it.

use std::collections::HashSet;

/// What a file holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ini {
    /// Keys and values in the order of the file; no key twice.
    pub values: Vec<(String, String)>,
    /// Lines that are neither a value nor a section nor a comment. They mean nothing there.
    pub meaningless: Vec<String>,
}

/// A key that stands twice, which may not be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} stands there twice")]
pub struct Twice(pub String);

/// Reads a file's text.
pub fn parse(text: &str) -> Result<Ini, Twice> {
    let mut found = Ini::default();
    let mut seen = HashSet::new();
    let mut section = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = match name.trim() {
                "" => String::new(),
                name => format!("{name}."),
            };
            continue;
        }
        let content = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = content.split_once('=') else {
            found.meaningless.push(line.to_owned());
            continue;
        };
        let key = format!("{section}{}", key.trim());
        if !seen.insert(key.clone()) {
            return Err(Twice(key));
        }
        let value = value.trim();
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => unquoted(&value[1..], quote, &mut lines),
            _ => value.to_owned(),
        };
        found.values.push((key, value));
    }
    Ok(found)
}

/// The value that begins with `first`, up to the line that ends with `quote`, or to the file's end.
fn unquoted<'a>(first: &str, quote: char, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut value = first.to_owned();
    loop {
        if let Some(inside) = value.trim_end().strip_suffix(quote) {
            return inside.to_owned();
        }
        let Some(line) = lines.next() else { return value };
        value.push('\n');
        value += line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().values
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn values_stand_with_and_without_quotes() {
        let text =
            "# all\niterations = 5 # few\nmethod = \"gather\"\nfname='a b'\nlong = \"x\n y\"\n";
        let wanted = [
            pair("iterations", "5"),
            pair("method", "gather"),
            pair("fname", "a b"),
            pair("long", "x\n y"),
        ];
        assert_eq!(values(text), wanted);
        assert_eq!(values("method = \"gather"), [pair("method", "gather")]);
    }

    #[test]
    fn sections_come_before_their_keys() {
        let text = "[first]\na = 1\n[ ]\na = 2\n";
        assert_eq!(values(text), [pair("first.a", "1"), pair("a", "2")]);
    }

    #[test]
    fn what_means_nothing_is_told_and_no_key_stands_twice() {
        assert_eq!(parse("method\n").unwrap().meaningless, ["method"]);
        assert_eq!(parse("a = 1\na = 2\n"), Err(Twice("a".to_owned())));
    }
}
