//! The GPUs that a job requests. Sites differ in the option of sbatch that they accept.

use std::fmt;

/// The GPUs that a job requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GpuRequest {
    /// No GPU: the CPU engine is used.
    #[default]
    None,
    /// `--gres`, such as `gpu:1`, `gpu:a100:2` or `shard:4`.
    Gres(String),
    /// `--gpus`, such as `1` or `a100:2`.
    Gpus(String),
    /// `--gpus-per-task`, such as `1`.
    PerTask(String),
}

impl GpuRequest {
    /// Creates a request from the value of slurm-emit's `--gres`: `none`, `auto` (one GPU if the
    /// partition's name contains `gpu`), or a value for SLURM.
    pub fn from_gres(gres: &str, partition: Option<&str>) -> Self {
        match gres {
            "none" | "" => Self::None,
            "auto" if partition.is_some_and(|name| name.contains("gpu")) => {
                Self::Gres("gpu:1".to_owned())
            }
            "auto" => Self::None,
            gres => Self::Gres(gres.to_owned()),
        }
    }

    /// Returns the option of sbatch and its value, or `None` without a GPU.
    pub fn sbatch_option(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::None => None,
            Self::Gres(value) => Some(("--gres", value)),
            Self::Gpus(value) => Some(("--gpus", value)),
            Self::PerTask(value) => Some(("--gpus-per-task", value)),
        }
    }

    /// Returns the number of GPUs of a job. Shards of a GPU count as one GPU, because the job sees
    /// one device.
    pub fn count(&self) -> u64 {
        let request = match self {
            Self::None => return 0,
            Self::Gres(list) => {
                match list.split(',').find(|one| one.starts_with("gpu") || one.starts_with("shard"))
                {
                    Some(one) if one.starts_with("shard") => return 1,
                    Some(one) => one,
                    None => return 0,
                }
            }
            Self::Gpus(value) | Self::PerTask(value) => value,
        };
        // `gpu`, `gpu:2`, `gpu:a100:2`, `gpu:a100`, `2`, `a100:2`
        request.rsplit(':').next().and_then(|last| last.parse().ok()).unwrap_or(1)
    }
}

impl fmt::Display for GpuRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sbatch_option() {
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
            assert_eq!(GpuRequest::from_gres(gres, None).count(), expected, "{gres}");
        }
        assert_eq!(GpuRequest::PerTask("a100:2".to_owned()).count(), 2);
    }

    #[test]
    fn a_gpu_partition_gives_a_gpu() {
        assert_eq!(
            GpuRequest::from_gres("auto", Some("p9gpu")),
            GpuRequest::Gres("gpu:1".to_owned())
        );
        assert_eq!(GpuRequest::from_gres("auto", Some("nice")), GpuRequest::None);
        assert_eq!(GpuRequest::from_gres("none", Some("gpu")), GpuRequest::None);
    }
}
