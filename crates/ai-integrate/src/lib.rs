//! ai-integrate
