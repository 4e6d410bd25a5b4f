//! The commands for plotting programs that the original format holds around its results: for C.It, in
//! the same file, or for gnuplot, in a file of their own.

use super::command::CommandLine;
use super::kind::Kind;
use super::options::Options;
use crate::measure::failure::Failure;
use crate::measure::report::Format;
use std::fmt::Write;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Cit,
    Gnuplot,
}

/// Number of a window, from 1, and how many there are.
type Window = (u32, u32);

/// How results are to be drawn.
#[derive(Debug, Clone)]
pub struct Graph {
    pub program: Program,
    /// As gnuplot's `set terminal` names it.
    terminal: Option<&'static str>,
    /// With the range of the samples.
    pub range: bool,
    rate: bool,
    pub fit: bool,
    across: Window,
    down: Window,
    is_last_window: bool,
    is_logarithmic: bool,
}

fn window(option: &str, given: Option<&[u32]>) -> Result<Window, Failure> {
    match given {
        None => Ok((1, 1)),
        Some(&[index, count]) if (1..=count).contains(&index) => Ok((index, count)),
        Some(given) => {
            Err(Failure::BadOption(format!("{option}: {given:?} is not a window and their number")))
        }
    }
}

impl Graph {
    pub fn checked(line: &CommandLine, kind: Kind) -> Result<Self, Failure> {
        let flags = &line.graph;
        let wrong = |text: &str| Err(Failure::BadOption(text.to_owned()));
        let terminal = [
            (flags.gnuploteps, "postscript eps"),
            (flags.gnuplotps, "postscript"),
            (flags.gnuplotgif, "gif"),
        ];
        let terminal = terminal.iter().find_map(|(given, name)| given.then_some(*name));
        let is_gnuplot = flags.gnuplot || terminal.is_some();
        let (across, down) =
            (window("-wx", flags.wx.as_deref())?, window("-wy", flags.wy.as_deref())?);
        let has_windows = flags.wx.is_some() || flags.wy.is_some() || flags.lastwindow;
        if line.format != Format::Original
            && (is_gnuplot || has_windows || flags.cit || flags.givedy || flags.rate || flags.fit)
        {
            return wrong(
                "-cit, -gnuplot..., -givedy, -rate, -fit, -wx, -wy and -lastwindow: only with the \
                 original format",
            );
        }
        if is_gnuplot && has_windows {
            return wrong("-wx, -wy and -lastwindow: windows are C.It's; not with -gnuplot");
        }
        if is_gnuplot && line.fname.as_deref().is_some_and(has_results_extension) {
            return wrong("-fname: FILE.gpl is where -gnuplot puts the results; name it otherwise");
        }
        if (flags.givedy || flags.rate) && !kind.is_between_partners() {
            return wrong("-givedy and -rate: only with -roundtrip and -head");
        }
        if flags.givedy && flags.rate {
            return wrong("-givedy and -rate: the range is that of times");
        }
        Ok(Self {
            program: if is_gnuplot { Program::Gnuplot } else { Program::Cit },
            terminal,
            range: flags.givedy,
            rate: flags.rate,
            fit: flags.fit,
            across,
            down,
            is_last_window: flags.lastwindow || (across.1 == 1 && down.1 == 1),
            is_logarithmic: line.logscale,
        })
    }

    /// What stands before the results.
    pub fn head(&self, options: &Options, title: &str) -> String {
        match self.program {
            Program::Cit => self.cit_head(options, title),
            Program::Gnuplot => self.gnuplot_head(options, title),
        }
    }

    /// What draws them, and ends the page.
    pub fn tail(&self, options: &Options) -> String {
        match self.program {
            Program::Cit => self.cit_tail(options),
            Program::Gnuplot => self.gnuplot_tail(options),
        }
    }

    /// Of the axes.
    fn labels(&self, options: &Options) -> (&'static str, &'static str) {
        match (options.kind.is_between_partners(), self.rate) {
            (true, true) => ("Size (bytes)", "Rate (MB/sec)"),
            (true, false) => ("Size (bytes)", "time (us)"),
            (false, _) => ("Processes", "time (us)"),
        }
    }

    fn cit_head(&self, options: &Options, title: &str) -> String {
        let mut out = "set default\nset font variable\nset curve window y 0.15 0.90\n".to_owned();
        let ((across, of_across), (down, of_down)) = (self.across, self.down);
        // Writing to a String cannot fail.
        if of_across > 1 || of_down > 1 {
            let _ = writeln!(out, "set window x {across} {of_across} y {down} {of_down}");
        }
        if options.kind.is_between_partners() && !self.range {
            out += if self.rate { "set order d d d x d y\n" } else { "set order d d d x y d\n" };
        }
        if self.is_logarithmic {
            out += "set scale x log y log\n";
        }
        let (x, y) = self.labels(options);
        let title = title.replace('\'', " ");
        let _ = write!(out, "title left '{y}', bottom '{x}',\ntop '{title}'\n");
        out
    }

    fn cit_tail(&self, options: &Options) -> String {
        let mut out = String::new();
        if !options.kind.is_between_partners() {
            out += "set limits ymin 0\n";
            let columns = options.sizes.len();
            // The last first, which has the greatest times, for the scale.
            for (column, size) in options.sizes.iter().enumerate().rev() {
                let order: Vec<&str> =
                    (0..columns).map(|other| if other == column { "y" } else { "d" }).collect();
                let _ =
                    write!(out, "set order x {}\nplot square\njoin '{size}'\n", order.join(" "));
            }
        } else if self.range {
            for (order, command) in [
                ("d d d x y d d d", "plot"),
                ("d d d x d d y d", "join"),
                ("d d d x d d d y", "join"),
            ] {
                let _ = write!(out, "set order {order}\n{command}\n");
            }
        } else {
            if self.rate {
                out += "set change y 'x * 1.0e-6'\n";
            }
            out += "plot square\njoin\n";
        }
        if self.is_last_window {
            out += "wait\nnew page\n";
        }
        out
    }

    fn gnuplot_head(&self, options: &Options, title: &str) -> String {
        let mut out = String::new();
        if let Some(terminal) = self.terminal {
            let _ = writeln!(out, "set terminal {terminal}");
        }
        let (x, y) = self.labels(options);
        let _ = write!(out, "set xlabel \"{x}\"\nset ylabel \"{y}\"\n");
        if self.is_logarithmic {
            out += "set logscale xy\n";
        }
        let title = title.replace('\'', "''");
        let _ = writeln!(out, "set title '{title}'");
        out
    }

    fn gnuplot_tail(&self, options: &Options) -> String {
        let results = options.gnuplot_results().unwrap_or_default();
        let results = format!("'{}'", results.display().to_string().replace('\'', "''"));
        let curves: Vec<String> = if options.kind.is_between_partners() {
            let what = match (self.rate, self.range) {
                (true, _) => "using 4:($6*1e-6) notitle with linespoints",
                (false, true) => "using 4:5:7:8 notitle with yerrorlines",
                (false, false) => "using 4:5 notitle with linespoints",
            };
            vec![format!("{results} {what}")]
        } else {
            let curve = |(index, size): (usize, &usize)| {
                format!("{results} using 1:{} title '{size}' with linespoints", index + 2)
            };
            options.sizes.iter().enumerate().map(curve).collect()
        };
        let mut out = format!("plot {}\n", curves.join(",\\\n"));
        out += match self.terminal {
            None => "pause -1 \"Press <return> to continue\"\nclear\n",
            Some(_) => "exit\n",
        };
        out
    }
}

fn has_results_extension(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gpl")
}

#[cfg(test)]
mod tests {
    use super::super::options::parse;
    use crate::measure::command_line::Parsed;

    /// Before and after the results.
    fn commands(line: &str) -> (String, String) {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let Parsed::Options(options) = parse(&arguments).unwrap() else { panic!("{line}") };
        (options.graph.head(&options, "it's a title"), options.graph.tail(&options))
    }

    #[test]
    fn cit_gets_a_curve_for_each_size() {
        let (head, tail) = commands("-dsum -sizelist 1,10 -wx 1 2");
        assert!(head.contains("\nset window x 1 2 y 1 1\n"), "{head}");
        assert!(
            head.ends_with("title left 'time (us)', bottom 'Processes',\ntop 'it s a title'\n")
        );
        assert_eq!(
            tail,
            "set limits ymin 0\nset order x d y\nplot square\njoin '10'\n\
             set order x y d\nplot square\njoin '1'\n"
        );
        assert!(commands("-dsum -wx 2 2 -lastwindow").1.ends_with("\nwait\nnew page\n"));
    }

    #[test]
    fn cit_draws_time_rate_or_range_of_partners() {
        let (head, tail) = commands("-head");
        assert!(head.contains("set order d d d x y d\n"), "{head}");
        assert_eq!(tail, "plot square\njoin\nwait\nnew page\n");
        let (head, tail) = commands("-head -rate");
        assert!(head.contains("set order d d d x d y\n") && head.contains("'Rate (MB/sec)'"));
        assert!(tail.starts_with("set change y 'x * 1.0e-6'\n"), "{tail}");
        assert_eq!(commands("-head -givedy").1.matches("set order").count(), 3);
    }

    #[test]
    fn gnuplot_reads_the_file_of_results() {
        let (head, tail) = commands("-dsum -sizelist 1,10 -gnuploteps -fname x.mpl");
        assert!(head.starts_with("set terminal postscript eps\n"), "{head}");
        assert!(head.ends_with("set title 'it''s a title'\n"), "{head}");
        assert!(tail.starts_with("plot 'x.gpl' using 1:2 title '1' with"), "{tail}");
        assert!(tail.contains(",\\\n'x.gpl' using 1:3 title '10'") && tail.ends_with("exit\n"));
        assert!(commands("-head -gnuplot").1.contains("plot 'mppout.gpl' using 4:5 notitle"));
        assert!(commands("-head -gnuplot -givedy").1.contains("using 4:5:7:8"));
        assert!(commands("-head -gnuplot -logscale").0.contains("set logscale xy\n"));
    }
}
