//! Every call to the system fails once, in every way in which it can: one at a time, in each filter
//! of a pipe of 20 tasks.
//!
//! A filter may bear the fault: then it says 0, and its records and the final are the quiet run's,
//! but for the counters of a raw file that it says it was not permitted to read.
//! Or it says another status, and why. After it, the same again without a fault gives the quiet
//! run's bytes, and leaves no more files.
//!
//! `AZPIPE_FAULTS` chooses: `SEED` or `SEED NUMBER` for a sample (what is run without it is a
//! sample by a new seed), `all`, `all FILTER` or `all FILTER CALL` for all there are, or `FILTER
//! CALL K FAULT` for one, as a failure prints it. After `AZPIPE_FAULTS_MINUTES`, no more of them
//! are begun.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::combinations::{Combination, choose, name, order};
use super::difference::{find_difference, find_leftover_files};
use super::pipe::{Pipe, STEPS, Step, comparable_records};
use super::state::Tree;
use crate::support::Outcome;
use crate::support::fault_shim::CALLS;
use crate::support::messages::find_repeated_path;

const TASKS: usize = 20;

/// After so many combinations, a line says how many are done.
const PROGRESS_INTERVAL: usize = 250;

/// A way in which a filter may handle a fault wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Violation {
    /// Status 0 with other records or another final than the quiet run's, at once or after a rerun.
    Silent,
    /// A panic, or a signal that the test did not send.
    Crashed,
    /// Files that the quiet run does not leave.
    Litter,
    /// A status without a reason, a reason without the system's, or a message that names a path
    /// twice.
    Unclear,
}

/// The result of one combination.
struct Verdict {
    fired: bool,
    status: i32,
    stderr: String,
    violations: Vec<(Violation, String)>,
}

#[test]
fn a_call_that_fails_is_borne_or_told_and_costs_nothing_but_a_rerun() {
    let asked = std::env::var("AZPIPE_FAULTS").unwrap_or_default();
    let words: Vec<&str> = asked.split_whitespace().collect();
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let pipes: Vec<(Pipe, Vec<Step>)> = std::thread::scope(|scope| {
        let start = || {
            let pipe = Pipe::new(TASKS);
            let steps = pipe.quiet(&STEPS);
            (pipe, steps)
        };
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(start)).collect();
        started.into_iter().map(|worker| worker.join().expect("a quiet run")).collect()
    });
    let (chosen, places) = order(choose(&words, &pipes[0].1), &pipes[0].1);
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    let minutes = std::env::var("AZPIPE_FAULTS_MINUTES").ok();
    let limit = minutes.map(|minutes| {
        Duration::from_secs(60 * minutes.parse::<u64>().expect("a number of minutes"))
    });
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (pipe, steps) in &pipes {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    let is_late = limit.is_some_and(|limit| began.elapsed() >= limit);
                    let Some(combination) = chosen.get(number).filter(|_| !is_late) else { break };
                    let outcome = try_one(pipe, steps, combination);
                    for (violation, why) in &outcome.violations {
                        say(&format!("{}: {violation:?}: {why}", name(combination)));
                    }
                    let mut outcomes = outcomes.lock().expect("no panic");
                    outcomes.push((combination.clone(), outcome));
                    if (number + 1).is_multiple_of(PROGRESS_INTERVAL) || number + 1 == places {
                        say(&describe_progress(&outcomes, chosen.len(), places, began.elapsed()));
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no panic");
    say(&format_table(&pipes[0].1, &outcomes));
    if let (1, [(_, outcome)]) = (chosen.len(), &outcomes[..]) {
        say(&format!(
            "status {}{}\n{}",
            outcome.status,
            if outcome.fired { "" } else { ", not reached" },
            outcome.stderr.trim_end()
        ));
    }
    let broken: Vec<String> = outcomes
        .iter()
        .filter(|(_, outcome)| !outcome.violations.is_empty())
        .map(|(combination, _)| name(combination))
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {}; replay one by AZPIPE_FAULTS='{}' cargo test -p azpipe --test integration faults::every_call::a_call -- --nocapture\n{}",
        broken.len(),
        outcomes.len(),
        broken[0],
        broken.join("\n")
    );
}

/// Says how many combinations were tried, how many of them went wrong, and how long the others will
/// take at this pace.
fn describe_progress(
    outcomes: &[(Combination, Verdict)],
    chosen: usize,
    places: usize,
    elapsed: Duration,
) -> String {
    let tried = outcomes.len();
    let wrong = outcomes.iter().filter(|(_, outcome)| !outcome.violations.is_empty()).count();
    let left = elapsed.as_secs_f64() / tried as f64 * (chosen - tried) as f64;
    let places = match tried < places {
        true => format!("; {places} are each fault at each place once"),
        false => format!("; each of {places} faults at places has failed once"),
    };
    format!(
        "{tried} of {chosen} calls failed, {wrong} of them wrong; about {:.0} min left{places}",
        left / 60.0
    )
}

/// Prints at once, past the test harness, which captures the output of tests that pass.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn try_one(pipe: &Pipe, steps: &[Step], one: &Combination) -> Verdict {
    let step = steps.iter().find(|step| step.filter == one.filter).expect("a step");
    let mut violations = Vec::new();
    step.before.write(&pipe.state());
    let _ = std::fs::remove_file(pipe.log());
    let log = pipe.log();
    let at = match one.fault.strip_suffix('+') {
        Some(fault) => format!("{} {}-{} {fault}", one.call, one.k, usize::MAX >> 1),
        None => format!("{} {} {}", one.call, one.k, one.fault),
    };
    let ran = pipe.run(
        one.filter,
        &step.input,
        &[("FAULTS_LOG", log.to_str().expect("UTF-8")), ("FAULTS_AT", &at)],
    );
    let hits = std::fs::read_to_string(&log).unwrap_or_default();
    let hit = hits.lines().next().unwrap_or_default();
    let mut violation =
        |violation, why: String| violations.push((violation, format!("{why} ({hit})")));

    let was_killed = one.fault == "kill" && ran.status == 128 + 9 && !hit.is_empty();
    // Without memory, the HDF5 library itself may crash.
    let library_crashed = one.call == "malloc" && [128 + 6, 128 + 11].contains(&ran.status);
    let worker_crashed = one.call == "malloc"
        && ["SIGSEGV", "SIGABRT"].iter().any(|signal| ran.stderr.contains(signal));
    if (ran.status >= 128 && !was_killed && !library_crashed)
        || ran.status == 101
        || ran.stderr.contains("panicked at")
    {
        violation(Violation::Crashed, format!("status {}: {}", ran.status, ran.stderr.trim_end()));
    } else if ran.status == 0 {
        if comparable_records(&ran) != comparable_records(&step.quiet) {
            violation(
                Violation::Silent,
                format!(
                    "status 0, other records than the quiet run's: {}",
                    describe_difference(step, &ran)
                ),
            );
        }
    } else if !was_killed && !library_crashed && !is_clear(one, &ran) {
        violation(Violation::Unclear, format!("status {}: {}", ran.status, ran.stderr.trim_end()));
    }
    if let Some(line) = find_repeated_path(&ran.stderr) {
        violation(Violation::Unclear, format!("names a path twice: {line}"));
    }

    // What follows a filter that says 0 has to be right at once; else after a rerun.
    let finish = |input: &str| match one.filter {
        "ai-integrate" | "ai-integrate-again" => Some(pipe.run("gather", input, &[])),
        _ => None,
    };
    let expected = &steps.iter().find(|step| step.filter == "gather").expect("a step");
    let is_quiet = |last: Option<&Outcome>| match last {
        Some(gathered) => {
            gathered.status == 0
                && comparable_records(gathered) == comparable_records(&expected.quiet)
        }
        None => true,
    };
    let goal = if one.filter.starts_with("ai-integrate") { &expected.after } else { &step.after };
    if ran.status == 0 {
        let gathered = finish(&ran.stdout);
        if !is_quiet(gathered.as_ref()) {
            violation(
                Violation::Silent,
                format!("status 0, then {:?}", gathered.map(|ran| (ran.status, ran.stderr))),
            );
        }
        let told = (one.fault == "EACCES" || worker_crashed)
            && ran.stderr.contains("counters and positions are not copied");
        if !told && let Some(why) = find_difference(goal, &Tree::read(&pipe.state())) {
            violation(Violation::Silent, format!("status 0, and {why}"));
        }
    }
    let again = pipe.run(one.filter, &step.input, &[]);
    let is_as_quiet =
        again.status == 0 && comparable_records(&again) == comparable_records(&step.quiet);
    if !is_as_quiet && !worker_crashed {
        let what = format!(
            "rerun: status {}: {} {}",
            again.status,
            again.stderr.trim_end(),
            describe_difference(step, &again)
        );
        violation(Violation::Silent, what);
    }
    let gathered = finish(&again.stdout);
    if !is_quiet(gathered.as_ref()) {
        violation(
            Violation::Silent,
            format!("rerun, then {:?}", gathered.map(|ran| (ran.status, ran.stdout, ran.stderr))),
        );
    }
    let left = Tree::read(&pipe.state());
    if !worker_crashed && let Some(why) = find_difference(goal, &left) {
        violation(Violation::Silent, format!("after a rerun {why}"));
    }
    if let Some(why) = find_leftover_files(goal, &left) {
        violation(Violation::Litter, format!("after a rerun {why}"));
    }
    Verdict { fired: !hit.is_empty(), status: ran.status, stderr: ran.stderr, violations }
}

/// Returns whether a message holds the system's error.
fn is_clear(one: &Combination, ran: &Outcome) -> bool {
    // Without memory for it, the HDF5 library gives other reasons.
    if one.call == "malloc" {
        return !ran.stderr.trim().is_empty();
    }
    let said = match one.fault.trim_end_matches('+') {
        "EIO" => "Input/output error",
        "ENOSPC" => "No space left",
        "ESTALE" => "Stale file handle",
        "EINTR" => "Interrupted",
        "EMFILE" => "Too many open files",
        "ENOLCK" => "No locks available",
        "ENOMEM" => "Cannot allocate memory",
        "EACCES" => "Permission denied",
        "EROFS" => "Read-only file system",
        "EAGAIN" => "Resource temporarily unavailable",
        "ENOENT" => "No such file or directory",
        "EPERM" => "Operation not permitted",
        _ => return !ran.stderr.trim().is_empty(),
    };
    let fails: String =
        ran.stdout.lines().filter(|line| line.contains("\"type\":\"fail\"")).collect();
    // The HDF5 library does not say why it can't look at a file that it has opened.
    let all = ran.stderr.clone() + &fails;
    all.contains(said) || all.contains("can't retrieve stat info for file")
}

fn describe_difference(step: &Step, ran: &Outcome) -> String {
    let (expected, found) = (comparable_records(&step.quiet), comparable_records(ran));
    let cut = |line: Option<&String>| {
        line.map_or_else(|| "nothing".to_owned(), |line| line.chars().take(3000).collect())
    };
    let first = found.iter().find(|line| !expected.contains(line));
    let lost = expected.iter().find(|line| !found.contains(line));
    format!(
        "{} records in place of {}\n  found {}\n  expected {}",
        found.len(),
        expected.len(),
        cut(first),
        cut(lost)
    )
}

/// Returns the combinations and their outcomes, by filter and call, as a table in Markdown.
fn format_table(steps: &[Step], outcomes: &[(Combination, Verdict)]) -> String {
    let mut rows: BTreeMap<(usize, usize), [usize; 8]> = BTreeMap::new();
    for (one, outcome) in outcomes {
        let filter = STEPS.iter().position(|known| *known == one.filter).expect("a filter");
        let call = CALLS.iter().position(|(known, _)| *known == one.call).expect("a call");
        let row = rows.entry((filter, call)).or_default();
        let has = |violation: Violation| {
            usize::from(outcome.violations.iter().any(|(found, _)| *found == violation))
        };
        row[0] += usize::from(outcome.fired);
        row[1] += usize::from(outcome.fired && outcome.status == 0);
        row[2] += usize::from(outcome.fired && outcome.status != 0 && outcome.status < 128);
        row[3] += usize::from(outcome.fired && outcome.status == 137);
        let violations =
            [Violation::Silent, Violation::Crashed, Violation::Litter, Violation::Unclear];
        for (place, violation) in row[4..].iter_mut().zip(violations) {
            *place += has(violation);
        }
    }
    let mut text =
        "| filter | call | quiet run | tried | borne | told | killed | silent | crashed | litter | unclear |\n\
                    |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for ((filter, call), row) in rows {
        let quiet = steps[filter].calls[call].1.len();
        let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {quiet} | {} |",
            STEPS[filter],
            CALLS[call].0,
            cells.join(" | ")
        );
    }
    text
}
