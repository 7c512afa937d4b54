//! A recipe of the plan: the checks of scans, and the recipe of a scan whose geometry follows from
//! motors, or whose counts are corrected by its exposure time.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use integrator::PixelType;
use recipe::{Goniometer, Recipe, Time};
use records::{Acquisition, FrameLayout, RawPath, ScanState};
use system::atomic;
use system::ownership::{self, OwnershipRule};

use crate::plan_error::PlanError;
use crate::positions;
use crate::required_monitors::RequiredMonitors;
use crate::unsuitable_scan::UnsuitableScan;

/// The most positions of motors that are checked before a scan is integrated.
const MAX_CHECKED_POSITIONS: usize = 16;

/// A recipe of the plan.
pub struct PlannedRecipe {
    /// The path of the resolved recipe, absolute.
    pub file: RawPath,
    /// The digest of the resolved recipe.
    pub digest: String,
    /// The suffix for the names of final files.
    pub name: Option<String>,
    /// The resolved recipe.
    pub recipe: Recipe,
    /// Path of the table of PONI files that the recipe was made from.
    table: Option<RawPath>,
    monitors: RequiredMonitors,
    /// The goniometer, if the geometry follows from motors.
    goniometer: Option<Goniometer>,
    /// The results of checks by frame layout and pixel type. A check reads the images of the
    /// recipe, so it is made once for all scans of such frames.
    checked_layouts: RefCell<HashMap<(FrameLayout, String), Result<(), UnsuitableScan>>>,
    /// File and entry of the running scans that were warned of, because they lack a monitor yet.
    told_pending: RefCell<BTreeSet<(RawPath, String)>>,
    /// The recipes of scans that differ in their exposure time alone, by digest.
    at_exposure_times: RefCell<HashMap<String, Rc<PlannedRecipe>>>,
}

impl PlannedRecipe {
    /// Reads what the recipe needs of scans, and writes it below `out` if there is one. `table` is the
    /// path of the table of PONI files, if it was made from one.
    ///
    /// # Errors
    /// A monitor or the goniometer can't be read, or the recipe can't be written.
    pub fn new(
        recipe: Recipe,
        table: Option<RawPath>,
        name: Option<String>,
        out: Option<&Path>,
    ) -> Result<Self, PlanError> {
        let planned = Self {
            file: out.unwrap_or(Path::new("")).join(recipe.file_name()).into(),
            digest: recipe.digest(),
            name,
            table,
            monitors: RequiredMonitors::read(&recipe)?,
            goniometer: recipe.goniometer.as_ref().map(Goniometer::load).transpose()?,
            recipe,
            checked_layouts: RefCell::default(),
            told_pending: RefCell::default(),
            at_exposure_times: RefCell::default(),
        };
        let text = planned.recipe.to_toml();
        // ai-integrate parses this text: an error must show now, and not when the first job starts.
        Recipe::parse(&text, &planned.file, &planned.digest)?;
        // Recipes that follow scans are written scan by scan.
        if out.is_some() && !planned.follows_scans() {
            planned.write()?;
        }
        Ok(planned)
    }

    /// Returns the paths of all files that the recipe was made from.
    pub fn file_paths(&self) -> impl Iterator<Item = &Path> {
        self.recipe.file_paths().chain(self.table.as_deref())
    }

    /// Returns whether the geometry follows from motors of a scan.
    fn follows_motors(&self) -> bool {
        self.recipe.goniometer.is_some() || self.recipe.incident_angle_motor().is_some()
    }

    /// Returns whether a part of the recipe follows from a scan.
    fn follows_scans(&self) -> bool {
        self.follows_motors() || self.recipe.needs_exposure_time()
    }

    /// Checks that the recipe can be applied to a scan, by the same rules as ai-integrate, so that
    /// mistakes are found before jobs run. `warn` is called with what the first check of such frames
    /// finds and does not refuse.
    ///
    /// # Errors
    /// Returns what was found and what was expected.
    pub fn check_scan(
        &self,
        scan: &Acquisition,
        warn: impl Fn(&str),
    ) -> Result<(), UnsuitableScan> {
        let key = (scan.frame_layout(), scan.dtype.clone());
        let mut checked_layouts = self.checked_layouts.borrow_mut();
        let known = checked_layouts.get(&key).cloned();
        let checked = known.unwrap_or_else(|| {
            let warnings = self.check_layout(&key.0, &key.1)?;
            warnings.iter().for_each(|warning| warn(warning));
            Ok(())
        });
        // What could not be read for this scan may be readable for the next one.
        if !matches!(&checked, Err(UnsuitableScan { retryable: true, .. })) {
            checked_layouts.insert(key, checked.clone());
        }
        checked?;
        self.monitors.check(scan)?;
        self.monitors.describe_longer(scan).iter().for_each(|warning| warn(warning));
        let pending = self.monitors.describe_pending(scan);
        // A scan that runs has many records.
        if !pending.is_empty()
            && self.told_pending.borrow_mut().insert((scan.file.clone(), scan.entry.clone()))
        {
            pending.iter().for_each(|warning| warn(warning));
        }
        Ok(())
    }

    fn check_layout(
        &self,
        layout: &FrameLayout,
        dtype: &str,
    ) -> Result<Vec<String>, UnsuitableScan> {
        let dtype: PixelType = dtype.parse().map_err(|why| format!("frames: {why}"))?;
        let check = |recipe: &Recipe| {
            // A picture needs no exposure time, and tasks are of recipes that have it.
            let uncorrected =
                recipe.needs_exposure_time().then(|| Recipe { dead_time: None, ..recipe.clone() });
            let recipe = uncorrected.as_ref().unwrap_or(recipe);
            integrator::check(recipe, &recipe.framing(layout), dtype).map_err(|why| {
                UnsuitableScan { why: why.to_string(), retryable: why.is_retryable() }
            })
        };
        if self.follows_motors() {
            return self.check_some_positions(check);
        }
        if self.recipe.poni_table.is_empty() {
            return check(&self.recipe);
        }
        let (mut checked, mut warnings) = (HashSet::new(), Vec::new());
        for range in &self.recipe.poni_table {
            if checked.insert(&range.poni) {
                let found =
                    check(&self.recipe.at_range(range)).map_err(|unsuitable| UnsuitableScan {
                        why: format!("{}: {}", range.poni_file.display(), unsuitable.why),
                        ..unsuitable
                    })?;
                warnings.extend(found);
            }
        }
        warnings.sort_unstable();
        warnings.dedup();
        Ok(warnings)
    }

    /// Checks some positions of motors, which may have thousands. At one of them a pixel must be
    /// in the range.
    fn check_some_positions(
        &self,
        check: impl Fn(&Recipe) -> Result<Vec<String>, UnsuitableScan>,
    ) -> Result<Vec<String>, UnsuitableScan> {
        let ranges = &self.recipe.poni_table;
        let step = ranges.len().div_ceil(MAX_CHECKED_POSITIONS).max(1);
        let mut refusal = None;
        for range in ranges.iter().step_by(step) {
            match check(&self.recipe.at_range(range)) {
                Ok(warnings) => return Ok(warnings),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        refusal.map_or(Ok(Vec::new()), Err)
    }

    /// Returns the recipe of a scan, if a part of it follows from the scan: with the geometry of each
    /// range of frames, and the exposure time. `warn` is called if frames have no geometry.
    ///
    /// # Errors
    /// The scan lacks a motor or is being recorded, or a motor can't be read; it lacks the exposure time.
    pub fn at_scan(
        &self,
        scan: &Acquisition,
        warn: impl Fn(&str),
    ) -> Result<Option<Rc<Self>>, UnsuitableScan> {
        if self.recipe.dead_time.is_some() {
            check_counts(scan)?;
        }
        if !self.follows_scans() {
            return Ok(None);
        }
        let recipe = match self.recipe.needs_exposure_time() {
            true => self.recipe.with_exposure_time(exposure_time(scan)?),
            false => self.recipe.clone(),
        };
        if self.follows_motors() {
            let ranges = positions::find_geometries(scan, &recipe, self.goniometer.as_ref(), warn)?;
            return Ok(Some(Rc::new(self.with_recipe(recipe.with_geometries(ranges)))));
        }
        let mut known = self.at_exposure_times.borrow_mut();
        let at_scan =
            known.entry(recipe.digest()).or_insert_with(|| Rc::new(self.with_recipe(recipe)));
        Ok(Some(Rc::clone(at_scan)))
    }

    /// Returns this recipe with the parts that follow from a scan.
    fn with_recipe(&self, recipe: Recipe) -> Self {
        let directory = self.file.ancestors().nth(2).unwrap_or(Path::new(""));
        Self {
            file: directory.join(recipe.file_name()).into(),
            digest: recipe.digest(),
            name: self.name.clone(),
            recipe,
            table: None,
            monitors: self.monitors.clone(),
            goniometer: None,
            checked_layouts: RefCell::default(),
            told_pending: RefCell::default(),
            at_exposure_times: RefCell::default(),
        }
    }

    /// Writes the recipe of a scan.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self) -> Result<(), PlanError> {
        let path = self.file.to_path_buf();
        let text = self.recipe.to_toml();
        Recipe::parse(&text, &path, &self.digest)?;
        write_recipe(&path, &text).map_err(|why| PlanError::Write { path, why })
    }

    /// Describes the image operation on frames of this layout that the recipe undoes; `None` if it
    /// undoes none.
    pub fn undone_operation(&self, layout: &FrameLayout) -> Option<String> {
        let operation =
            layout.operation.as_ref().filter(|_| self.recipe.framing(layout) == *layout)?;
        Some(operation.describe())
    }
}

/// Checks that pixels of a scan's frames have the counts of one pixel of the detector, as it counted
/// them.
///
/// # Errors
/// The detector has corrected its counts, or each pixel has the sum of several.
fn check_counts(scan: &Acquisition) -> Result<(), UnsuitableScan> {
    if scan.countrate_correction_applied == Some(true) {
        let why = "dead-time: the file says that the detector has corrected its counts already \
                   (countrate_correction_applied); leave out dead-time";
        return Err(why.to_owned().into());
    }
    match scan.image_operation.as_ref().map(|operation| operation.binning) {
        None | Some([1, 1]) => Ok(()),
        Some([rows, columns]) => Err(format!(
            "dead-time: frames are binned {rows} x {columns}: each pixel has the sum of several, and how much each has counted is \
             not known; leave out dead-time"
        )
        .into()),
    }
}

/// Returns the exposure time of a scan's frames.
///
/// # Errors
/// The scan records none, or one that no frame can have.
fn exposure_time(scan: &Acquisition) -> Result<Time, UnsuitableScan> {
    let is_running = scan.scan_state() == ScanState::Running;
    let or_later = if is_running { ", or run again when the scan has ended" } else { "" };
    let refuse = |what: String, retryable| UnsuitableScan {
        why: format!(
            "dead-time: the scan records {what}; give the exposure time of a frame in seconds, as in \
             --exposure-time 0.1{or_later}"
        ),
        retryable,
    };
    let seconds =
        scan.exposure_time.ok_or_else(|| refuse("no exposure time".to_owned(), is_running))?;
    Time::new(seconds).ok_or_else(|| refuse(format!("an exposure time of {seconds} s"), false))
}

/// Writes a resolved recipe, unless the same text is there. The same recipe may be there with other
/// paths to its files; the newest paths count.
fn write_recipe(path: &Path, text: &str) -> std::io::Result<()> {
    atomic::remove_stale_files_once(path.parent().unwrap_or(Path::new("")));
    if system::untrusted_file::read_text(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    ownership::create_directories(path.parent().unwrap_or(Path::new("")))?;
    atomic::write(path, text, &OwnershipRule::in_azpipe_dir())
}
