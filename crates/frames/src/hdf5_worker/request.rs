//! The trait of a request that a filter sends to its worker.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::FilterConnection;
use super::error::WorkerFailure;

/// A request from a filter to its worker, and the function that answers it there.
pub(crate) trait WorkerRequest: Serialize + DeserializeOwned {
    /// Name by which the worker recognizes the request.
    const NAME: &'static str;

    /// Type of the messages that the worker sends before its answer; `()` if there are none.
    type Message: Serialize + DeserializeOwned;

    /// Type of the JSON that ends the request.
    type Answer: Serialize + DeserializeOwned;

    /// Answers the request in the worker process, where the HDF5 library may crash or hang. The
    /// bytes follow the answer on the pipe, for lists of numbers, which would be slow as JSON.
    ///
    /// # Errors
    /// The file, or a dataset of it, can't be read.
    fn answer(
        self,
        filter: &FilterConnection<'_>,
    ) -> Result<(Self::Answer, Vec<u8>), WorkerFailure>;
}
