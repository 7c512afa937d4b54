//! The whole pipe, run as users run it: `scan-find | plan-split | ai-integrate | gather`.

mod dead_time;
mod goniometer;
mod incident_angle;
mod incident_angle_refusals;
mod kills;
mod live;
mod losses;
mod mask_images;
mod moving_recipes;
mod pixel_statistics;
mod pixel_statistics_history;
mod pixel_statistics_mask;
mod pixel_statistics_rules;
mod plan_checks;
mod poni_table;
mod preview;
mod recipe_formats;
mod recipes;
mod refusals;
mod reruns;
mod rings;
mod sparse;
mod sparse_kept;
mod sparse_refusals;
mod split_invariance;
mod unusable_images;
