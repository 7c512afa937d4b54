//! Runs the targets over mutated seeds, each in a process of its own, and says which input one did
//! not bear.
//!
//! Input `k` of a target depends on the run's seed and on `k` alone, so that a seed and a number
//! are enough to run it again:
//!
//! | variable | meaning |
//! |---|---|
//! | `AZPIPE_FUZZ_SECONDS` | seconds a target; 2 by default |
//! | `AZPIPE_FUZZ_SEED` | the run's seed; `AZPIPE_SEED` where it is not set, and else by the clock |
//! | `AZPIPE_FUZZ_INPUT` | the number of the only input to run |

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{Resource, setrlimit};

use crate::mutator::{Random, mutate};
use crate::{TARGETS, Target, find_target};

/// Tells a process of this program which target to run, from which input on, for how long, and the
/// file for its progress.
const CHILD_ENV: &str = "AZPIPE_FUZZ_CHILD";

const SECONDS_ENV: &str = "AZPIPE_FUZZ_SECONDS";
const SEED_ENV: &str = "AZPIPE_FUZZ_SEED";
const INPUT_ENV: &str = "AZPIPE_FUZZ_INPUT";

/// The longest that an input may take. The HDF5 library may hang on damaged files; filters kill it
/// then, and so does this.
const MAX_INPUT_TIME: Duration = Duration::from_secs(20);
const MAX_LIBRARY_TIME: Duration = Duration::from_secs(2);

/// Address space of a process that runs a target, in bytes.
const MAX_MEMORY_BYTES: u64 = 4 << 30;

/// Counts of inputs and findings of a target.
#[derive(Default)]
struct Outcome {
    inputs: u64,
    /// How often the HDF5 library crashed or hung.
    crashes: u64,
    hangs: u64,
    finding: Option<String>,
}

/// Options of the harness of Rust's tests that have a value, which may be the next argument.
const OPTIONS_WITH_VALUE: [&str; 7] =
    ["-Z", "--skip", "--test-threads", "--format", "--color", "--logfile", "--shuffle-seed"];

/// Chooses targets as the harness of Rust's tests does, whose arguments Cargo hands on to all tests:
/// those whose name contains one of the arguments, or all, without those that contain a value of
/// `--skip`.
fn choose_targets(arguments: impl Iterator<Item = String>) -> Vec<&'static Target> {
    let (mut named, mut skipped) = (Vec::new(), Vec::new());
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if let Some(value) = argument.strip_prefix("--skip=") {
            skipped.push(value.to_owned());
        } else if OPTIONS_WITH_VALUE.contains(&argument.as_str()) {
            let value = arguments.next();
            skipped.extend(value.filter(|_| argument == "--skip"));
        } else if !argument.starts_with('-') {
            named.push(argument);
        }
    }
    let has = |target: &Target, texts: &[String]| {
        texts.iter().any(|text| target.name.contains(text.as_str()))
    };
    let is_chosen =
        |target: &&Target| (named.is_empty() || has(target, &named)) && !has(target, &skipped);
    TARGETS.iter().filter(is_chosen).collect()
}

/// Runs the targets that the command line names, or all of them; inputs that one does not bear are
/// kept in `found`.
pub fn run_mutations(found: &Path) -> ExitCode {
    if let Ok(order) = std::env::var(CHILD_ENV) {
        run_child(&order);
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let chosen = choose_targets(std::env::args().skip(1));
    let seed = number_of(SEED_ENV).or_else(|| number_of("AZPIPE_SEED")).unwrap_or_else(|| {
        SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(1, |elapsed| elapsed.as_nanos() as u64 % 1_000_000_007)
    });
    let memory = Path::new("/dev/shm");
    let mut place = tempfile::Builder::new();
    place.prefix("azpipe-mutations");
    let place = if memory.is_dir() { place.tempdir_in(memory) } else { place.tempdir() }
        .expect("a directory for inputs");
    let queue = Mutex::new(chosen.into_iter());
    let outcomes = Mutex::new(Vec::new());
    let jobs = thread::available_parallelism().map_or(1, |count| count.get().min(8));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(target) = { queue.lock().expect("no thread panics").next() } {
                    let outcome = run_target(target, seed, place.path(), found);
                    let Outcome { inputs, crashes, hangs, finding } = &outcome;
                    let library = match target.may_crash {
                        true => {
                            format!(", the HDF5 library crashed on {crashes} and hung on {hangs}")
                        }
                        false => String::new(),
                    };
                    let end = finding.as_deref().unwrap_or("no finding");
                    println!(
                        "{:<12} {inputs:>10} inputs of seed {seed}{library}: {end}",
                        target.name
                    );
                    outcomes.lock().expect("no thread panics").push(outcome);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no thread panics");
    match outcomes.iter().any(|outcome| outcome.finding.is_some()) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: expected a number")))
}

/// Runs a target for its time, in as many processes as it takes.
fn run_target(target: &Target, seed: u64, place: &Path, found: &Path) -> Outcome {
    let only = number_of(INPUT_ENV);
    let end = Instant::now() + Duration::from_secs(number_of(SECONDS_ENV).unwrap_or(2));
    let longest = if target.may_crash { MAX_LIBRARY_TIME } else { MAX_INPUT_TIME };
    let (mut outcome, mut first) = (Outcome::default(), only.unwrap_or_default());
    loop {
        let mut child = MutationProcess::start(target, seed, first, only, end, place);
        let ended = child.wait(longest);
        let (number, said) = (child.input_number(), child.messages());
        outcome.inputs += number.saturating_sub(first);
        let panicked = said.contains("panicked at");
        let why = match ended {
            Some(status) if status.success() => return outcome,
            Some(status) if target.may_crash && status.signal().is_some() && !panicked => {
                outcome.crashes += 1;
                None
            }
            None if target.may_crash => {
                outcome.hangs += 1;
                None
            }
            Some(status) => Some(status.to_string()),
            None => Some(format!("no end in {} s", longest.as_secs())),
        };
        if let Some(why) = why {
            let input = input_of(target, seed, number, &read_seeds(target));
            let path = found.join(format!("{}-{seed}-{number}", target.name));
            fs::write(&path, input).expect("findings can be kept");
            outcome.finding = Some(format!(
                "{why} on input {number}, {}; again: {SEED_ENV}={seed} {INPUT_ENV}={number} cargo test -p azpipe-fuzz --test \
                 mutations -- {}\n{said}",
                path.display(),
                target.name
            ));
            return outcome;
        }
        if only.is_some() || Instant::now() >= end {
            return outcome;
        }
        first = number + 1;
    }
}

/// A process that runs inputs, one after the other.
struct MutationProcess {
    child: Child,
    /// The number of the input that it is at.
    progress: PathBuf,
    messages: PathBuf,
}

impl MutationProcess {
    fn start(
        target: &Target,
        seed: u64,
        first: u64,
        only: Option<u64>,
        end: Instant,
        place: &Path,
    ) -> Self {
        let directory = place.join(target.name);
        // What a process that was killed has left goes.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).expect("a directory");
        let (progress, messages) = (directory.join("progress"), directory.join("messages"));
        fs::write(&progress, first.to_le_bytes()).expect("a file");
        let milliseconds = if only.is_some() {
            0
        } else {
            end.saturating_duration_since(Instant::now()).as_millis()
        };
        let child = Command::new(std::env::current_exe().expect("the program has a path"))
            .env(
                CHILD_ENV,
                format!("{} {seed} {first} {milliseconds} {}", target.name, progress.display()),
            )
            .env("TMPDIR", &directory)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&messages).expect("a file"))
            .spawn()
            .expect("this program starts");
        Self { child, progress, messages }
    }

    fn input_number(&self) -> u64 {
        let bytes = fs::read(&self.progress).unwrap_or_default();
        bytes.first_chunk().copied().map_or(0, u64::from_le_bytes)
    }

    /// Returns what it wrote to stderr, but no more than a screen.
    fn messages(&self) -> String {
        let text =
            String::from_utf8_lossy(&fs::read(&self.messages).unwrap_or_default()).into_owned();
        text.chars().take(4000).collect()
    }

    /// Waits for its end; `None` where an input took longer than `longest`, so that it was killed.
    fn wait(&mut self, longest: Duration) -> Option<ExitStatus> {
        let (mut number, mut since) = (self.input_number(), Instant::now());
        loop {
            if let Some(status) = self.child.try_wait().expect("it is waited for here alone") {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(10));
            let now = self.input_number();
            if now != number {
                (number, since) = (now, Instant::now());
            } else if since.elapsed() > longest {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return None;
            }
        }
    }
}

/// Runs inputs until the time is over; without a time, one.
fn run_child(order: &str) {
    let mut words = order.splitn(5, ' ');
    let mut word = || words.next().expect("an order has five words");
    let target = find_target(word()).expect("the target is known");
    let mut number = || word().parse::<u64>().expect("a number");
    let (seed, first, milliseconds) = (number(), number(), number());
    let progress = File::options().write(true).open(word()).expect("the file is there");
    setrlimit(Resource::RLIMIT_AS, MAX_MEMORY_BYTES, MAX_MEMORY_BYTES)
        .expect("less is always allowed");
    // No core of a crash that is expected.
    setrlimit(Resource::RLIMIT_CORE, 0, 0).expect("less is always allowed");
    let (seeds, end) = (read_seeds(target), Instant::now() + Duration::from_millis(milliseconds));
    for number in first.. {
        progress.write_all_at(&number.to_le_bytes(), 0).expect("the file is in memory");
        let input = input_of(target, seed, number, &seeds);
        (target.run)(&input);
        if Instant::now() >= end {
            progress.write_all_at(&(number + 1).to_le_bytes(), 0).expect("the file is in memory");
            return;
        }
    }
}

fn input_of(target: &Target, seed: u64, number: u64, seeds: &[Vec<u8>]) -> Vec<u8> {
    // The seeds as they are come first.
    let unchanged = usize::try_from(number).ok().and_then(|number| seeds.get(number));
    unchanged.cloned().unwrap_or_else(|| {
        mutate(&mut Random::for_input(seed, target.name, number), seeds, target.max_bytes)
    })
}

fn read_seeds(target: &Target) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a directory that is there").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("seeds are in the tree")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_for_other_tests_leave_no_target_out() {
        let choose = |arguments: &[&str]| {
            let chosen = choose_targets(arguments.iter().map(|&argument| argument.to_owned()));
            chosen.iter().map(|target| target.name).collect::<Vec<_>>()
        };
        let all = choose(&[]);
        assert_eq!(all.len(), TARGETS.len());
        for arguments in [
            &["--quiet", "--skip", "slurm::"][..],
            &["--test-threads", "2"],
            &["-Z", "unstable-options", "--report-time"],
        ] {
            assert_eq!(choose(arguments), all, "{arguments:?}");
        }
        assert_eq!(choose(&["cake"]), ["cake"]);
        let others: Vec<_> = all.iter().copied().filter(|name| *name != "cake").collect();
        assert_eq!(choose(&["--skip", "cake"]), others);
        assert_eq!(choose(&["--skip=cake"]), others);
        assert!(choose(&["slurm::"]).is_empty());
    }
}
