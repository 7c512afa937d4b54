//! The whole pipe, run as users run it: `scan-find | plan-split | ai-integrate | gather`.

mod cuts;
mod formats;
mod kills;
mod live;
mod losses;
mod plan_checks;
mod recipes;
mod refusals;
mod reruns;
mod rings;
