//! Shows the progress of a filter: as a line on a terminal, a line a minute in a log, or an object
//! a second for programs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::ProgressMode;
use crate::console::Console;
use crate::progress_counts::{CountedFrames, Counts, FrameCounts, RunEnd, Work};

/// Counts a filter's frames from any thread. A thread of its own shows the counts, so that they are
/// seen to stand still, too.
pub struct Progress {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    filter: &'static str,
    display: Display,
    console: Arc<Console>,
    counts: Mutex<Counts>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The state of the thread: whether it goes on, and whether it shows anything.
#[derive(Default)]
struct State {
    has_ended: bool,
    /// True while another filter of the pipe shows its progress.
    is_paused: bool,
    /// The frames that had been processed when the last pause ended.
    worked_in_pause: u64,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Display {
    Bar,
    Log,
    Json,
    Hidden,
}

impl Display {
    fn new(mode: ProgressMode, quiet: bool, console: &Console) -> Self {
        match mode {
            ProgressMode::Auto if quiet => Self::Hidden,
            ProgressMode::Auto if !console.can_erase_lines() => Self::Log,
            // Records would mix with the line.
            ProgressMode::Auto if console.shares_terminal_with_stdout() => Self::Hidden,
            ProgressMode::Auto | ProgressMode::Bar => Self::Bar,
            ProgressMode::Log => Self::Log,
            ProgressMode::Json => Self::Json,
            ProgressMode::None => Self::Hidden,
        }
    }

    /// Returns the pause between two updates.
    fn interval(self) -> Duration {
        match self {
            Self::Bar => Duration::from_millis(100),
            Self::Json => Duration::from_secs(1),
            Self::Log | Self::Hidden => Duration::from_secs(60),
        }
    }
}

impl Progress {
    pub(crate) fn new(
        filter: &'static str,
        mode: ProgressMode,
        quiet: bool,
        console: Arc<Console>,
    ) -> Self {
        let display = Display::new(mode, quiet, &console);
        let (counts, state) = (Mutex::default(), Mutex::default());
        let shared = Shared { filter, display, console, counts, state, changed: Condvar::new() };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Adds frames to the total, and shows the progress from now on.
    pub fn add_total(&self, frames: u64) {
        let mut counts = self.shared.lock_counts();
        counts.total += frames;
        if counts.began.is_none() {
            counts.began = Some(Instant::now());
            self.start();
        }
    }

    /// Sets whether there may be more frames than the total.
    pub fn set_total_may_grow(&self, may_grow: bool) {
        self.shared.lock_counts().total_may_grow = may_grow;
    }

    /// Sets the name of the scan that is being processed.
    pub fn set_scan(&self, name: String) {
        self.shared.lock_counts().scan = name;
    }

    /// Counts frames that an earlier run has done.
    pub fn add_found(&self, frames: u64) {
        let mut counts = self.shared.lock_counts();
        counts.found += frames;
        counts.frames.done += frames;
    }

    /// Counts frames that have just been processed.
    pub fn add_work(&self, work: Work) {
        let mut counts = self.shared.lock_counts();
        counts.frames.done += work.frames.saturating_sub(work.failed);
        counts.frames.failed += work.failed;
        counts.worked += work.frames;
        counts.bytes += work.bytes;
    }

    /// Replaces counts that turned out to be wrong. The rate stays: the work was done.
    pub fn correct(&self, wrong: FrameCounts, right: FrameCounts) {
        let mut counts = self.shared.lock_counts();
        let frames = &mut counts.frames;
        for (count, wrong, right) in [
            (&mut frames.done, wrong.done, right.done),
            (&mut frames.failed, wrong.failed, right.failed),
            (&mut frames.never_taken, wrong.never_taken, right.never_taken),
        ] {
            *count = (*count + right).saturating_sub(wrong);
        }
    }

    /// Takes frames out of the counts and the total because later work counts them again.
    pub fn count_again(&self, counted: CountedFrames) {
        let CountedFrames { frames, found, kept } = counted;
        self.correct(frames, FrameCounts::default());
        let FrameCounts { done, failed, never_taken } = frames;
        let mut counts = self.shared.lock_counts();
        counts.total = counts.total.saturating_sub(done + failed + never_taken);
        counts.kept = counts.kept.saturating_sub(kept);
        counts.found = counts.found.saturating_sub(found);
    }

    /// Counts frames whose result outlasts the run from now on.
    pub fn keep(&self, frames: u64) {
        self.shared.lock_counts().kept += frames;
    }

    /// Shows for the last time how far the run has come, in a line that sums it up, or for programs
    /// as [`end_for_programs`](Self::end_for_programs) does.
    pub fn sum_up(&self, end: RunEnd<'_>) {
        self.end_for_programs(end);
        let shared = &self.shared;
        if matches!(shared.display, Display::Bar | Display::Log)
            && let Some(line) = shared.lock_counts().format_end(Instant::now(), end)
        {
            shared.console.write_message(&format!("{}: {line}", shared.filter));
        }
    }

    /// Ends the display. Programs get a last object, and people nothing.
    pub fn end_for_programs(&self, end: RunEnd<'_>) {
        self.stop();
        let shared = &self.shared;
        if shared.display == Display::Json {
            let object = shared.lock_counts().format_json(shared.filter, Instant::now(), Some(end));
            shared.console.write_message(&object);
        }
    }

    /// Pauses the display while another filter shows its progress, or resumes it.
    pub(crate) fn pause(&self, is_paused: bool) {
        let worked = self.shared.lock_counts().worked;
        {
            let mut state = self.shared.lock_state();
            if is_paused || state.is_paused {
                state.worked_in_pause = worked;
            }
            state.is_paused = is_paused;
        }
        let console = &self.shared.console;
        console.yield_line_to_other(is_paused && console.can_erase_lines());
    }

    /// Ends the display, and erases the line from a terminal.
    pub(crate) fn stop(&self) {
        self.shared.lock_state().has_ended = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the thread has been reported, and costs nothing but the display.
            let _ = thread.join();
        }
        self.shared.console.clear_progress();
    }

    fn start(&self) {
        if self.shared.display == Display::Hidden {
            return;
        }
        let shared = self.shared.clone();
        match Builder::new().name("progress".to_owned()).spawn(move || shared.show_until_end()) {
            Ok(thread) => {
                *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread)
            }
            Err(why) => {
                let message = format!(
                    "{}: warning: starting a thread: {why}: no progress is shown",
                    self.shared.filter
                );
                self.shared.console.write_message(&message);
            }
        }
    }
}

impl Shared {
    fn show_until_end(&self) {
        let interval = self.display.interval();
        let mut next = Instant::now() + interval;
        loop {
            let has_ended = self.wait();
            let now = Instant::now();
            let is_due = now >= next;
            if is_due {
                next = now + interval;
            }
            self.update(now, is_due, has_ended);
            if has_ended {
                return;
            }
        }
    }

    /// Waits for the next sample, and returns whether the display has ended.
    fn wait(&self) -> bool {
        let pause = self.display.interval().min(Duration::from_secs(1));
        let state = self.lock_state();
        let waited = self.changed.wait_timeout_while(state, pause, |state| !state.has_ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    fn update(&self, now: Instant, is_due: bool, has_ended: bool) {
        let (is_paused, worked_in_pause) = {
            let state = self.lock_state();
            (state.is_paused, state.worked_in_pause)
        };
        let mut counts = self.lock_counts();
        counts.sample(now);
        // At the end, the line is shown once more, so that a short run has been seen.
        let is_last = has_ended && counts.worked > worked_in_pause;
        let text = match self.display {
            _ if is_paused => None,
            Display::Bar if is_due || is_last => Some(counts.format_line(now)),
            Display::Log if is_due && !has_ended => {
                Some(format!("{}: {}", self.filter, counts.format_line(now)))
            }
            Display::Json if is_due && !has_ended => {
                Some(counts.format_json(self.filter, now, None))
            }
            _ => None,
        };
        // Whoever counts must not wait for a terminal that is stopped, or for a pipe that nobody
        // reads.
        drop(counts);
        match (self.display, text) {
            (_, None) => (),
            (Display::Bar, Some(line)) => self.console.show_progress(&line),
            (_, Some(message)) => self.console.write_message(&message),
        }
    }

    fn lock_counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
