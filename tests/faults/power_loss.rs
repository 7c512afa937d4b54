//! Power is lost at any call of any filter: each state that POSIX allows the files to be in then is made, and the pipe
//! goes on from it.
//!
//! What a filter said before is durable in each of them. A run on any of them has the quiet run's bytes, and leaves no
//! more files. gather alone never says that damage is a success.
//!
//! `AZPIPE_POWER` is `SEED` or `SEED NUMBER` for a sample of the states, `all` for all of them, or `FILTER POINT LOSS` for
//! one, as a failure prints it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use serde_json::Value;

use crate::every_call::{Random, litter, new_seed, other_content, say};
use crate::pipe::{Pipe, Ran, Step};
use crate::state::Tree;
use crate::trace::Trace;

/// Tasks: what the third does to files, all others do.
const TASKS: usize = 3;

/// How many states a sample has.
const SAMPLE: usize = 120;

/// A state of the files: of which step, by which call, which of the ways in which it may be lost.
type Place = (usize, usize, usize);

#[test]
fn after_any_loss_of_power_the_pipe_goes_on_with_the_quiet_runs_bytes() {
    let asked = std::env::var("AZPIPE_POWER").unwrap_or_default();
    let words: Vec<&str> = asked.split_whitespace().collect();
    let pipe = Pipe::new(TASKS);
    let steps = pipe.quiet();
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
        "{} of {}; replay one by AZPIPE_POWER='{}' cargo test -p azpipe --test faults after_any -- --nocapture\n{}",
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
        let ran = pipe.run(step.filter, &step.input, &[("FAULTS_TRACE", file.to_str().expect("UTF-8"))]);
        assert_eq!(ran.status, 0, "{}: {}", step.filter, ran.stderr);
        let bytes = std::fs::read(&file).unwrap_or_default();
        traces.push(Trace::parse(&bytes, &pipe.state(), step.before.clone()));
        let trace = traces.last().expect("one");
        assert_eq!(trace.told(trace.ops.len()), ran.stdout, "{}: all that it said is in the trace", step.filter);
        // The last state is that of the files.
        let all = &trace.losses(trace.ops.len(), || true)[1];
        assert!(trace.state_after(all) == Tree::read(&pipe.state()), "{}: the trace misses something", step.filter);
    }
    traces
}

fn losses(traces: &[Trace], step: usize, point: usize) -> Vec<crate::trace::Loss> {
    let mut random = Random((step * 100_000 + point) as u64);
    traces[step].losses(point, || random.below(2) == 0)
}

/// The states to try, and of how many. Of all, those that differ in the content of temporary files alone are one.
fn choose(words: &[&str], steps: &[Step], traces: &[Trace]) -> (Vec<Place>, usize) {
    if let [filter, point, loss] = words {
        let step = steps.iter().position(|step| step.filter == *filter).expect("a filter");
        return (vec![(step, point.parse().expect("a number"), loss.parse().expect("a number"))], 1);
    }
    let mut places = Vec::new();
    for (step, trace) in traces.iter().enumerate().filter(|(_, trace)| !trace.ops.is_empty()) {
        for point in 0..=trace.ops.len() {
            places.extend((0..losses(traces, step, point).len()).map(|loss| (step, point, loss)));
        }
    }
    if words.first() == Some(&"all") {
        let mut seen = HashSet::new();
        places.retain(|place| seen.insert(key(traces, *place)));
        return (places, seen.len());
    }
    let seed = words.first().map_or_else(new_seed, |seed| seed.parse().expect("a seed"));
    let number = words.get(1).map_or(SAMPLE, |number| number.parse().expect("a number"));
    say(&format!("{number} states after a loss of power, chosen by AZPIPE_POWER='{seed} {number}'"));
    let mut random = Random(seed);
    let (mut seen, mut chosen) = (HashSet::new(), Vec::new());
    let all = places.len();
    while chosen.len() < number && !places.is_empty() {
        let place = places.swap_remove(random.below(places.len()));
        if seen.insert(key(traces, place)) {
            chosen.push(place);
        }
    }
    (chosen, all)
}

/// What tells states apart.
fn key(traces: &[Trace], (step, point, loss): Place) -> u64 {
    let mut state = traces[step].state_after(&losses(traces, step, point)[loss]);
    let is_temporary = |name: &Path| name.extension().is_some_and(|end| end == "tmp");
    let temporary = state.0.iter_mut().filter(|(name, _)| is_temporary(name));
    temporary.for_each(|(_, content)| *content = Some(Vec::new()));
    let mut hasher = DefaultHasher::new();
    (step, state, traces[step].told(point)).hash(&mut hasher);
    hasher.finish()
}

fn try_one(pipe: &Pipe, steps: &[Step], traces: &[Trace], (number, point, loss): Place) -> Result<(), String> {
    let (step, trace) = (&steps[number], &traces[number]);
    let lost = &losses(traces, number, point)[loss];
    let state = trace.state_after(lost);
    let end = trace.state_after(&trace.losses(trace.ops.len(), || true)[1]);
    check_told(&pipe.state(), &trace.told(point), &state, &end)?;
    state.write(&pipe.state());
    let (planned, integrated, gathered) =
        (find(steps, "plan-split"), find(steps, "ai-integrate"), find(steps, "gather"));
    if matches!(step.filter, "scan-find" | "plan-split" | "slurm-emit") {
        let again = pipe.run(step.filter, &step.input, &[]);
        if again.status != 0 || again.records() != step.quiet.records() {
            return Err(format!("rerun: status {}: {}", again.status, again.stderr));
        }
        return compare(&step.after, &Tree::read(&pipe.state()));
    }
    if loss % 2 == 1 {
        let alone = pipe.run("gather", &integrated.quiet.stdout, &[]);
        if alone.status == 0 && alone.records() != gathered.quiet.records() {
            return Err(format!("gather alone: status 0, and {}", alone.stdout));
        }
    }
    let again = pipe.run("ai-integrate", &planned.quiet.stdout, &[]);
    if again.status != 0 {
        return Err(format!("ai-integrate again: status {}: {}", again.status, again.stderr));
    }
    if step.filter.starts_with("gather") {
        let anew = done_anew(&again);
        if anew > 0 {
            return Err(format!("{anew} tasks are integrated again that were done before gather began"));
        }
    }
    let last = pipe.run("gather", &again.stdout, &[]);
    if last.status != 0 || last.records() != gathered.quiet.records() {
        return Err(format!("gather again: status {}: {}{}", last.status, last.stderr, last.stdout));
    }
    compare(&gathered.after, &Tree::read(&pipe.state()))
}

fn find<'a>(steps: &'a [Step], filter: &str) -> &'a Step {
    steps.iter().find(|step| step.filter == filter).expect("a step")
}

fn compare(goal: &Tree, found: &Tree) -> Result<(), String> {
    other_content(goal, found).or_else(|| litter(goal, found)).map_or(Ok(()), |why| Err(format!("after a rerun {why}")))
}

/// The tasks whose frames were not there.
fn done_anew(ran: &Ran) -> usize {
    let records = ran.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records.filter(|record| record["type"] == "result" && record["skipped"] != true).count()
}

/// The file that a record speaks of was told to be there: it is, as it is at the end.
fn check_told(top: &Path, told: &str, state: &Tree, end: &Tree) -> Result<(), String> {
    for line in told.lines() {
        let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let path = match &*text("type") {
            "task" => text("recipe"),
            "result" => format!("{}/{}", text("out"), text("part")),
            "summary" => text("final"),
            _ => continue,
        };
        let name = Path::new(&path).strip_prefix(top).map_err(|_| format!("{path}: not below {}", top.display()))?;
        if !state.0.contains_key(name) || state.0.get(name) != end.0.get(name) {
            return Err(format!("told before it was durable: {path} for {}", text("type")));
        }
    }
    Ok(())
}
