//! Prometheus' text format, version 0.0.4: for each family a line of HELP, one of TYPE, and its samples.
//! A family without samples is left out.

use std::fmt::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Families in the order in which they were told.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    name: &'static str,
    /// The lines that go before the first sample of the family.
    header: Option<String>,
}

impl Exposition {
    /// Begins a family; its samples follow.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.name = name;
        self.header = Some(format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// A sample of the family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample_of("", labels, value);
    }

    /// A sample whose name has a suffix, as those of histograms.
    pub fn sample_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(&self.header.take().unwrap_or_default());
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {}", number(value));
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &'static str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// As Go's `strconv.ParseFloat` reads it.
pub fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_of_its_description() {
        let mut out = Exposition::default();
        out.family("a_total", Kind::Counter, "back\\slash\nand line");
        out.sample(&[("path", "C:\\\"x\"\n"), ("b", "")], 0.5);
        out.family("empty", Kind::Gauge, "Left out.");
        out.single("c", Kind::Gauge, "Infinite.", f64::INFINITY);
        let expected = "# HELP a_total back\\\\slash\\nand line\n# TYPE a_total counter\n\
                        a_total{path=\"C:\\\\\\\"x\\\"\\n\",b=\"\"} 0.5\n\
                        # HELP c Infinite.\n# TYPE c gauge\nc +Inf\n";
        assert_eq!(out.finish(), expected);
    }
}
