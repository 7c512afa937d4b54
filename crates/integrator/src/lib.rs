//! integrator
