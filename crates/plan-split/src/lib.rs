//! plan-split
