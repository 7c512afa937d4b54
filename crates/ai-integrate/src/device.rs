//! OpenCL devices: their selection, and the queues through which worker threads share them.

pub mod pool;
pub mod probe;
pub mod queue_pool;
pub mod select;
pub mod worker;
