//! One task, from what is done already to its result record.

use std::ffi::OsString;
use std::time::Instant;

use integrator::Integrator;
use manners::{Filter, Stop};
use patterns::part::{self, PartHead, PartWriter};
use patterns::{Axes, Axis, Shared, Weights, coverage};
use recipe::Recipe;
use records::{Absent, Fail, RawPath, Seconds, Spans, Task, TaskResult};

use crate::args::Args;
use crate::crew::Crew;
use crate::engine::{Method, Methods};
use crate::monitor::Monitor;
use crate::sources::Sources;
use crate::tally::{Tally, told};
use crate::work::Windows;

/// What the tasks of a run share.
pub struct Runner<'a> {
    filter: &'a Filter,
    args: &'a Args,
    threads: usize,
    methods: Methods,
    host: String,
}

/// How far a task got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether frames were integrated.
    pub some: bool,
    /// Whether the filter was asked to drain before the end.
    pub cut_short: bool,
}

/// Why a task can't be done.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// In one line.
    pub why: String,
    /// Whether trying again can help.
    pub retryable: bool,
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
    pub fn run(&self, mut task: Task) -> Result<Progress, Stop> {
        let began = Instant::now();
        if let Some(out) = &self.args.out {
            task.out = std::path::absolute(out).map_err(|why| Stop::fatal(out.display(), why))?.into();
        }
        let method = match self.methods.of(&task) {
            Ok(method) => method,
            Err(refusal) => return self.refuse(task, refusal),
        };
        let mut missing = task.acquisition.absent_in(&task.range);
        let there = missing.iter().fold(task.range.clone(), |there, absent| there.minus(&absent.range));
        let covered = self.covered(&task, &there);
        let todo = there.minus(&covered);
        let windows = Windows::new(&task.acquisition, &todo, self.args.batch_frames.into());
        self.filter.progress().expect(windows.frames() as u64, "frames");
        let (tally, digest) = match windows.count() {
            0 => (Tally::default(), None),
            _ => match prepare(&method, &task) {
                Ok((integrator, monitor)) => self.integrate(&task, &method.recipe, integrator, &monitor, &windows)?,
                Err(refusal) => return self.refuse(task, refusal),
            },
        };
        tally.tell(self.filter, &task)?;
        if self.args.strict && !missing.is_empty() {
            self.filter.mark_failed();
        }
        missing.extend(tally.missing());
        missing.extend(self.orphans(&task, windows.orphans(&todo))?);
        let progress = Progress { some: !tally.done.is_empty(), cut_short: tally.rows() < windows.frames() };
        let done: Spans = tally.done.iter().copied().collect();
        let done = covered.as_slice().iter().chain(done.as_slice()).copied().collect::<Spans>().sorted();
        let result = TaskResult {
            task,
            done,
            missing,
            skipped: windows.count() == 0,
            part_digest: digest,
            read_bytes: tally.read_bytes,
            seconds: Seconds { wall: began.elapsed().as_secs_f64(), ..tally.seconds },
            device: "cpu".to_owned(),
            engine: "cpu".to_owned(),
            host: self.host.clone(),
        };
        self.filter.emit(&result.into())?;
        Ok(progress)
    }

    /// The task can't be done.
    fn refuse(&self, task: Task, refusal: Refusal) -> Result<Progress, Stop> {
        let about = task.acquisition.file.display().to_string();
        let Refusal { why: error, retryable } = refusal;
        self.filter.fail(Fail { id: task.id, about, error, retryable, ..Fail::default() })?;
        Ok(Progress::default())
    }

    /// Frames that no source of the task holds, though none of them is known to be absent.
    fn orphans(&self, task: &Task, orphans: Spans) -> Result<Option<Absent>, Stop> {
        if orphans.is_empty() {
            return Ok(None);
        }
        let error = format!("frames {}: no source of the task holds them", told(&orphans));
        let about = task.acquisition.file.display().to_string();
        self.filter.fail(Fail { id: task.id.clone(), about, error, ..Fail::default() })?;
        Ok(Some(Absent { range: orphans, reason: "no source".to_owned() }))
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
        let cannot_write = |why: part::Error| Stop::fatal("part", why);
        let frames = windows.places().iter().map(|place| place.frame).collect();
        let path = Task::part_path(&task.scan, &task.recipe_digest, &frames);
        let head = PartHead { task: task.clone(), recipe: recipe.clone() };
        let mut part = PartWriter::create(&task.out, &path, &head, &shared(integrator)).map_err(cannot_write)?;
        let sources = Sources::new(&task.acquisition, integrator, windows);
        let (threads, batch) = (self.threads, self.args.batch_frames.into());
        let crew = Crew { filter: self.filter, threads, batch, integrator, sources: &sources, monitor, windows };
        let mut tally = Tally::default();
        crew.work(|window| {
            let began = Instant::now();
            window.warnings.iter().for_each(|warning| self.filter.warn(warning));
            window.rows.iter().try_for_each(|row| part.append(row)).map_err(cannot_write)?;
            self.filter.progress().advance(window.rows.len() as u64);
            tally.add(window);
            tally.seconds.write += began.elapsed().as_secs_f64();
            Ok(())
        })?;
        if tally.rows() == 0 {
            return Ok((tally, None));
        }
        let began = Instant::now();
        if let Some(name) = own_name(task, windows, &tally) {
            part.rename(&name).map_err(cannot_write)?;
        }
        let digest = part.finish().map_err(cannot_write)?;
        tally.seconds.write += began.elapsed().as_secs_f64();
        Ok((tally, Some(digest)))
    }
}

/// The name of a part that lacks frames that were to be in it: that of those that it has, lest it
/// replaces a better one of another run.
fn own_name(task: &Task, windows: &Windows, tally: &Tally) -> Option<OsString> {
    if tally.done.len() == windows.frames() {
        return None;
    }
    let name = |frames: &Spans| {
        let path: RawPath = Task::part_path(&task.scan, &task.recipe_digest, frames);
        path.file_name().map_or(OsString::new(), OsString::from)
    };
    if tally.done.is_empty() {
        let mut lost = OsString::from("lost-");
        lost.push(name(&tally.lost()));
        return Some(lost);
    }
    Some(name(&tally.done.iter().copied().collect()))
}

fn prepare<'m>(method: &'m Method, task: &Task) -> Result<(&'m Integrator, Monitor), Refusal> {
    let monitor = Monitor::read(task, &method.recipe.monitor)?;
    Ok((method.integrator()?, monitor))
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
