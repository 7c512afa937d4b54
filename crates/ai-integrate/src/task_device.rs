//! The OpenCL device of a task.

use filter::Filter;

use crate::args::Args;
use crate::batches::Batches;
use crate::device::pool::DevicePool;
use crate::device::worker::SharedDevice;
use crate::recipe_group::RecipeGroup;
use crate::recipe_task::RecipeTask;

/// The settings by which the device of a task is chosen.
pub struct TaskDevice<'a> {
    /// The devices of the run.
    pub pool: &'a DevicePool,
    /// The running filter.
    pub filter: &'a Filter,
    /// The command line.
    pub args: &'a Args,
    /// The number of worker threads.
    pub threads: usize,
}

impl TaskDevice<'_> {
    /// Returns the engine's device, if it has one, and if there are frames to integrate by matrices
    /// that the whole task has.
    pub fn open(
        &self,
        engine_number: usize,
        recipe_tasks: &[RecipeTask],
        batches: &Batches,
    ) -> Option<SharedDevice> {
        if recipe_tasks.iter().any(RecipeTask::has_moving_geometry) {
            if self.pool.device_count() > 0 {
                let why = "a geometry that differs between frames has a matrix for each position";
                self.pool.warn_once(self.filter, "OpenCL", why);
            }
            return None;
        }
        let cache = self.args.kernel_cache_dir(&recipe_tasks.first()?.task.out);
        let (queues, label) = self
            .pool
            .device(engine_number, self.threads, cache, self.filter)
            .filter(|_| batches.len() > 0)?;
        queues.begin_task();
        let frames = batches.locations().iter().map(|location| location.frame);
        let verified = SharedDevice::sample_frames(frames, self.args.verify as usize);
        Some(SharedDevice { queues, label, verified_frames: verified })
    }
}

/// Warns of recipes that the device has no kernels for.
pub fn warn_of_missing_kernels(
    groups: &[RecipeGroup<'_>],
    shared_device: Option<&SharedDevice>,
    pool: &DevicePool,
    filter: &Filter,
) {
    let Some(shared_device) = shared_device else { return };
    let device = shared_device.device();
    for (_, why) in groups.iter().flat_map(|group| group.integrators.unsupported_on_device(device))
    {
        pool.warn_once(filter, "OpenCL", format_args!("no kernels for {why}"));
    }
}
