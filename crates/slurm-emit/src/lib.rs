//! slurm-emit
