//! One task, from what is done already to its result records, one a recipe.

use std::time::Instant;

use integrator::PixelType;
use integrator::opencl::DeviceError;
use manners::{Filter, Stop};
use patterns::part;
use records::{Absent, Acquisition, Fail, Spans, Task, TaskResult};

use crate::aboard::Berth;
use crate::args::Args;
use crate::crew::Crew;
use crate::engine::Methods;
use crate::job::Job;
use crate::memory;
use crate::offload::Offload;
use crate::pass::Pass;
use crate::sources::Sources;
use crate::tally::{Tally, told};
use crate::window::assembled_at_a_time;
use crate::work::Windows;

/// Files that are open ahead of need, in all engines: a process may have 1024.
const MOST_OPEN: usize = 256;

/// What the tasks of a run share.
pub struct Runner<'a> {
    filter: &'a Filter,
    args: &'a Args,
    offload: &'a Offload,
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

/// What a task's windows came to, and the digest of each recipe's part.
type Integrated = (Tally, Vec<Option<String>>);

impl<'a> Runner<'a> {
    /// A runner whose tasks take `threads` threads each.
    pub fn new(filter: &'a Filter, args: &'a Args, offload: &'a Offload, threads: usize) -> Self {
        let host =
            nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
        Self { filter, args, offload, threads, methods: Methods::default(), host }
    }

    /// Does a task, by the engine of this number, and emits its results, or what kept it from being done.
    ///
    /// # Errors
    /// A part can't be written; a signal; what [`Filter::emit`] says.
    pub fn run(&self, mut task: Task, engine: usize) -> Result<Progress, Stop> {
        let began = Instant::now();
        if let Some(out) = &self.args.out {
            task.out = std::path::absolute(out).map_err(|why| Stop::fatal(out.display(), why))?.into();
        }
        let is_of_several = !task.more.is_empty();
        let mut jobs = Vec::new();
        for task in task.by_recipe() {
            match Job::of(&task, &self.methods, self.args, self.filter) {
                Ok(job) => jobs.push(job),
                Err(refusal) => self.refuse(&task, refusal, is_of_several)?,
            }
        }
        let Some(first) = jobs.first() else { return Ok(Progress::default()) };
        let todo: Vec<Spans> = jobs.iter().map(|job| job.todo.clone()).collect();
        let windows = Windows::new(&first.task.acquisition, &todo, self.args.batch_frames.into());
        self.filter.progress().expect(windows.frames() as u64, "frames");
        let berth = self.berth(engine, &first.task, &windows);
        let (mut tally, digests) = match windows.count() {
            0 => (Tally::of(jobs.len()), vec![None; jobs.len()]),
            _ => match self.integrate(&jobs, &windows, berth.as_ref())? {
                Some(done) => done,
                None => self.integrate(&jobs, &windows, None)?.expect("the processor is trusted"),
            },
        };
        tally.tell(self.filter, &first.task)?;
        if self.args.strict && !first.absent.is_empty() {
            self.filter.mark_failed();
        }
        let device = berth.map_or_else(String::new, |berth| berth.label);
        let orphans = self.orphans(&first.task, windows.orphans(&todo))?;
        let progress = Progress { some: tally.has_done(), cut_short: tally.frames() < windows.frames() };
        tally.seconds.wall = began.elapsed().as_secs_f64();
        let mut shares = tally.shares(|recipe| windows.frames_of(recipe).next().is_some()).into_iter();
        for (recipe, (job, part_digest)) in jobs.into_iter().zip(digests).enumerate() {
            let (read_bytes, seconds) = shares.next().unwrap_or_default();
            let done: Spans = tally.done(recipe).iter().copied().collect();
            let done = job.covered.as_slice().iter().chain(done.as_slice()).copied().collect::<Spans>().sorted();
            let (engine, sent_bytes) = tally.engine(recipe);
            let skipped = windows.frames_of(recipe).next().is_none();
            let missing = job.absent.into_iter().chain(tally.missing(&job.todo)).chain(within(&orphans, &job.todo));
            let result = TaskResult {
                task: job.task,
                done,
                missing: missing.collect(),
                skipped,
                part_digest,
                read_bytes,
                seconds,
                sent_bytes,
                device: if engine == "cpu" { engine.to_owned() } else { device.clone() },
                engine: engine.to_owned(),
                way: if skipped { String::new() } else { tally.way() },
                host: self.host.clone(),
            };
            self.filter.emit(&result.into())?;
        }
        Ok(progress)
    }

    /// The task can't be done, or not by one of its recipes.
    fn refuse(&self, task: &Task, Refusal { why, retryable }: Refusal, is_of_several: bool) -> Result<(), Stop> {
        let about = task.acquisition.file.display().to_string();
        let error = if is_of_several { format!("for {}: {why}", task.final_file.display()) } else { why };
        self.filter.fail(Fail { id: task.id.clone(), about, error, retryable, ..Fail::default() })
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

    /// The engine's device, if it has one and there is something to do.
    fn berth(&self, engine: usize, task: &Task, windows: &Windows) -> Option<Berth> {
        let cache = self.args.kernels_for(&task.out);
        let (device, label) = self.offload.device(engine, cache, self.filter).filter(|_| windows.count() > 0)?;
        let frames = windows.places().iter().map(|place| place.frame);
        let verified = Berth::sample(frames, self.args.verify as usize);
        // With one thread, two launches overlap; with more, those of the threads do.
        Some(Berth { device, label, queues: if self.threads == 1 { 2 } else { 1 }, verified })
    }

    /// Integrates the windows on all threads, and writes their rows into a part a recipe as they come. What they came
    /// to, and the parts' digests; `None` where the device has turned out to be wrong, and nothing is kept.
    fn integrate(&self, jobs: &[Job], windows: &Windows, berth: Option<&Berth>) -> Result<Option<Integrated>, Stop> {
        let mut tally = Tally::of(jobs.len());
        let cannot_write = |why: part::Error| Stop::fatal("part", why);
        let mut parts = Vec::with_capacity(jobs.len());
        for (recipe, job) in jobs.iter().enumerate() {
            let frames: Spans = windows.frames_of(recipe).collect();
            let means = job.means.as_ref().filter(|_| !frames.is_empty());
            let part = means.map(|means| job.part(&means.integrator, &frames)).transpose().map_err(cannot_write)?;
            parts.push(part);
        }
        let scan = &jobs[0].task.acquisition;
        let passes = Pass::all(jobs, windows);
        let sources = Sources::new(scan, &passes[0].together, windows, MOST_OPEN / usize::from(self.args.engines));
        let (threads, batch) = (self.threads, self.args.batch_frames.into());
        for (_, why) in passes.iter().flat_map(|pass| pass.together.not_for_devices()).filter(|_| berth.is_some()) {
            self.offload.say(self.filter, "OpenCL", format_args!("not made for {why}"));
        }
        let crew = Crew { filter: self.filter, threads, batch, passes: &passes, berth, sources: &sources, windows };
        self.filter.note(1, || {
            let stored = jobs[0].task.bytes / jobs[0].task.range.count().max(1);
            let expected = memory::expected(jobs, &crew, stored, decoded_bytes(scan, batch)) >> 20;
            format!("task {}: memory expected: {expected} MiB with {threads} threads", jobs[0].task.id)
        });
        crew.work(|window| {
            let began = Instant::now();
            window.warnings.iter().for_each(|warning| self.filter.warn(warning));
            for (recipe, row) in &window.rows {
                let part = parts[*recipe].as_mut().expect("a recipe with frames to do has a part");
                part.append(row).map_err(cannot_write)?;
            }
            self.filter.progress().advance(window.frames as u64);
            tally.add(window);
            tally.seconds.write += began.elapsed().as_secs_f64();
            Ok(())
        })?;
        self.filter.note(1, || {
            let ahead = match tally.ahead_bytes.div_ceil(1 << 20) {
                0 => String::new(),
                mib => format!("; {mib} MiB read ahead"),
            };
            let peak =
                memory::peak().map_or(String::new(), |bytes| format!("; memory at the most: {} MiB", bytes >> 20));
            format!("task {}: {}{ahead}{peak}", jobs[0].task.id, tally.way())
        });
        if let Some((why, berth)) = tally.trouble.take().zip(berth) {
            self.offload.say(self.filter, &berth.label, &why);
            if matches!(why, DeviceError::Wrong(_)) {
                return Ok(None);
            }
        }
        let began = Instant::now();
        let finished = parts.into_iter().zip(jobs).enumerate().map(|(recipe, (part, job))| {
            let (done, lost) = (tally.done(recipe), tally.lost().and(&job.todo));
            let Some(mut part) = part.filter(|_| done.len() as u64 + lost.count() > 0) else { return Ok(None) };
            if done.len() < windows.frames_of(recipe).count() {
                part.rename(&job.part_name(&done.iter().copied().collect(), &lost)).map_err(cannot_write)?;
            }
            part.finish().map(Some).map_err(cannot_write)
        });
        let digests = finished.collect::<Result<_, _>>()?;
        tally.seconds.write += began.elapsed().as_secs_f64();
        Ok(Some((tally, digests)))
    }
}

/// Bytes of the frames that a thread has decoded whole: some side by side where they are put together from chunks, else one.
fn decoded_bytes(scan: &Acquisition, batch: usize) -> u64 {
    let [rows, columns] = scan.shape;
    let frame = rows * columns * scan.dtype.parse().map_or(8, |dtype: PixelType| dtype.size() as u64);
    let is_whole = scan.chunk.is_empty() || scan.chunk == [1, rows, columns];
    frame * if is_whole { 1 } else { assembled_at_a_time(frame as usize, batch) as u64 }
}

fn within(absent: &Option<Absent>, todo: &Spans) -> Option<Absent> {
    let Absent { range, reason } = absent.as_ref()?;
    Some(Absent { range: range.and(todo), reason: reason.clone() }).filter(|absent| !absent.range.is_empty())
}
