//! Why there is no directory of scripts.

use std::path::PathBuf;

/// Why there is no directory of scripts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value can't be written in a script.
    #[error(transparent)]
    Quote(#[from] filter::quote::QuoteError),
    /// A file or directory can't be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// The directory's jobs are those of another plan.
    #[error("{}: its jobs were submitted with another plan or cut: take another --dir, or remove this one", path.display())]
    OtherPlan {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is somebody else's.
    #[error("{}: holds `{name}`, which slurm-emit did not write: take a new or empty --dir, or one that slurm-emit wrote", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// A file in it.
        name: String,
    },
    /// Something is in the way in a directory of slurm-emit's.
    #[error("{}: slurm-emit did not write this: move it away, or take another --dir", path.display())]
    Theirs {
        /// What it is.
        path: PathBuf,
    },
    /// An id can't be the name of a file.
    #[error("id `{id}`: a makefile takes letters, digits, - and _")]
    Id {
        /// The id of a task or scan.
        id: String,
    },
    /// The memory can't be estimated.
    #[error("--mem auto: {why}")]
    Recipe {
        /// What is wrong with the recipe.
        why: recipe::RecipeError,
    },
    /// Jobs can't be counted by memory.
    #[error("--scale memory=M: expected --mem, the memory of one job, with it")]
    Scale,
    /// A file of settings says what no flag does.
    #[error("{}: {why}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        why: String,
    },
    /// A setting of a file has a value that its flag does not take.
    #[error("{why}, from --profile or --integrator-ini")]
    Setting {
        /// What clap says of the flag.
        why: String,
    },
    /// The results that the rate was to be taken from do not tell it.
    #[error("{}: no result record of work that was done: expected those of ai-integrate", path.display())]
    NoRate {
        /// The file.
        path: PathBuf,
    },
    /// The signal would come before there is anything to stop.
    #[error("--drain-seconds {drain}: expected less than the walltime of {walltime}")]
    Drain {
        /// Seconds before the walltime.
        drain: u64,
        /// The walltime.
        walltime: crate::walltime::Walltime,
    },
}

impl Error {
    /// What turns an error of the system into one of `path`.
    pub fn at(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |why| Self::File { path, why }
    }
}
