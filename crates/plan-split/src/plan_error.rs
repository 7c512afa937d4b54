//! The errors of planning.

use std::path::PathBuf;

use filter::Stop;
use records::RawPath;

/// A recipe can't be used, or a scan can't be integrated by it.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A recipe is incomplete or invalid.
    #[error(transparent)]
    Recipe(#[from] recipe::RecipeError),
    /// The names of several recipes are invalid or equal.
    #[error("--recipe-name: {0}")]
    RecipeNames(String),
    /// Two recipes have the same settings.
    #[error("--recipe: {one} and {other} have the same settings; give one of them")]
    EqualRecipes {
        /// The first recipe.
        one: String,
        /// The second recipe.
        other: String,
    },
    /// The PONI file, its detector or the unit can't be used.
    #[error("{}: {why}", poni.display())]
    Geometry {
        /// The PONI file.
        poni: PathBuf,
        /// The problem.
        why: String,
    },
    /// A file of the recipe is of another kind than expected.
    #[error(transparent)]
    File(#[from] integrator::IntegratorError),
    /// The values of a monitor can't be read.
    #[error("monitor {0}")]
    Monitor(#[from] frames::hdf5_array::Hdf5ArrayError),
    /// The output directory can't be written.
    #[error("{}: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: std::io::Error,
    },
    /// The recipe can't be applied to the scan's frames.
    #[error("entry {entry}, detector {detector}: {why}")]
    Unsuitable {
        /// The scan's entry.
        entry: String,
        /// The scan's detector.
        detector: String,
        /// The problem: a setting of the recipe, and the property of the scan that does not suit
        /// it.
        why: String,
        /// True if a file of the recipe can't be read, and may be readable later.
        retryable: bool,
    },
    /// Two scans of this run have the same final file.
    #[error(
        "entry {entry}: the final file {} is that of {}, too; give the two scans different --out",
        path.display(), other.display()
    )]
    SameFinal {
        /// The scan's entry.
        entry: String,
        /// The final file, below the output directory.
        path: RawPath,
        /// The master file of the other scan.
        other: RawPath,
    },
    /// The final file was planned with another recipe.
    #[error(
        "entry {entry}: {} was planned with other settings ({}); pass --replace to have it with these, or \
         --recipe-name to keep both",
        path.display(), differences.join("; ")
    )]
    OtherSettings {
        /// The scan's entry.
        entry: String,
        /// The final file.
        path: PathBuf,
        /// The settings that differ, by name.
        differences: Vec<String>,
    },
    /// The final file exists and was made from another scan.
    #[error(
        "entry {entry}: {} was made from {}, which is another scan; give the two scans different --out, or name a \
         directory above both to scan-find",
        path.display(), other.display()
    )]
    OtherScan {
        /// The scan's entry.
        entry: String,
        /// The final file.
        path: PathBuf,
        /// The master file of the other scan.
        other: RawPath,
    },
    /// The name of the final file leaves no room for those that lie beside it.
    #[error(
        "entry {entry}: the final file {} has a name of {} bytes; expected at most {most}: choose a shorter --recipe-name or a \
         shorter name of the master",
        path.display(), path.file_name().map_or(0, |name| name.len())
    )]
    LongName {
        /// The scan's entry.
        entry: String,
        /// The final file, below the output directory.
        path: RawPath,
        /// Largest number of bytes.
        most: usize,
    },
    /// Something else, which azpipe did not write, has the path of the final file.
    #[error(
        "entry {entry}: {} exists, and is not a file of azpipe; move or remove it, or choose another name with --recipe-name \
         or --out",
        path.display()
    )]
    NotOwned {
        /// The scan's entry.
        entry: String,
        /// The final file.
        path: PathBuf,
    },
    /// It is not known whether the final file exists.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The final file.
        path: PathBuf,
        /// The error of the system.
        why: std::io::Error,
    },
    /// A path in the record leads out of the output directory.
    #[error("field `below` is {}: expected a relative path without `..`", path.display())]
    EscapesOutput {
        /// The value of `below`.
        path: RawPath,
    },
    /// The scan has no frames.
    #[error("entry {entry}, detector {detector}: no frames to integrate")]
    NoFrames {
        /// The scan's entry.
        entry: String,
        /// The scan's detector.
        detector: String,
    },
}

impl PlanError {
    /// Returns whether another attempt may succeed, because the system failed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unsuitable { retryable, .. } => *retryable,
            Self::File(why) => why.is_retryable(),
            Self::Recipe(recipe::RecipeError::Io { .. })
            | Self::Write { .. }
            | Self::Unreadable { .. } => true,
            _ => false,
        }
    }
}

impl From<PlanError> for Stop {
    /// Makes the error end the filter. The message begins with the file or setting that is wrong.
    fn from(error: PlanError) -> Self {
        let message = error.to_string();
        match message.split_once(": ") {
            Some((what, why)) => Self::fatal(what, why),
            None => Self::fatal("recipe", message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_ends_the_filter_begins_with_its_subject() {
        let subject = |error: PlanError| match Stop::from(error) {
            Stop::Fatal { what, why } => (what, why),
            other => unreachable!("{other}"),
        };
        let poni = PlanError::Geometry { poni: "lab6.poni".into(), why: "not a PONI file".into() };
        assert_eq!(subject(poni), ("lab6.poni".to_owned(), "not a PONI file".to_owned()));
    }
}
