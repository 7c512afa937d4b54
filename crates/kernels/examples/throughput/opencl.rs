//! The same on OpenCL devices: engines share a device, each a thread with two queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kernels::Stored;
use kernels::opencl::{Device, Queues, Settings, Stages, devices};

use crate::{Case, DISTINCT};

/// Engines a device.
const ENGINES: [usize; 5] = [1, 2, 4, 8, 16];

/// How long a rate is taken.
const TIME: Duration = Duration::from_secs(3);

/// A table for each device: frames a second by engines, and the stages of a frame as the device's events tell.
pub fn run<'a>(cases: impl Iterator<Item = &'a Case> + Clone, batch: usize) {
    let all = match devices() {
        Ok(all) => all,
        Err(why) => return println!("OpenCL: {why}"),
    };
    for description in all.iter().filter(|device| device.unusable.is_none()) {
        println!(
            "{} ({}), driver {}, {batch} frames a batch",
            description.label(),
            description.kind,
            description.driver
        );
        println!(
            "{:<24} {:>6} {:>6} {:>7} {:>9} {:>9} {:>12} {:>9}",
            "case", "ratio", "sent", "engines", "frames/s", "write ms", "integrate ms", "reduce ms"
        );
        for case in cases.clone() {
            let settings = Settings { profile: true, ..Settings::default() };
            match Device::open(description, settings) {
                Ok(device) => of_case(case, &Arc::new(device), batch),
                Err(why) => println!("{:<24} {why}", case.name),
            }
        }
    }
}

fn of_case(case: &Case, device: &Arc<Device>, batch: usize) {
    let (plan, pipeline, invalid, chunks) = (case.plan("sum"), case.pipeline(), case.invalid(), case.chunks());
    let stored: Vec<Stored<'_>> = chunks.iter().map(|bytes| Stored { bytes, filter_mask: 0 }).collect();
    let frames: Vec<Stored<'_>> = stored.iter().copied().cycle().take(batch).collect();
    let stored_bytes: usize = chunks.iter().map(Vec::len).sum();
    let ratio = (DISTINCT * plan.pixels() * pipeline.dtype().size()) as f64 / stored_bytes as f64;
    for engines in ENGINES {
        let work = |queues: &mut Queues| match queues.integrate(&pipeline, &plan, &invalid, &frames) {
            Ok(sums) => sums.len(),
            Err(why) => panic!("{}: {why}", case.name),
        };
        let mut all: Vec<Queues> = (0..engines).map(|_| Queues::new(device.clone(), 2).expect("queues")).collect();
        // Compilation, and the matrix's way to the device, are not counted.
        for queues in &mut all {
            work(queues);
        }
        let (before, sent): (Stages, u64) = (device.stages(), all.iter().map(Queues::sent_bytes).sum());
        let began = Instant::now();
        let done: usize = std::thread::scope(|scope| {
            let one = |queues: &mut Queues| {
                let mut done = 0;
                while began.elapsed() < TIME {
                    done += work(queues);
                }
                done
            };
            let threads: Vec<_> = all.iter_mut().map(|queues| scope.spawn(move || one(queues))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        let rate = done as f64 / began.elapsed().as_secs_f64();
        let after = device.stages();
        let sent = (all.iter().map(Queues::sent_bytes).sum::<u64>() - sent) as f64;
        let a_frame = |after: f64, before: f64| (after - before) * 1e3 / done as f64;
        println!(
            "{:<24} {ratio:>6.1} {:>6.3} {engines:>7} {rate:>9.1} {:>9.3} {:>12.3} {:>9.3}",
            case.name,
            sent / (stored_bytes as f64 / DISTINCT as f64 * done as f64),
            a_frame(after.write, before.write),
            a_frame(after.integrate, before.integrate),
            a_frame(after.reduce, before.reduce),
        );
    }
}
