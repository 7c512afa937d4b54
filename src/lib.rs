//! The package of the five filters; each lives in its own crate under `crates/`.
