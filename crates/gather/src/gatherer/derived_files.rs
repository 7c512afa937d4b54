//! Writes what is made from final files: exports, plots and the report.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use filter::Stop;
use patterns::Status;
use patterns::export::{ExportContent, ExportError, ExportFormat};
use patterns::output::{self, OutputFile, Replaced};
use patterns::{export, plot};
use recipe::{Recipe, RecipeError};
use records::{Fail, RawPath, ScanState, Spans, Summary};
use serde_json::Value;
use system::untrusted_file;

use super::Gatherer;
use crate::plots::plot_path;
use crate::scan_group::ScanGroup;
use crate::{export_messages, messages};

impl Gatherer<'_> {
    /// Writes the report of `--report`.
    ///
    /// # Errors
    /// Fails if the report can't be written.
    pub fn write_report(&mut self) -> Result<(), Stop> {
        let Some(path) = &self.args.output.report else { return Ok(()) };
        for summary in &self.summaries {
            let final_file = match OutputFile::open(&summary.final_file) {
                Ok(final_file) => Some(final_file),
                // None was written.
                Err(output::OutputError::Io { why, .. })
                    if why.kind() == ErrorKind::NotFound
                        && !summary.extra.contains_key("layout") =>
                {
                    None
                }
                Err(why) => {
                    self.warn_of_missing_plot(path, &why);
                    None
                }
            };
            if let Some(final_file) = &final_file {
                self.protect_inputs(final_file);
            }
            if let Err(why) = self.report.add(summary, final_file.as_ref()) {
                self.warn_of_missing_plot(path, &why);
            }
        }
        self.report.write(path, &self.policy).map_err(|why| Stop::fatal(path.display(), why))
    }

    fn warn_of_missing_plot(&self, report: &Path, why: &dyn std::error::Error) {
        self.filter.warn(&messages::no_plot_in_report(report, why));
        self.filter.mark_failed();
    }

    /// Writes the exports and the plot of a final file, and adds their paths to the fields of its
    /// summary. If it took the place of other data or counters, warns of exports that are still of these.
    pub(super) fn write_exports_and_plot(
        &mut self,
        group: &mut ScanGroup,
        summary: &mut Summary,
        replaced: Replaced,
    ) -> Result<(), Stop> {
        let output = &self.args.output;
        self.finals.insert(group.target.path());
        let map = self.args.map_request();
        let wants_none = output.export.is_empty()
            && map.is_none()
            && !self.args.reduction.writes_patterns()
            && !output.pixel_images
            && self.drift.is_none()
            && output.plot.is_none();
        let path = group.target.path();
        let outdated = self.find_outdated_exports(group, &summary.data_digest, replaced)?;
        if wants_none && outdated.is_empty() {
            return Ok(());
        }
        let final_file = match OutputFile::open(&path) {
            Ok(final_file) => final_file,
            Err(error) => return self.report_output_error(group, &error),
        };
        self.protect_inputs(&final_file);
        let (mut exports, mut written) = (Vec::new(), Vec::new());
        let reduction = self.find_reduction(group, &final_file, summary)?;
        let averages_nothing = self.find_averages_of_nothing(group, &final_file)?;
        for format in &output.export {
            if averages_nothing && format.content() == ExportContent::Averages {
                continue;
            }
            self.warn_of_missing_errors(*format, &final_file);
            let reduction = reduction.filter(|_| format.content() == ExportContent::Averages);
            let of_each: Vec<_> = std::iter::once(None)
                .chain(reduction.map(Some))
                .map(|reduction| format.write(&final_file, reduction, &self.policy))
                .collect();
            for written in of_each {
                match written {
                    Ok(written) => exports.extend(written),
                    Err(why) => self.report_failure(group, &path, &why, why.io_error())?,
                }
            }
        }
        // A merge of scans has no positions.
        let scan = &final_file.task.acquisition;
        let has_positions = !scan.sources.is_empty() || !scan.counters.is_empty();
        if let Some(request) = map.as_ref().filter(|_| has_positions) {
            match export::write_map(&final_file, request, &self.policy) {
                Ok(map) => {
                    if !map.is_grid {
                        self.filter.warn(&messages::no_grid(&map.path, request));
                    }
                    let has_ended = scan.scan_state() != ScanState::Running;
                    if !map.without_position.is_empty() && has_ended {
                        let frames = &map.without_position;
                        self.filter.warn(&messages::frames_without_position(&map.path, frames));
                        self.filter.mark_failed();
                    }
                    summary.extra.insert("map".to_owned(), to_json(map.path.clone()));
                    written.push(map.path);
                }
                Err(why) => self.report_failure(group, &path, &why, why.io_error())?,
            }
        }
        let patterns = match reduction {
            Some(reduction) => {
                self.write_reduced_patterns(group, &final_file, reduction, summary)?
            }
            None => None,
        };
        written.extend(patterns.clone());
        if output.pixel_images && !group.is_merged {
            written.extend(self.write_pixel_images(group, &final_file, summary)?);
        }
        if !group.is_merged {
            written.extend(self.write_drift(group, &final_file, summary)?);
        }
        if patterns.is_some() || !outdated.is_empty() {
            // A file that the run reads, such as a mask, stays as it is.
            let is_read = |path: &Path| matches!(self.policy.protected.contains(path), Ok(true));
            let is_earlier = |path: &PathBuf| {
                !exports.contains(path) && !written.contains(path) && !is_read(path)
            };
            let warned = export::existing_exports(&final_file).and_then(|mut earlier| {
                earlier.retain(&is_earlier);
                self.warn_of_earlier_exports(
                    &final_file,
                    earlier,
                    &outdated,
                    replaced,
                    patterns.as_deref(),
                )
            });
            if let Err(why) = warned {
                self.report_failure(group, &path, &why, why.io_error())?;
            }
        }
        if !exports.is_empty() {
            let exports: Vec<Value> = exports.into_iter().map(to_json).collect();
            summary.extra.insert("export".to_owned(), exports.into());
        }
        let Some(flag) = output.plot.as_deref() else { return Ok(()) };
        let plot = plot_path(flag, &path);
        if let Err(why) = self.plot_names.reserve(&plot, &path) {
            return self.report_failure(group, &plot, &why, None);
        }
        if let Err(why) = plot::draw(&final_file, &plot, &self.policy) {
            return self.report_failure(group, &plot, &why, why.io_error());
        }
        summary.extra.insert("plot".to_owned(), to_json(plot));
        Ok(())
    }

    /// Tells that there is no final file, because no frame of the scan has a pattern, and that nothing is
    /// exported.
    pub(super) fn report_final_not_written(&mut self, group: &mut ScanGroup) -> Result<(), Stop> {
        let path = group.target.path();
        match path.try_exists() {
            Ok(false) => (),
            // An earlier one is kept.
            Ok(true) => return Ok(()),
            Err(why) => return self.report_failure(group, &path, &why, Some(&why)),
        }
        let why = messages::final_not_written(&path);
        if group.printed_warnings.insert(why.clone()) {
            self.filter.warn(&why);
        }
        match self.args.output.export.is_empty() {
            true => Ok(()),
            false => {
                let why = ExportError::NoPattern { path: path.clone() };
                self.report_failure(group, &path, &why, None)
            }
        }
    }

    /// Returns whether there is nothing to export because no frame of any average has a pattern, which is a
    /// failure once the scan has ended. Warns of ranges of frames without a pattern, which are not exported.
    fn find_averages_of_nothing(
        &mut self,
        group: &mut ScanGroup,
        final_file: &OutputFile,
    ) -> Result<bool, Stop> {
        let scan = &final_file.task.acquisition;
        let mut formats = self.args.output.export.iter();
        let exports_averages = formats.any(|format| format.content() == ExportContent::Averages);
        let Some(averaged) = final_file.averaged.as_ref().filter(|_| exports_averages) else {
            return Ok(false);
        };
        let is_running = scan.scan_state() == ScanState::Running;
        let frames = averaged.frames_without_average(scan.frames);
        let statuses = (0_u64..).zip(&final_file.status);
        let never_taken = statuses.filter(|(_, status)| **status == Status::NeverTaken);
        let never_taken: Spans = never_taken.map(|(frame, _)| frame).collect();
        if frames.count() == scan.frames {
            if !is_running {
                let why = ExportError::NoPattern { path: final_file.path.clone() };
                self.report_failure(group, &final_file.path, &why, None)?;
            }
            return Ok(true);
        }
        let lost = frames.difference(&never_taken);
        if !is_running && !lost.is_empty() {
            self.filter.warn(&export_messages::averages_of_nothing(&final_file.path, &lost));
        }
        Ok(false)
    }

    /// Warns once of a format that needs errors and gets patterns without.
    fn warn_of_missing_errors(&mut self, format: &dyn ExportFormat, final_file: &OutputFile) {
        let Some(instead) = format.missing_errors() else { return };
        if !final_file.recipe.error_model.has_errors() && self.without_errors.insert(format.name())
        {
            let message = export_messages::no_errors(&final_file.path, format.name(), instead);
            self.filter.warn(&message);
        }
    }

    /// Returns the exports that are of what the final file held before.
    fn find_outdated_exports(
        &mut self,
        group: &mut ScanGroup,
        data_digest: &str,
        replaced: Replaced,
    ) -> Result<Vec<(PathBuf, Replaced)>, Stop> {
        let (root, name) = (group.target.out_root(), &group.target.task().final_file);
        match export::outdated_exports(root, name, data_digest, replaced) {
            Ok(outdated) => Ok(outdated),
            Err(why) => {
                let path = group.target.path();
                self.report_failure(group, &path, &why, why.io_error())?;
                Ok(Vec::new())
            }
        }
    }

    /// Warns of exports of earlier runs: of those that are `outdated`, and otherwise of those of reduced
    /// patterns, if such were written to `patterns`.
    fn warn_of_earlier_exports(
        &self,
        final_file: &OutputFile,
        mut earlier: Vec<PathBuf>,
        outdated: &[(PathBuf, Replaced)],
        replaced: Replaced,
        patterns: Option<&Path>,
    ) -> Result<(), ExportError> {
        let path = &final_file.path;
        for cause in [Replaced::Data, Replaced::Counters] {
            let is = |file: &PathBuf| outdated.contains(&(file.clone(), cause));
            let of_cause: Vec<PathBuf> = earlier.iter().filter(|file| is(file)).cloned().collect();
            if !of_cause.is_empty() {
                self.filter.warn(&messages::outdated_exports(path, &of_cause, cause));
                export::mark_outdated(final_file, &of_cause, cause)?;
                earlier.retain(|file| !of_cause.contains(file));
            }
        }
        let Some(patterns) = patterns.filter(|_| replaced == Replaced::Nothing) else {
            return Ok(());
        };
        // Such as `NAME.absolute`, which names of all formats begin with.
        let stem = patterns.file_stem().unwrap_or_default().as_encoded_bytes();
        earlier.retain(|path| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            name.strip_prefix(stem)
                .is_some_and(|rest| rest.starts_with(b".") || rest.starts_with(b"_"))
        });
        if !earlier.is_empty() {
            self.filter.warn(&messages::exports_of_other_reductions(patterns, &earlier));
        }
        Ok(())
    }

    /// Draws the plot of a run with a single final file once more, under the name that `--plot`
    /// has. In a run with several, warns of a picture of that name that shows none of them.
    ///
    /// # Errors
    /// Fails if the final file can't be read, or the plot not be written.
    pub fn plot_single_scan(&self) -> Result<(), Stop> {
        let Some(flag) = &self.args.output.plot else { return Ok(()) };
        let Some(path) = self.plot_names.single() else {
            let plots: Vec<&Path> = self.plot_names.paths().collect();
            if !plots.is_empty() && plot::is_other_picture(flag, &plots) {
                self.filter.warn(&messages::earlier_plot(flag, &plots));
            }
            return Ok(());
        };
        let final_file = OutputFile::open(path).map_err(|why| Stop::fatal("--plot", why))?;
        self.protect_inputs(&final_file);
        plot::draw(&final_file, flag, &self.policy).map_err(|why| Stop::fatal("--plot", why))
    }

    /// Draws the mean patterns of all final files of the run, if `--plot-scans` is set.
    ///
    /// # Errors
    /// Fails if the plot can't be written, and as [`Filter::emit`](filter::Filter::emit) does.
    pub fn plot_scans(&self) -> Result<(), Stop> {
        let Some(path) = &self.args.output.plot_scans else { return Ok(()) };
        let arrangement = if self.args.output.stack {
            plot::ScanArrangement::Stacked
        } else {
            plot::ScanArrangement::Overlaid
        };
        let mut curves = plot::ScanCurves::new(arrangement);
        for final_file in &self.finals {
            self.filter.check_stopped()?;
            let added = OutputFile::open(final_file).and_then(|output| {
                self.protect_inputs(&output);
                curves.add(&output)
            });
            match added {
                Ok(true) => (),
                Ok(false) => self.filter.warn(&messages::scan_not_in_plot(path, final_file)),
                Err(why) => {
                    let (about, retryable) = (path.display().to_string(), why.io_error().is_some());
                    self.filter.fail(Fail {
                        about,
                        error: why.to_string(),
                        retryable,
                        ..Fail::default()
                    })?;
                }
            }
        }
        if curves.is_empty() {
            return Ok(());
        }
        plot::draw_scans(&curves, path, &self.policy)
            .map_err(|why| Stop::fatal("--plot-scans", why))
    }

    /// Protects a final file, its raw data and the files of its recipe from being replaced by
    /// exports, plots and the report. Warns, once of each, if the newest recipe can't be read.
    fn protect_inputs(&self, final_file: &OutputFile) {
        let protected = &self.policy.protected;
        let task = &final_file.task;
        let scan = &task.acquisition;
        protected.add(&final_file.path);
        protected.add(&scan.file);
        scan.sources.iter().for_each(|source| protected.add(&source.file));
        let newest = read_newest_recipe(final_file);
        let recipe = match &newest {
            Some(Ok(recipe)) => recipe,
            None | Some(Err(_)) => &final_file.recipe,
        };
        recipe.file_paths().for_each(|path| protected.add(path));
        if let Some(Err(why)) = &newest
            && self.unread_recipes.borrow_mut().insert(task.recipe.to_path_buf())
        {
            self.filter.warn(&export_messages::recipe_not_read(why));
        }
    }
}

/// Reads the recipe that plan-split stored last, which has the newest paths of its files; a final
/// has those of the run that made it. Returns `None` if it was removed, and for merged finals,
/// which have no recipe of their own: their members' are read.
fn read_newest_recipe(final_file: &OutputFile) -> Option<Result<Recipe, RecipeError>> {
    if final_file.is_merged() {
        return None;
    }
    let task = &final_file.task;
    match untrusted_file::read_text(&task.recipe) {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
        Err(why) => Some(Err(RecipeError::Io { path: task.recipe.to_path_buf(), why })),
        Ok(text) => Some(Recipe::parse(&text, &task.recipe, &task.recipe_digest)),
    }
}

pub(super) fn to_json(path: PathBuf) -> Value {
    let path = std::path::absolute(&path).unwrap_or(path);
    serde_json::to_value(RawPath::from(path)).expect("a path serializes")
}
