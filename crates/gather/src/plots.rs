//! The names of the plots of `--plot`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Decides the names of the plots of a run. Each plot has the name of its final file. The value of `--plot` is the name of a second
/// copy as long as there is one final file only, so that no name depends on which of several comes first.
#[derive(Default)]
pub struct PlotNames {
    /// How many final files are known to be written.
    expected: usize,
    /// The final files that were drawn.
    drawn: BTreeSet<PathBuf>,
    /// True if there is a plot of the name of a single one.
    has_single: bool,
}

impl PlotNames {
    /// Notes that at least this many final files are to be written.
    pub fn expect(&mut self, finals: usize) {
        self.expected = self.expected.max(finals);
    }

    /// Notes that a final file is drawn, and says what becomes of the plot of a single one.
    pub fn add(&mut self, final_file: &Path) -> SinglePlot {
        self.drawn.insert(final_file.to_path_buf());
        if self.drawn.len() == 1 && self.expected <= 1 {
            self.has_single = true;
            SinglePlot::Draw
        } else if std::mem::take(&mut self.has_single) {
            SinglePlot::Remove
        } else {
            SinglePlot::Leave
        }
    }
}

/// Change to the plot whose name is the value of `--plot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinglePlot {
    /// Draw it: there is one final file.
    Draw,
    /// Remove it: this run drew it, and there are several.
    Remove,
    /// Nothing: there are several.
    Leave,
}

/// Returns the path of the plot of a final file.
pub fn plot_path(flag: &Path, final_file: &Path) -> PathBuf {
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

    #[test]
    fn a_plot_has_the_name_of_its_final() {
        let path = plot_path("/tmp/p.png".as_ref(), "/out/s_scan0002_p3.h5".as_ref());
        assert_eq!(path, Path::new("/tmp/p_s_scan0002_p3.png"));
    }

    #[test]
    fn only_a_single_final_has_the_name_that_was_given() {
        let mut one = PlotNames::default();
        one.expect(1);
        assert_eq!(["a", "a"].map(|name| one.add(name.as_ref())), [SinglePlot::Draw; 2]);
        assert_eq!(["b", "a"].map(|name| one.add(name.as_ref())), [SinglePlot::Remove, SinglePlot::Leave]);
        let mut known = PlotNames::default();
        known.expect(2);
        assert_eq!(known.add("a".as_ref()), SinglePlot::Leave);
    }
}
