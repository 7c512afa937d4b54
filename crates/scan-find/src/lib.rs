//! scan-find
