//! The names of the plots of `--plot`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use records::Summary;

/// Decides the names of the plots of a run. With one final file, its plot is the value of `--plot`. With several, the name of each
/// final file is part of the name of its plot, so that no name depends on which of them comes first.
#[derive(Default)]
pub struct PlotNames {
    /// How many final files are known to be written.
    expected: usize,
    /// The final files that were drawn, each with its plot and its last summary.
    drawn: BTreeMap<PathBuf, (PathBuf, Summary)>,
}

impl PlotNames {
    /// Notes that at least this many final files are to be written.
    pub fn expect(&mut self, finals: usize) {
        self.expected = self.expected.max(finals);
    }

    /// Returns the path of the plot of a final file.
    pub fn path(&self, flag: &Path, final_file: &Path) -> PathBuf {
        let is_only = self.drawn.keys().all(|drawn| drawn == final_file);
        if self.expected <= 1 && is_only { flag.to_path_buf() } else { with_name_of(flag, final_file) }
    }

    /// Returns the summary of the first final file if its plot has the name of a single one, and the final file to be drawn is another.
    pub fn take_misnamed(&mut self, flag: &Path, final_file: &Path) -> Option<Summary> {
        let (first, (plot, _)) = self.drawn.first_key_value()?;
        if first == final_file || plot != flag {
            return None;
        }
        self.expect(2);
        self.drawn.pop_first().map(|(_, (_, summary))| summary)
    }

    /// Notes that a final file was drawn.
    pub fn add_drawn(&mut self, plot: PathBuf, summary: Summary) {
        self.drawn.insert(summary.final_file.to_path_buf(), (plot, summary));
    }
}

/// Returns the path of a plot with the name of its final file.
fn with_name_of(flag: &Path, final_file: &Path) -> PathBuf {
    let mut name = flag.file_stem().unwrap_or_default().to_owned();
    name.push("_");
    name.push(final_file.file_stem().unwrap_or_default());
    name.push(".");
    name.push(flag.extension().unwrap_or_default());
    flag.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAG: &str = "/tmp/p.png";

    fn summary(scan: u32) -> Summary {
        Summary { final_file: format!("/out/s_scan{scan:04}_p3.h5").into(), ..Summary::default() }
    }

    #[test]
    fn one_plot_has_the_name_that_was_given() {
        let mut names = PlotNames::default();
        names.expect(1);
        for _ in 0..2 {
            let one = summary(1);
            assert!(names.take_misnamed(FLAG.as_ref(), &one.final_file).is_none());
            assert_eq!(names.path(FLAG.as_ref(), &one.final_file), Path::new(FLAG));
            names.add_drawn(FLAG.into(), one);
        }
    }

    #[test]
    fn several_plots_have_the_names_of_their_finals_whichever_comes_first() {
        let named = Path::new("/tmp/p_s_scan0002_p3.png");
        let mut known = PlotNames::default();
        known.expect(2);
        assert!(known.take_misnamed(FLAG.as_ref(), &summary(2).final_file).is_none());
        assert_eq!(known.path(FLAG.as_ref(), &summary(2).final_file), named);
        let mut unknown = PlotNames::default();
        unknown.add_drawn(FLAG.into(), summary(2));
        unknown.expect(2);
        let first = unknown.take_misnamed(FLAG.as_ref(), &summary(1).final_file).expect("is to be renamed");
        assert_eq!(first, summary(2));
        assert_eq!(unknown.path(FLAG.as_ref(), &first.final_file), named);
        unknown.add_drawn(named.into(), first);
        assert!(unknown.take_misnamed(FLAG.as_ref(), &summary(3).final_file).is_none());
    }
}
