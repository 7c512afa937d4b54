//! The GPUs that a job asks for: sites differ in the flag that they take.

use std::fmt;

/// What a job asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gpus {
    /// None: the CPU engine.
    #[default]
    None,
    /// `--gres`, such as `gpu:1`, `gpu:a100:2` or `shard:4`.
    Gres(String),
    /// `--gpus`.
    Whole(String),
    /// `--gpus-per-task`.
    PerTask(String),
}

impl Gpus {
    /// What `--gres` says: `none`, `auto` (one GPU where the partition's name has `gpu` in it), or
    /// what SLURM is to be told.
    pub fn from_gres(gres: &str, partition: Option<&str>) -> Self {
        match gres {
            "none" | "" => Self::None,
            "auto" if partition.is_some_and(|name| name.contains("gpu")) => Self::Gres("gpu:1".to_owned()),
            "auto" => Self::None,
            gres => Self::Gres(gres.to_owned()),
        }
    }

    /// The option of sbatch and its value.
    pub fn option(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::None => None,
            Self::Gres(value) => Some(("--gres", value)),
            Self::Whole(value) => Some(("--gpus", value)),
            Self::PerTask(value) => Some(("--gpus-per-task", value)),
        }
    }

    /// How many GPUs a job has; a shard of one counts as one, for its job sees one device.
    pub fn count(&self) -> u64 {
        let request = match self {
            Self::None => return 0,
            Self::Gres(list) => match list.split(',').find(|one| one.starts_with("gpu") || one.starts_with("shard")) {
                Some(one) if one.starts_with("shard") => return 1,
                Some(one) => one,
                None => return 0,
            },
            Self::Whole(value) | Self::PerTask(value) => value,
        };
        // `gpu`, `gpu:2`, `gpu:a100:2`, `gpu:a100`, `2`, `a100:2`
        request.rsplit(':').next().and_then(|last| last.parse().ok()).unwrap_or(1)
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.option() {
            Some((option, value)) => write!(f, "{option}={value}"),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_counted_in_every_spelling() {
        let counts = [
            ("gpu", 1),
            ("gpu:2", 2),
            ("gpu:a100:2", 2),
            ("gpu:a100", 1),
            ("tmp:5,gpu:3", 3),
            ("shard:4", 1),
            ("tmp:5", 0),
        ];
        for (gres, expected) in counts {
            assert_eq!(Gpus::from_gres(gres, None).count(), expected, "{gres}");
        }
        assert_eq!(Gpus::PerTask("a100:2".to_owned()).count(), 2);
    }

    #[test]
    fn a_gpu_partition_gives_a_gpu() {
        assert_eq!(Gpus::from_gres("auto", Some("p9gpu")), Gpus::Gres("gpu:1".to_owned()));
        assert_eq!(Gpus::from_gres("auto", Some("nice")), Gpus::None);
        assert_eq!(Gpus::from_gres("none", Some("gpu")), Gpus::None);
    }
}
