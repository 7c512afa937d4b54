//! The calls that fail: which of a filter, and in which way; all there are, or a sample.

use std::collections::{BTreeMap, HashMap};

use sample::Random;

use super::every_call::say;
use super::pipe::{Place, STEPS, Step};
use crate::support::fault_shim::CALLS;
use crate::support::new_seed;

/// How many combinations a sample has.
const SAMPLE: usize = 200;

/// One call of a filter that fails in one way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combination {
    pub filter: &'static str,
    pub call: &'static str,
    pub k: usize,
    pub fault: &'static str,
}

/// Orders combinations so that a run that is ended early has tried all kinds: first one of each
/// fault at each place, and then the same for other files of the kind. Returns how many are of the
/// first kind, too.
pub fn order(chosen: Vec<Combination>, steps: &[Step]) -> (Vec<Combination>, usize) {
    let mut random = Random::new(&[chosen.len() as u64]);
    let mut shuffled: Vec<(u64, Combination)> =
        chosen.into_iter().map(|one| (random.below(u64::MAX), one)).collect();
    shuffled.sort();
    let mut earlier: HashMap<_, usize> = HashMap::new();
    let mut ordered: Vec<(usize, Combination)> = Vec::new();
    for (_, one) in shuffled {
        let step = steps.iter().find(|step| step.filter == one.filter).expect("a step");
        let place = step
            .calls
            .iter()
            .find(|(call, _)| *call == one.call)
            .and_then(|(_, places)| places.get(one.k - 1));
        let nth = earlier.entry((one.filter, one.call, one.fault, place)).or_default();
        ordered.push((*nth, one));
        *nth += 1;
    }
    ordered.sort_by_key(|(nth, _)| *nth);
    let places = ordered.iter().filter(|(nth, _)| *nth == 0).count();
    (ordered.into_iter().map(|(_, one)| one).collect(), places)
}

pub fn choose(words: &[&str], steps: &[Step]) -> Vec<Combination> {
    let of_filter = |filter: &str| {
        list_all(steps).into_iter().filter(|one| one.filter == filter).collect::<Vec<_>>()
    };
    match words {
        ["all"] => list_all(steps),
        ["all", filter] => of_filter(filter),
        ["all", filter, call] => {
            of_filter(filter).into_iter().filter(|one| one.call == *call).collect()
        }
        [filter, call, k, fault] => {
            let filter = STEPS.into_iter().find(|known| known == filter).expect("a filter");
            let (call, faults) =
                CALLS.into_iter().find(|(known, _)| known == call).expect("a call");
            let fault = faults.iter().find(|known| *known == fault).expect("a fault of that call");
            vec![Combination { filter, call, k: k.parse().expect("a number"), fault }]
        }
        _ => {
            let seed = words.first().map_or_else(new_seed, |seed| seed.parse().expect("a seed"));
            let number = words.get(1).map_or(SAMPLE, |number| number.parse().expect("a number"));
            say(&format!("{number} calls that fail, chosen by AZPIPE_FAULTS='{seed} {number}'"));
            draw(steps, seed, number)
        }
    }
}

/// Returns all combinations.
fn list_all(steps: &[Step]) -> Vec<Combination> {
    let mut all = Vec::new();
    for step in steps {
        for ((call, faults), (_, places)) in CALLS.into_iter().zip(&step.calls) {
            for k in 1..=places.len() {
                all.extend(faults.iter().map(|fault| Combination {
                    filter: step.filter,
                    call,
                    k,
                    fault,
                }));
            }
        }
    }
    all
}

/// Draws combinations, each kind of call as likely as any other, so that the few renames are tried
/// as often as the many reads, and each place of a kind as likely as any other, so that the one
/// recipe is tried as often as the many parts.
fn draw(steps: &[Step], seed: u64, number: usize) -> Vec<Combination> {
    let mut random = Random::new(&[seed]);
    let mut kinds = Vec::new();
    for step in steps {
        for ((call, faults), (_, places)) in
            CALLS.into_iter().zip(&step.calls).filter(|(_, (_, places))| !places.is_empty())
        {
            let mut numbers: BTreeMap<&Place, Vec<usize>> = BTreeMap::new();
            for (place, k) in places.iter().zip(1..) {
                numbers.entry(place).or_default().push(k);
            }
            kinds.push((step.filter, call, faults, numbers.into_values().collect::<Vec<_>>()));
        }
    }
    let mut chosen: Vec<Combination> = (0..number)
        .map(|_| {
            let (filter, call, faults, places) = &kinds[random.index(kinds.len())];
            let numbers = &places[random.index(places.len())];
            let k = numbers[random.index(numbers.len())];
            Combination { filter, call, k, fault: faults[random.index(faults.len())] }
        })
        .collect();
    chosen.sort();
    chosen.dedup();
    chosen
}

pub fn name(one: &Combination) -> String {
    format!("{} {} {} {}", one.filter, one.call, one.k, one.fault)
}
