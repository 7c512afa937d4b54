//! One task, from what is done already to its result record.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use integrator::Integrator;
use manners::{Filter, Stop};
use patterns::part::{PartHead, PartWriter};
use patterns::{Axes, Axis, Row, Shared, Status, Weights, coverage};
use recipe::Recipe;
use records::{Absent, Fail, Seconds, Spans, Task, TaskResult};

use crate::args::Args;
use crate::engine::{Method, Methods};
use crate::monitor::Monitor;
use crate::sources::{Loss, Sources};
use crate::window::{Worker, Yield};
use crate::work::Windows;

/// What the tasks of a run share.
pub struct Runner<'a> {
    filter: &'a Filter,
    args: &'a Args,
    threads: usize,
    methods: Methods,
    host: String,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that could be done is done.
    Finished,
    /// The filter was asked to drain before the end; whether some frames were integrated.
    CutShort {
        /// Whether there is a part of them.
        some: bool,
    },
}

/// Losses of one kind in one source: the frames.
type Losses = BTreeMap<(usize, u8, String), Vec<u64>>;

/// What the windows came to.
#[derive(Default)]
struct Tally {
    done: Vec<u64>,
    losses: Losses,
    read_bytes: u64,
    seconds: Seconds,
}

impl<'a> Runner<'a> {
    /// A runner whose tasks take `threads` threads each.
    pub fn new(filter: &'a Filter, args: &'a Args, threads: usize) -> Self {
        let host =
            nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
        Self { filter, args, threads, methods: Methods::default(), host }
    }

    /// Does a task and emits its result, or what kept it from being done.
    ///
    /// # Errors
    /// The part can't be written; a signal; what [`Filter::emit`] says.
    pub fn run(&self, mut task: Task) -> Result<Outcome, Stop> {
        let began = Instant::now();
        if let Some(out) = &self.args.out {
            task.out = std::path::absolute(out).map_err(|why| Stop::fatal(out.display(), why))?.into();
        }
        let method = match self.methods.of(&task) {
            Ok(method) => method,
            Err(why) => return self.refuse(task, why),
        };
        let absent = task.acquisition.absent_in(&task.range);
        let there = absent.iter().fold(task.range.clone(), |there, absent| there.minus(&absent.range));
        let covered = self.covered(&task, &there);
        let todo = there.minus(&covered);
        let windows = Windows::new(&task.acquisition.sources, &todo, self.args.batch_frames.into());
        let orphans = windows.orphans(&todo);
        self.filter.progress().expect(windows.frames() as u64, "frames");
        let (tally, digest) = match windows.count() {
            0 => (Tally::default(), None),
            _ => match prepare(&method, &task) {
                Ok((integrator, monitor)) => self.integrate(&task, &method.recipe, integrator, &monitor, &windows)?,
                Err(why) => return self.refuse(task, why),
            },
        };
        let cut_short = tally.done.len() + lost(&tally.losses) < windows.frames();
        let outcome = match cut_short {
            true => Outcome::CutShort { some: !tally.done.is_empty() },
            false => Outcome::Finished,
        };
        self.tell(&task, &tally, &orphans)?;
        if self.args.strict && !absent.is_empty() {
            self.filter.mark_failed();
        }
        let missing = missing(&tally.losses, absent, orphans);
        let done: Spans = tally.done.iter().copied().collect();
        let done = covered.as_slice().iter().chain(done.as_slice()).copied().collect::<Spans>().sorted();
        let seconds = Seconds { wall: began.elapsed().as_secs_f64(), ..tally.seconds };
        let result = TaskResult {
            task,
            done,
            missing,
            skipped: digest.is_none(),
            part_digest: digest,
            read_bytes: tally.read_bytes,
            seconds,
            device: "cpu".to_owned(),
            engine: "cpu".to_owned(),
            host: self.host.clone(),
        };
        self.filter.emit(&result.into())?;
        Ok(outcome)
    }

    /// The task can't be done, whoever tries.
    fn refuse(&self, task: Task, error: String) -> Result<Outcome, Stop> {
        let about = task.acquisition.file.display().to_string();
        self.filter.fail(Fail { id: task.id, about, error, ..Fail::default() })?;
        Ok(Outcome::Finished)
    }

    /// Which of the frames earlier runs have integrated.
    fn covered(&self, task: &Task, todo: &Spans) -> Spans {
        if self.args.force {
            return Spans::default();
        }
        let found = coverage::find(&task.out, task);
        found.unusable.iter().for_each(|why| self.filter.warn(&why.to_string()));
        found.done().and(todo)
    }

    /// Integrates the windows on all threads, and writes their rows into a part as they come.
    fn integrate(
        &self,
        task: &Task,
        recipe: &Recipe,
        integrator: &Integrator,
        monitor: &Monitor,
        windows: &Windows,
    ) -> Result<(Tally, Option<String>), Stop> {
        let scan = &task.acquisition;
        let sources = Sources::new(&scan.sources, scan.shape, integrator, windows);
        let frames = (0..windows.count()).flat_map(|index| windows.window(index)).map(|place| place.frame);
        let path = Task::part_path(&task.scan, &task.recipe_digest, &frames.collect());
        let cannot_write = |why: patterns::part::Error| Stop::fatal("part", why);
        let head = PartHead { task: task.clone(), recipe: recipe.clone() };
        let mut part = PartWriter::create(&task.out, &path, &head, &shared(integrator)).map_err(cannot_write)?;
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut tally = Tally::default();
        let mut writing = 0.0;
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(2 * self.threads);
            for _ in 0..self.threads {
                let send = send.clone();
                let worker = Worker::new(integrator, &sources, monitor, self.args.batch_frames.into());
                scope.spawn(|| self.work(worker, windows, &next, &stop, send));
            }
            drop(send);
            let collected = self.collect(
                receive,
                |row| {
                    let began = Instant::now();
                    part.append(row).map_err(cannot_write)?;
                    writing += began.elapsed().as_secs_f64();
                    Ok(())
                },
                &mut tally,
            );
            stop.store(true, Relaxed);
            collected
        })?;
        if tally.done.is_empty() && tally.losses.is_empty() {
            return Ok((tally, None));
        }
        let began = Instant::now();
        let digest = part.finish().map_err(cannot_write)?;
        tally.seconds.write = writing + began.elapsed().as_secs_f64();
        Ok((tally, Some(digest)))
    }

    /// A thread: windows in turn, until there is none left or the filter drains.
    fn work(
        &self,
        mut worker: Worker<'_>,
        windows: &Windows,
        next: &AtomicUsize,
        stop: &AtomicBool,
        send: SyncSender<(usize, Yield)>,
    ) {
        while !stop.load(Relaxed) && !self.filter.draining() {
            let index = next.fetch_add(1, Relaxed);
            if index >= windows.count() || send.send((index, worker.window(windows.window(index)))).is_err() {
                break;
            }
        }
    }

    /// Takes the windows as they come, and hands on their rows in the order of the frames.
    fn collect(
        &self,
        receive: Receiver<(usize, Yield)>,
        mut append: impl FnMut(&Row) -> Result<(), Stop>,
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for (index, window) in receive {
            self.filter.check()?;
            window.warnings.iter().for_each(|warning| self.filter.warn(warning));
            waiting.insert(index, window);
            while let Some(window) = waiting.remove(&next) {
                window.rows.iter().try_for_each(&mut append)?;
                self.filter.progress().advance(window.rows.len() as u64);
                tally.add(window);
                next += 1;
            }
        }
        Ok(())
    }

    /// Each kind of loss in each source is one `fail` record.
    fn tell(&self, task: &Task, tally: &Tally, orphans: &Spans) -> Result<(), Stop> {
        for ((source, status, why), frames) in &tally.losses {
            let about = about(&task.acquisition.sources[*source]);
            let retryable = *status != Status::Corrupt as u8;
            let error = format!("frames {}: {why}", wire(&frames.iter().copied().collect()));
            self.filter.fail(Fail { id: task.id.clone(), about, error, retryable, ..Fail::default() })?;
        }
        if orphans.is_empty() {
            return Ok(());
        }
        let error = format!("frames {}: no source of the task holds them", wire(orphans));
        let about = task.acquisition.file.display().to_string();
        self.filter.fail(Fail { id: task.id.clone(), about, error, ..Fail::default() })
    }
}

impl Tally {
    fn add(&mut self, window: Yield) {
        self.read_bytes += window.read_bytes;
        self.seconds.read += window.read;
        self.seconds.integrate += window.integrate;
        self.done.extend(window.rows.iter().filter(|row| row.has_sums()).map(|row| row.frame));
        for (frame, source, Loss { status, why }) in window.losses {
            self.losses.entry((source, status as u8, why)).or_default().push(frame);
        }
    }
}

fn lost(losses: &Losses) -> usize {
    losses.values().map(Vec::len).sum()
}

fn prepare<'m>(method: &'m Method, task: &Task) -> Result<(&'m Integrator, Monitor), String> {
    let monitor = Monitor::read(task, method.recipe.monitor.as_deref())?;
    Ok((method.integrator()?, monitor))
}

/// What has no pattern, and why: known before, found now, or held by no source.
fn missing(losses: &Losses, mut absent: Vec<Absent>, orphans: Spans) -> Vec<Absent> {
    let mut by_status: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
    for ((_, status, _), frames) in losses {
        by_status.entry(*status).or_default().extend(frames);
    }
    for (status, frames) in by_status {
        let reason = Status::from_number(status).unwrap_or_default().reason().to_owned();
        absent.push(Absent { range: frames.into_iter().collect::<Spans>().sorted(), reason });
    }
    if !orphans.is_empty() {
        absent.push(Absent { range: orphans, reason: "no source".to_owned() });
    }
    absent
}

fn shared(integrator: &Integrator) -> Shared {
    let axis = |axis: &integrator::Axis| Axis {
        name: axis.name.to_owned(),
        units: axis.units.to_owned(),
        centers: axis.centers.clone(),
    };
    let plan = integrator.plan();
    let weights =
        Weights { norm: plan.norm().to_vec(), norm_sq: plan.norm_sq().to_vec(), count: plan.count().to_vec() };
    Shared { axes: Axes { radial: axis(integrator.radial()), chi: integrator.chi().map(axis) }, weights }
}

fn about(source: &records::Source) -> String {
    match source.dataset.as_str() {
        "" => source.file.display().to_string(),
        dataset => format!("{}::{dataset}", source.file.display()),
    }
}

fn wire(frames: &Spans) -> String {
    serde_json::to_string(&frames.sorted()).expect("numbers always serialize")
}
