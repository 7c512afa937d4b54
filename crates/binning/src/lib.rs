//! binning
