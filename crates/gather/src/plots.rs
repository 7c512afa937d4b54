//! The names of the plots of `--plot`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::output_files::is_same_target;

/// The plots of a run. Each has the name of its final file. At the end of the run, the value of
/// `--plot` is the name of a second copy if there is one final file only, so that no name depends
/// on which of several comes first.
#[derive(Default)]
pub struct PlotNames {
    /// The final file of each plot.
    drawn: BTreeMap<PathBuf, PathBuf>,
    /// The value of `--plot-scans`, which no plot of a final file may have.
    plot_of_scans: Option<PathBuf>,
}

/// The error for a plot whose name another plot has.
#[derive(Debug, thiserror::Error)]
pub enum PlotNameTaken {
    /// It is that of a final file.
    #[error("has the plot of {} already, whose file has the same name; gather the two with different --plot", first.display())]
    Final {
        /// The final file.
        first: PathBuf,
    },
    /// It is that of all scans.
    #[error("is the file of --plot-scans, too; choose another --plot-scans")]
    PlotOfScans,
}

impl PlotNames {
    /// Creates the names of a run with this value of `--plot-scans`.
    pub fn new(plot_of_scans: Option<PathBuf>) -> Self {
        Self { plot_of_scans, ..Self::default() }
    }

    /// Reserves the name of a plot for a final file.
    ///
    /// # Errors
    /// Fails if the run draws another final file, or all scans, under this name.
    pub fn reserve(&mut self, plot: &Path, final_file: &Path) -> Result<(), PlotNameTaken> {
        if self.plot_of_scans.as_deref().is_some_and(|other| is_same_target(other, plot)) {
            return Err(PlotNameTaken::PlotOfScans);
        }
        let first =
            self.drawn.entry(plot.to_path_buf()).or_insert_with(|| final_file.to_path_buf());
        if first == final_file {
            Ok(())
        } else {
            Err(PlotNameTaken::Final { first: first.clone() })
        }
    }

    /// Returns the plots of the run; not the second copy of a single one.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.drawn.keys().map(PathBuf::as_path)
    }

    /// Returns the final file of the only plot of the run.
    pub fn single(&self) -> Option<&Path> {
        let mut files = self.drawn.values();
        files.next().filter(|_| files.next().is_none()).map(PathBuf::as_path)
    }
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
        let mut names = PlotNames::default();
        assert_eq!(names.single(), None);
        names.reserve("p_a.png".as_ref(), "/out/a.h5".as_ref()).unwrap();
        names.reserve("p_a.png".as_ref(), "/out/a.h5".as_ref()).unwrap();
        assert_eq!(names.single(), Some(Path::new("/out/a.h5")));
        let taken =
            names.reserve("p_a.png".as_ref(), "/out/b/a.h5".as_ref()).unwrap_err().to_string();
        assert!(taken.contains("has the plot of /out/a.h5 already"), "{taken}");
        names.reserve("p_b.png".as_ref(), "/out/b.h5".as_ref()).unwrap();
        assert_eq!(names.single(), None);
        let mut names = PlotNames::new(Some("./p_a.png".into()));
        let taken =
            names.reserve("p_a.png".as_ref(), "/out/a.h5".as_ref()).unwrap_err().to_string();
        assert!(taken.contains("--plot-scans"), "{taken}");
    }
}
