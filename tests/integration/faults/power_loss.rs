//! Power is lost at any call of any filter: each state that POSIX allows the files to be in then is
//! made, and the pipe goes on from it.
//!
//! Each of them holds whatever a filter had already reported. A run on any of them has the quiet
//! run's bytes, and leaves no more files. gather alone never says that damage is a success.
//!
//! `AZPIPE_POWER` is `SEED` or `SEED NUMBER` for a sample of the states, `all` for all of them, or
//! `FILTER POINT LOSS` for one, as a failure prints it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use sample::Random;
use serde_json::Value;

use super::difference::{find_difference, find_leftover_files};
use super::every_call::say;
use super::pipe::{PIPE, Pipe, Step, comparable_records};
use super::state::Tree;
use super::trace::{Loss, Trace};
use crate::support::{Outcome, new_seed};

/// Tasks: what the third does to files, all others do.
const TASKS: usize = 3;

/// How many states a sample has.
const SAMPLE: usize = 120;

/// A state of the files after a loss of power: indices of the step, of the call before it, and of
/// the way in which pending changes were lost.
type LostState = (usize, usize, usize);

#[test]
fn after_any_loss_of_power_the_pipe_goes_on_with_the_quiet_runs_bytes() {
    let asked = std::env::var("AZPIPE_POWER").unwrap_or_default();
    let words: Vec<&str> = asked.split_whitespace().collect();
    let pipe = Pipe::new(TASKS);
    let steps = pipe.quiet(&PIPE);
    let traces = trace_all(&pipe, &steps);
    let (places, seen) = choose(&words, &steps, &traces);
    say(&format!("{} states after a loss of power, of {seen}", places.len()));
    let mut broken = Vec::new();
    for place in &places {
        if let Err(why) = try_one(&pipe, &steps, &traces, *place) {
            let (step, point, loss) = *place;
            let name = format!("{} {point} {loss}", steps[step].filter);
            let loss = traces[step].describe(&losses(&traces, step, point)[loss]);
            say(&format!("{name}: {why}\n{loss}"));
            broken.push(name);
        }
    }
    assert!(
        broken.is_empty(),
        "{} of {}; replay one by AZPIPE_POWER='{}' cargo test -p azpipe --test integration faults::power_loss::after_any -- --nocapture\n{}",
        broken.len(),
        places.len(),
        broken[0],
        broken.join("\n")
    );
}

/// The calls of each step of a quiet run that change files; of scan-find there are none.
fn trace_all(pipe: &Pipe, steps: &[Step]) -> Vec<Trace> {
    let mut traces = Vec::new();
    for step in steps {
        step.before.write(&pipe.state());
        let file = pipe.log().with_extension("trace");
        let _ = std::fs::remove_file(&file);
        let ran =
            pipe.run(step.filter, &step.input, &[("FAULTS_TRACE", file.to_str().expect("UTF-8"))]);
        assert_eq!(ran.status, 0, "{}: {}", step.filter, ran.stderr);
        let bytes = std::fs::read(&file).unwrap_or_default();
        traces.push(Trace::parse(&bytes, &pipe.state(), step.before.clone()));
        let trace = traces.last().expect("one");
        assert_eq!(
            trace.stdout_at(trace.ops.len()),
            ran.stdout,
            "{}: all that it said is in the trace",
            step.filter
        );
        // The last state is that of the files.
        let all = &trace.losses(trace.ops.len(), || true)[1];
        assert!(
            trace.state_after(all) == Tree::read(&pipe.state()),
            "{}: the trace misses something",
            step.filter
        );
    }
    traces
}

fn losses(traces: &[Trace], step: usize, point: usize) -> Vec<Loss> {
    let mut random = Random::new(&[(step * 100_000 + point) as u64]);
    traces[step].losses(point, || random.below(2) == 0)
}

/// The states to try, and of how many. Of all, those that differ in the content of temporary files
/// alone are one.
fn choose(words: &[&str], steps: &[Step], traces: &[Trace]) -> (Vec<LostState>, usize) {
    if let [filter, point, loss] = words {
        let step = steps.iter().position(|step| step.filter == *filter).expect("a filter");
        return (
            vec![(step, point.parse().expect("a number"), loss.parse().expect("a number"))],
            1,
        );
    }
    let mut places = Vec::new();
    for (step, trace) in traces.iter().enumerate().filter(|(_, trace)| !trace.ops.is_empty()) {
        for point in 0..=trace.ops.len() {
            places.extend((0..losses(traces, step, point).len()).map(|loss| (step, point, loss)));
        }
    }
    if words.first() == Some(&"all") {
        let mut seen = HashSet::new();
        places.retain(|place| seen.insert(hash_state(traces, *place)));
        return (places, seen.len());
    }
    let seed = words.first().map_or_else(new_seed, |seed| seed.parse().expect("a seed"));
    let number = words.get(1).map_or(SAMPLE, |number| number.parse().expect("a number"));
    say(&format!(
        "{number} states after a loss of power, chosen by AZPIPE_POWER='{seed} {number}'"
    ));
    let mut random = Random::new(&[seed]);
    let (mut seen, mut chosen) = (HashSet::new(), Vec::new());
    let all = places.len();
    while chosen.len() < number && !places.is_empty() {
        let place = places.swap_remove(random.index(places.len()));
        if seen.insert(hash_state(traces, place)) {
            chosen.push(place);
        }
    }
    (chosen, all)
}

/// Returns a hash that is equal for equal states.
fn hash_state(traces: &[Trace], (step, point, loss): LostState) -> u64 {
    let mut state = traces[step].state_after(&losses(traces, step, point)[loss]);
    let is_temporary = |name: &Path| name.extension().is_some_and(|end| end == "tmp");
    let temporary = state.0.iter_mut().filter(|(name, _)| is_temporary(name));
    temporary.for_each(|(_, content)| *content = Some(Vec::new()));
    let mut hasher = DefaultHasher::new();
    (step, state, traces[step].stdout_at(point)).hash(&mut hasher);
    hasher.finish()
}

fn try_one(
    pipe: &Pipe,
    steps: &[Step],
    traces: &[Trace],
    (number, point, loss): LostState,
) -> Result<(), String> {
    let (step, trace) = (&steps[number], &traces[number]);
    let lost = &losses(traces, number, point)[loss];
    let state = trace.state_after(lost);
    let end = trace.state_after(&trace.losses(trace.ops.len(), || true)[1]);
    check_reported_files(&pipe.state(), &trace.stdout_at(point), &state, &end)?;
    state.write(&pipe.state());
    let (planned, integrated, gathered) =
        (find(steps, "plan-split"), find(steps, "ai-integrate"), find(steps, "gather"));
    if matches!(step.filter, "scan-find" | "plan-split" | "slurm-emit") {
        let again = pipe.run(step.filter, &step.input, &[]);
        if again.status != 0 || comparable_records(&again) != comparable_records(&step.quiet) {
            return Err(format!("rerun: status {}: {}", again.status, again.stderr));
        }
        return compare(&step.after, &Tree::read(&pipe.state()));
    }
    if loss % 2 == 1 {
        let alone = pipe.run("gather", &integrated.quiet.stdout, &[]);
        if alone.status == 0 && comparable_records(&alone) != comparable_records(&gathered.quiet) {
            return Err(format!("gather alone: status 0, and {}", alone.stdout));
        }
    }
    let again = pipe.run("ai-integrate", &planned.quiet.stdout, &[]);
    if again.status != 0 {
        return Err(format!("ai-integrate again: status {}: {}", again.status, again.stderr));
    }
    if step.filter.starts_with("gather") {
        let anew = count_repeated_tasks(&again);
        if anew > 0 {
            return Err(format!(
                "{anew} tasks are integrated again that were done before gather began"
            ));
        }
    }
    let last = pipe.run("gather", &again.stdout, &[]);
    if last.status != 0 || comparable_records(&last) != comparable_records(&gathered.quiet) {
        return Err(format!(
            "gather again: status {}: {}{}",
            last.status, last.stderr, last.stdout
        ));
    }
    compare(&gathered.after, &Tree::read(&pipe.state()))
}

fn find<'a>(steps: &'a [Step], filter: &str) -> &'a Step {
    steps.iter().find(|step| step.filter == filter).expect("a step")
}

fn compare(goal: &Tree, found: &Tree) -> Result<(), String> {
    find_difference(goal, found)
        .or_else(|| find_leftover_files(goal, found))
        .map_or(Ok(()), |why| Err(format!("after a rerun {why}")))
}

/// Counts results of tasks that were not skipped as done.
fn count_repeated_tasks(ran: &Outcome) -> usize {
    let records = ran.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records.filter(|record| record["type"] == "result" && record["skipped"] != true).count()
}

/// Checks that each file which a record reports exists, with its final content.
fn check_reported_files(top: &Path, told: &str, state: &Tree, end: &Tree) -> Result<(), String> {
    for line in told.lines() {
        let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let path = match &*text("type") {
            "task" => text("recipe"),
            "result" => format!("{}/{}", text("out"), text("part")),
            "summary" => text("final"),
            _ => continue,
        };
        let name = Path::new(&path)
            .strip_prefix(top)
            .map_err(|_| format!("{path}: not below {}", top.display()))?;
        if !state.0.contains_key(name) || state.0.get(name) != end.0.get(name) {
            return Err(format!("told before it was durable: {path} for {}", text("type")));
        }
    }
    Ok(())
}
