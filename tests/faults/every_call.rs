//! Every call to the file system fails once, in every way in which it can: one at a time, in each filter of a pipe of 20
//! tasks.
//!
//! A filter may bear the fault: then it says 0, and its records and the final are the quiet run's. Or it says another
//! status, and why. After it, the same again without a fault gives the quiet run's bytes, and leaves no more files.
//!
//! `AZPIPE_FAULTS` chooses: `SEED` or `SEED NUMBER` for a sample (what is run without it is a sample by a new seed), `all`
//! or `all FILTER` for all there are, or `FILTER CALL K FAULT` for one, as a failure prints it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::pipe::{FILTERS, Pipe, Ran, Step};
use crate::shim::CALLS;
use crate::state::Tree;

/// How many combinations a sample has.
const SAMPLE: usize = 200;

const TASKS: usize = 20;

/// One call of a filter that fails in one way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Combination {
    filter: &'static str,
    call: &'static str,
    k: usize,
    fault: &'static str,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Breach {
    /// Status 0, and not the quiet run's records or final; or a rerun that has not.
    Silent,
    /// A panic, or a signal that the test did not send.
    Crashed,
    /// Files that the quiet run does not leave.
    Litter,
    /// A status without a reason, or a reason without the system's.
    Unclear,
}

/// What came of one combination.
struct Outcome {
    fired: bool,
    status: i32,
    breaches: Vec<(Breach, String)>,
}

#[test]
fn a_call_that_fails_is_borne_or_told_and_costs_nothing_but_a_rerun() {
    let asked = std::env::var("AZPIPE_FAULTS").unwrap_or_default();
    let words: Vec<&str> = asked.split_whitespace().collect();
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let pipes: Vec<(Pipe, Vec<Step>)> = std::thread::scope(|scope| {
        let start = || {
            let pipe = Pipe::new(TASKS);
            let steps = pipe.quiet();
            (pipe, steps)
        };
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(start)).collect();
        started.into_iter().map(|worker| worker.join().expect("a quiet run")).collect()
    });
    let chosen = choose(&words, &pipes[0].1);
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (pipe, steps) in &pipes {
            scope.spawn(|| {
                while let Some(combination) = chosen.get(next.fetch_add(1, Relaxed)) {
                    let outcome = try_one(pipe, steps, combination);
                    for (breach, why) in &outcome.breaches {
                        say(&format!("{}: {breach:?}: {why}", name(combination)));
                    }
                    outcomes.lock().expect("no panic").push((combination.clone(), outcome));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no panic");
    say(&table(&pipes[0].1, &outcomes));
    if let (1, [(_, outcome)]) = (chosen.len(), &outcomes[..]) {
        say(&format!("status {}{}", outcome.status, if outcome.fired { "" } else { ", not reached" }));
    }
    let broken: Vec<String> = outcomes
        .iter()
        .filter(|(_, outcome)| !outcome.breaches.is_empty())
        .map(|(combination, _)| name(combination))
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {}; replay one by AZPIPE_FAULTS='{}' cargo test -p azpipe --test faults a_call -- --nocapture\n{}",
        broken.len(),
        outcomes.len(),
        broken[0],
        broken.join("\n")
    );
}

fn name(one: &Combination) -> String {
    format!("{} {} {} {}", one.filter, one.call, one.k, one.fault)
}

/// Prints past the harness, which would keep it back.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn choose(words: &[&str], steps: &[Step]) -> Vec<Combination> {
    let of_filter = |filter: &str| all(steps).into_iter().filter(|one| one.filter == filter).collect::<Vec<_>>();
    match words {
        ["all"] => all(steps),
        ["all", filter] => of_filter(filter),
        [filter, call, k, fault] => {
            let filter = FILTERS.into_iter().find(|known| known == filter).expect("a filter");
            let (call, faults) = CALLS.into_iter().find(|(known, _)| known == call).expect("a call");
            let fault = faults.iter().find(|known| *known == fault).expect("a fault of that call");
            vec![Combination { filter, call, k: k.parse().expect("a number"), fault }]
        }
        _ => {
            let seed = words.first().map_or_else(new_seed, |seed| seed.parse().expect("a seed"));
            let number = words.get(1).map_or(SAMPLE, |number| number.parse().expect("a number"));
            say(&format!("{number} calls that fail, chosen by AZPIPE_FAULTS='{seed} {number}'"));
            sample_of(steps, seed, number)
        }
    }
}

/// All there are.
fn all(steps: &[Step]) -> Vec<Combination> {
    let mut all = Vec::new();
    for step in steps {
        for ((call, faults), (_, count)) in CALLS.into_iter().zip(&step.counts) {
            for k in 1..=*count {
                all.extend(faults.iter().map(|fault| Combination { filter: step.filter, call, k, fault }));
            }
        }
    }
    all
}

/// Some, each kind of call as likely as any other, so that the few renames are tried as often as the many reads.
fn sample_of(steps: &[Step], seed: u64, number: usize) -> Vec<Combination> {
    let mut random = Random(seed);
    let mut kinds = Vec::new();
    for step in steps {
        let calls = CALLS.into_iter().zip(&step.counts).filter(|(_, (_, count))| *count > 0);
        kinds.extend(calls.map(|((call, faults), (_, count))| (step.filter, call, faults, *count)));
    }
    let mut chosen: Vec<Combination> = (0..number)
        .map(|_| {
            let (filter, call, faults, count) = kinds[random.below(kinds.len())];
            Combination { filter, call, k: 1 + random.below(count), fault: faults[random.below(faults.len())] }
        })
        .collect();
    chosen.sort();
    chosen.dedup();
    chosen
}

fn try_one(pipe: &Pipe, steps: &[Step], one: &Combination) -> Outcome {
    let step = steps.iter().find(|step| step.filter == one.filter).expect("a step");
    let mut breaches = Vec::new();
    step.before.write(&pipe.state());
    let _ = std::fs::remove_file(pipe.log());
    let log = pipe.log();
    let at = match one.fault.strip_suffix('+') {
        Some(fault) => format!("{} {}-{} {fault}", one.call, one.k, usize::MAX >> 1),
        None => format!("{} {} {}", one.call, one.k, one.fault),
    };
    let ran = pipe.run(one.filter, &step.input, &[("FAULTS_LOG", log.to_str().expect("UTF-8")), ("FAULTS_AT", &at)]);
    let hits = std::fs::read_to_string(&log).unwrap_or_default();
    let hit = hits.lines().next().unwrap_or_default();
    let mut breach = |breach, why: String| breaches.push((breach, format!("{why} ({hit})")));

    let was_killed = one.fault == "kill" && ran.status == 128 + 9 && !hit.is_empty();
    if (ran.status >= 128 && !was_killed) || ran.status == 101 || ran.stderr.contains("panicked at") {
        breach(Breach::Crashed, format!("status {}: {}", ran.status, ran.stderr.trim_end()));
    } else if ran.status == 0 {
        if ran.records() != step.quiet.records() {
            breach(Breach::Silent, format!("status 0, other records than the quiet run's: {}", difference(step, &ran)));
        }
    } else if !was_killed && !is_clear(one, &ran) {
        breach(Breach::Unclear, format!("status {}: {}", ran.status, ran.stderr.trim_end()));
    }

    // What follows a filter that says 0 has to be right at once; else after a rerun.
    let finish = |input: &str| match one.filter {
        "ai-integrate" | "ai-integrate-again" => Some(pipe.run("gather", input, &[])),
        _ => None,
    };
    let expected = &steps.iter().find(|step| step.filter == "gather").expect("a step");
    let is_quiet = |last: Option<&Ran>| match last {
        Some(gathered) => gathered.status == 0 && gathered.records() == expected.quiet.records(),
        None => true,
    };
    let goal = if one.filter.starts_with("ai-integrate") { &expected.after } else { &step.after };
    if ran.status == 0 {
        let gathered = finish(&ran.stdout);
        if !is_quiet(gathered.as_ref()) {
            breach(Breach::Silent, format!("status 0, then {:?}", gathered.map(|ran| (ran.status, ran.stderr))));
        }
        if let Some(why) = other_content(goal, &Tree::read(&pipe.state())) {
            breach(Breach::Silent, format!("status 0, and {why}"));
        }
    }
    let again = pipe.run(one.filter, &step.input, &[]);
    if again.status != 0 || again.records() != step.quiet.records() {
        let what = format!("rerun: status {}: {} {}", again.status, again.stderr.trim_end(), difference(step, &again));
        breach(Breach::Silent, what);
    }
    let gathered = finish(&again.stdout);
    if !is_quiet(gathered.as_ref()) {
        breach(Breach::Silent, format!("rerun, then {:?}", gathered.map(|ran| (ran.status, ran.stdout, ran.stderr))));
    }
    let left = Tree::read(&pipe.state());
    if let Some(why) = other_content(goal, &left) {
        breach(Breach::Silent, format!("after a rerun {why}"));
    }
    if let Some(why) = litter(goal, &left) {
        breach(Breach::Litter, format!("after a rerun {why}"));
    }
    Outcome { fired: !hit.is_empty(), status: ran.status, breaches }
}

/// Whether a failure says what the system said.
fn is_clear(one: &Combination, ran: &Ran) -> bool {
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
        _ => return !ran.stderr.trim().is_empty(),
    };
    let fails: String = ran.stdout.lines().filter(|line| line.contains("\"type\":\"fail\"")).collect();
    // The HDF5 library does not say why it can't look at a file that it has opened.
    let all = ran.stderr.clone() + &fails;
    all.contains(said) || all.contains("can't retrieve stat info for file")
}

/// Text files have to be the same to the byte. HDF5 files hold the time when they were written: their data's digest is
/// compared by the records. Matrices are a cache, which may be missing.
pub fn other_content(goal: &Tree, found: &Tree) -> Option<String> {
    let is_of = |name: &Path, end: &str| name.extension().is_some_and(|extension| extension == end);
    let files = goal.0.iter().filter(|(name, content)| content.is_some() && !is_of(name, "matrix"));
    files.into_iter().find_map(|(name, content)| match found.0.get(name) {
        None => Some(format!("{} is missing", name.display())),
        Some(there) if !is_of(name, "h5") && there != content => Some(format!("{} is another", name.display())),
        Some(_) => None,
    })
}

/// Files that the goal has not.
pub fn litter(goal: &Tree, found: &Tree) -> Option<String> {
    let known = goal.files();
    let more: Vec<String> =
        found.files().into_iter().filter(|name| !known.contains(name)).map(|name| name.display().to_string()).collect();
    (!more.is_empty()).then(|| format!("there is {}", more.join(", ")))
}

fn difference(step: &Step, ran: &Ran) -> String {
    let (expected, found) = (step.quiet.records(), ran.records());
    let cut =
        |line: Option<&String>| line.map_or_else(|| "nothing".to_owned(), |line| line.chars().take(3000).collect());
    let first = found.iter().find(|line| !expected.contains(line));
    let lost = expected.iter().find(|line| !found.contains(line));
    format!("{} records in place of {}\n  found {}\n  expected {}", found.len(), expected.len(), cut(first), cut(lost))
}

/// What was tried and what came of it, by filter and call, as a table in Markdown.
fn table(steps: &[Step], outcomes: &[(Combination, Outcome)]) -> String {
    let mut rows: BTreeMap<(usize, usize), [usize; 8]> = BTreeMap::new();
    for (one, outcome) in outcomes {
        let filter = FILTERS.iter().position(|known| *known == one.filter).expect("a filter");
        let call = CALLS.iter().position(|(known, _)| *known == one.call).expect("a call");
        let row = rows.entry((filter, call)).or_default();
        let has = |breach: Breach| usize::from(outcome.breaches.iter().any(|(found, _)| *found == breach));
        row[0] += usize::from(outcome.fired);
        row[1] += usize::from(outcome.fired && outcome.status == 0);
        row[2] += usize::from(outcome.fired && outcome.status != 0 && outcome.status < 128);
        row[3] += usize::from(outcome.fired && outcome.status == 137);
        let breaches = [Breach::Silent, Breach::Crashed, Breach::Litter, Breach::Unclear];
        for (place, breach) in row[4..].iter_mut().zip(breaches) {
            *place += has(breach);
        }
    }
    let mut text =
        "| filter | call | quiet run | tried | borne | told | killed | silent | crashed | litter | unclear |\n\
                    |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for ((filter, call), row) in rows {
        let quiet = steps[filter].counts[call].1;
        let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "| {} | {} | {quiet} | {} |", FILTERS[filter], CALLS[call].0, cells.join(" | "));
    }
    text
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A seed that was not there before.
pub fn new_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Random(now.as_nanos() as u64).next() % 1_000_000
}
