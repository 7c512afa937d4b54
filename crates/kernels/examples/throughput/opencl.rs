//! Measures the throughput of OpenCL devices. Engines share a device; each is a thread with two
//! queues.
//!
//! The rates are compared with upper bounds: the rate of copying the chunks alone, of decoding
//! alone, and of moving what a frame needs through the device's memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kernels::opencl::{Device, DeviceQueues, DeviceSettings, StageTimes, all_devices};
use kernels::{EncodedFrame, IntegrationPlan, IntegrationSpec, TiledCsc, VarianceModel};

use crate::upper_bounds::Bounds;
use crate::{Case, DISTINCT, csr_matrix};

/// Numbers of engines per device.
const ENGINES: [usize; 5] = [1, 2, 4, 8, 16];

/// Duration of one measurement.
const TIME: Duration = Duration::from_secs(3);

/// Number of frames per launch when decoding is measured alone: the maximum of a launch.
const MANY: usize = 64;

/// Bytes of a matrix entry on a device: the position of a pixel and a weight.
const ENTRY: usize = 6;

/// Prints a table for each device: frames per second for each number of engines, the time of each
/// stage by the device's events, and the fraction of each upper bound.
pub fn run<'a>(cases: impl Iterator<Item = &'a Case> + Clone, batch: usize, method: &str) {
    let all = match all_devices() {
        Ok(all) => all,
        Err(why) => return println!("OpenCL: {why}"),
    };
    for description in all.iter().filter(|device| device.unusable.is_none()) {
        println!(
            "{} ({}), driver {}, {batch} frames a batch, {method}",
            description.label(),
            description.kind,
            description.driver
        );
        let bounds = match Bounds::measure(description) {
            Ok(bounds) => bounds,
            Err(why) => {
                println!("{why}");
                continue;
            }
        };
        let giga = 1e-9;
        println!(
            "copy to it: {:.1} GB/s from pinned memory; its memory: {:.1} GB/s",
            bounds.copy * giga,
            bounds.memory * giga
        );
        println!(
            "{:<24} {:>6} {:>6} {:>7} {:>9} {:>9} {:>12} {:>9} {:>7} {:>9} {:>9}",
            "case",
            "ratio",
            "sent",
            "engines",
            "frames/s",
            "write ms",
            "integrate ms",
            "reduce ms",
            "of copy",
            "of decode",
            "of memory"
        );
        for case in cases.clone() {
            let settings = DeviceSettings { profile: true, ..DeviceSettings::default() };
            match Device::open(description, settings) {
                Ok(device) => of_case(case, &Arc::new(device), batch, method, &bounds),
                Err(why) => println!("{:<24} {why}", case.name),
            }
        }
    }
}

fn of_case(case: &Case, device: &Arc<Device>, batch: usize, method: &str, bounds: &Bounds) {
    let (plan, pipeline, invalid, chunks) =
        (case.plan(method), case.pipeline(), case.invalid(), case.chunks());
    let csr = csr_matrix(method, &plan);
    let targets = [IntegrationSpec {
        plan: &plan,
        invalid: &invalid,
        csr: csr.as_ref(),
        collects_rejected: false,
    }];
    let stored: Vec<EncodedFrame<'_>> =
        chunks.iter().map(|bytes| EncodedFrame { bytes, filter_mask: 0 }).collect();
    let frames: Vec<EncodedFrame<'_>> = stored.iter().copied().cycle().take(batch).collect();
    let stored_bytes: usize = chunks.iter().map(Vec::len).sum();
    let ratio = (DISTINCT * plan.pixels() * pipeline.dtype().size()) as f64 / stored_bytes as f64;
    let chunk = stored_bytes as f64 / DISTINCT as f64;
    let matrix = (case.entries(true).1.len() * ENTRY) as f64;
    // A chunk is written and read once. The matrix is read for each frame.
    let most =
        [bounds.copy / chunk, decode(case, device, &stored), bounds.memory / (2. * chunk + matrix)];
    for (what, rate) in ["copy", "decode", "memory"].into_iter().zip(most) {
        println!("{:<24} {ratio:>6.1} {:>14} {rate:>9.1}", case.name, what);
    }
    for engines in ENGINES {
        let work = |queues: &mut DeviceQueues| match queues
            .integrate_batch_by_plans(&pipeline, &targets, &frames)
        {
            Ok(sums) => sums.len(),
            Err(why) => panic!("{}: {why}", case.name),
        };
        let mut all: Vec<DeviceQueues> =
            (0..engines).map(|_| DeviceQueues::new(device.clone(), 2).expect("queues")).collect();
        // Compiling kernels and copying the matrix are not measured.
        for queues in &mut all {
            work(queues);
        }
        let (before, sent): (StageTimes, u64) =
            (device.stage_times(), all.iter().map(DeviceQueues::sent_bytes).sum());
        let began = Instant::now();
        let done: usize = std::thread::scope(|scope| {
            let one = |queues: &mut DeviceQueues| {
                let mut done = 0;
                while began.elapsed() < TIME {
                    done += work(queues);
                }
                done
            };
            let threads: Vec<_> =
                all.iter_mut().map(|queues| scope.spawn(move || one(queues))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        let rate = done as f64 / began.elapsed().as_secs_f64();
        let after = device.stage_times();
        let sent = (all.iter().map(DeviceQueues::sent_bytes).sum::<u64>() - sent) as f64;
        let a_frame = |after: f64, before: f64| (after - before) * 1e3 / done as f64;
        println!(
            "{:<24} {ratio:>6.1} {:>6.3} {engines:>7} {rate:>9.1} {:>9.3} {:>12.3} {:>9.3} {:>6.1}% {:>8.1}% {:>8.1}%",
            case.name,
            sent / (chunk * done as f64),
            a_frame(after.write, before.write),
            a_frame(after.integrate, before.integrate),
            a_frame(after.reduce, before.reduce),
            100. * rate / most[0],
            100. * rate / most[1],
            100. * rate / most[2],
        );
    }
}

/// Measures the frames per second that the device decodes, unshuffles and searches for invalid
/// pixels: the time of the kernel with a matrix without entries.
fn decode(case: &Case, device: &Arc<Device>, stored: &[EncodedFrame<'_>]) -> f64 {
    let pixels = case.shape[0] * case.shape[1];
    let matrix = TiledCsc::new(&vec![0; pixels + 1], &[], &[], 1).expect("a good matrix");
    let plan = IntegrationPlan::new(matrix, vec![1.; pixels], VarianceModel::POISSON, None)
        .expect("one norm a pixel");
    let frames: Vec<EncodedFrame<'_>> = stored.iter().copied().cycle().take(MANY).collect();
    let mut queues = DeviceQueues::new(device.clone(), 1).expect("a queue");
    let mut work = || {
        let before = device.stage_times().integrate;
        let sums = queues
            .integrate(&case.pipeline(), &plan, &case.invalid(), &frames)
            .expect("a device that works");
        sums.len() as f64 / (device.stage_times().integrate - before)
    };
    // The first run is not measured.
    work();
    (0..3).map(|_| work()).fold(0., f64::max)
}
