//! Draws frames of a scan with the recipe's mask, the beam centre and the rings of a calibrant,
//! because a wrong PONI file or mask is the commonest mistake and is seen at once.

use std::path::{Path, PathBuf};

use detector_image::{DetectorImage, PictureError, PixelKind};
use geometry::Poni;
use integrator::preview::{MeanFrame, PixelView, PreviewError};
use recipe::{Calibrant, Recipe, ring_angles};
use records::{Acquisition, Spans, format_count};
use system::ownership::ReplacePolicy;

use crate::frame_range::FrameRange;
use crate::messages;

/// The number of frames that are averaged by default.
const DEFAULT_FRAMES: u64 = 10;
/// Metres of an angstrom.
const ANGSTROM: f64 = 1e-10;
/// Photon energy times wavelength, in keV Å.
const KEV_ANGSTROM: f64 = 12.398_419_843_320_026;

/// The picture of a run, which is drawn for its first scan.
pub struct Preview {
    path: PathBuf,
    calibrant: Option<(String, Vec<f64>)>,
    frames: Option<FrameRange>,
    policy: ReplacePolicy,
}

/// The picture can't be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// The calibrant's file can't be used.
    #[error("--calibrant {}: {why}", path.display())]
    Calibrant {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The geometry has no wavelength, from which the angles of rings follow.
    #[error("--calibrant: the rings need a wavelength, and {} gives none; add `Wavelength: METRES` to it", poni.display())]
    NoWavelength {
        /// The PONI file.
        poni: PathBuf,
    },
    /// The chosen frames are not in the scan.
    #[error("--preview-frames: the scan has {}", messages::frames_from_0(*frames))]
    NoSuchFrames {
        /// The number of frames of the scan.
        frames: u64,
    },
    /// The scan has no frame with data.
    #[error("no frame has data")]
    NoData,
    /// The frames can't be read, or the recipe can't be applied to them.
    #[error(transparent)]
    Pixels(#[from] PreviewError),
    /// The frames have several geometries.
    #[error(
        "the geometry differs between frames, and a picture has one; pass --poni with the file of the frames to draw, and a number of degrees as --incident-angle"
    )]
    Moving,
    /// The picture can't be written.
    #[error(transparent)]
    Write(#[from] PictureError),
    /// The threads that compute the angles of pixels can't be started.
    #[error("starting threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

impl DrawError {
    /// Returns whether another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Pixels(why) if why.is_retryable())
    }
}

impl Preview {
    /// Makes the picture. Checks early that the file may be written and that the
    /// calibrant can be read.
    ///
    /// # Errors
    /// The file has another extension than `.png` or is somebody else's; the calibrant's file can't
    /// be used; threads can't be started.
    pub fn new(
        path: PathBuf,
        calibrant: Option<Calibrant>,
        frames: Option<FrameRange>,
        policy: ReplacePolicy,
    ) -> Result<Self, DrawError> {
        detector_image::check(&path, &policy)?;
        let read = |calibrant: Calibrant| match (calibrant.spacings(), &calibrant) {
            (Ok(spacings), _) => Ok((calibrant.name(), spacings)),
            (Err(why), Calibrant::File(path)) => {
                Err(DrawError::Calibrant { path: path.clone(), why })
            }
            (Err(why), Calibrant::Known { name, .. }) => {
                Err(DrawError::Calibrant { path: name.into(), why })
            }
        };
        let calibrant = calibrant.map(read).transpose()?;
        // rayon would panic where it first needs its threads.
        let threads = system::cpu::available_cpus();
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
        Ok(Self { path, calibrant, frames, policy })
    }

    /// Returns which files the picture may replace.
    pub fn policy(&self) -> &ReplacePolicy {
        &self.policy
    }

    /// Returns the path of the picture.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Draws frames of a scan with the geometry and the masks of a recipe. Returns a warning if the
    /// calibrant has no ring in the frames.
    ///
    /// # Errors
    /// Frames or files of the recipe can't be read; the picture can't be written.
    pub fn draw(&self, scan: &Acquisition, recipe: &Recipe) -> Result<Option<String>, DrawError> {
        if recipe.has_moving_geometry() {
            return Err(DrawError::Moving);
        }
        let frames = self.select_frames(scan)?;
        let poni = Poni::parse(&recipe.poni)
            .expect("a resolved recipe has a PONI text that can be parsed");
        let rings = match (&self.calibrant, poni.wavelength) {
            (None, _) => Vec::new(),
            (Some(_), None) => return Err(DrawError::NoWavelength { poni: recipe.poni_label() }),
            (Some((_, spacings)), Some(wavelength)) => ring_angles(spacings, wavelength / ANGSTROM),
        };
        let layout = recipe.framing(&scan.frame_layout());
        let view = PixelView::new(recipe, &layout).map_err(PreviewError::from)?;
        let mean = MeanFrame::read(recipe, scan, &frames)?;
        let warning = self
            .calibrant
            .as_ref()
            .and_then(|(name, _)| warn_of_missing_rings(name, &rings, &view.two_theta));
        let kinds = classify_pixels(&view, &mean);
        let mut image = DetectorImage {
            shape: scan.shape.map(|length| length as usize),
            counts: mean.counts,
            kinds,
            two_theta: view.two_theta,
            rings,
            ring_name: self.calibrant.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            title: title(scan, &frames),
            notes: Vec::new(),
        };
        image.notes = describe_geometry(&poni, recipe, &view.detector, image.beam_center());
        self.protect_raw_data(scan);
        image.draw(&self.path, &self.policy)?;
        Ok(warning)
    }

    fn protect_raw_data(&self, scan: &Acquisition) {
        self.policy.protected.add(&scan.file);
        scan.sources.iter().for_each(|source| self.policy.protected.add(&source.file));
    }

    /// Returns the frames to draw: those that were chosen, or some that have data, spread over the
    /// scan.
    fn select_frames(&self, scan: &Acquisition) -> Result<Vec<u64>, DrawError> {
        if let Some(FrameRange { first, last }) = self.frames {
            return match last < scan.frames {
                true => Ok((first..=last).collect()),
                false => Err(DrawError::NoSuchFrames { frames: scan.frames }),
            };
        }
        let there = Spans::union_all(scan.sources.iter().map(|source| &source.frames));
        let absent = Spans::union_all(scan.absent.iter().map(|absent| &absent.range));
        let there = there.difference(&absent);
        let (count, wanted) = (there.count(), there.count().min(DEFAULT_FRAMES));
        let spread =
            (0..wanted).filter_map(|index| there.slice(index * count / wanted, 1).iter().next());
        let frames: Vec<u64> = spread.collect();
        if frames.is_empty() { Err(DrawError::NoData) } else { Ok(frames) }
    }
}

/// Returns a warning if no ring is between the smallest and the largest 2theta of the pixels. All
/// are in degrees.
fn warn_of_missing_rings(name: &str, rings: &[f64], two_theta: &[f64]) -> Option<String> {
    let low = two_theta.iter().copied().fold(f64::INFINITY, f64::min);
    let high = two_theta.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let has_ring = rings.iter().any(|ring| (low..=high).contains(ring));
    (!has_ring).then(|| messages::no_ring_in_frame(name, [low, high]))
}

/// Returns the kind of each pixel. A pixel that is masked for several reasons has the first of
/// them.
fn classify_pixels(view: &PixelView, mean: &MeanFrame) -> Vec<PixelKind> {
    let pixels = view.gaps.iter().zip(&view.mask).zip(&mean.counts);
    let kind = |((gap, masked), counts): ((&bool, &bool), &f64)| match (gap, masked) {
        (true, _) => PixelKind::Gap,
        (false, true) => PixelKind::Masked,
        (false, false) if counts.is_nan() => PixelKind::Invalid,
        (false, false) => PixelKind::Valid,
    };
    pixels.map(kind).collect()
}

/// Returns the title: file, entry and detector, and which frames are shown.
fn title(scan: &Acquisition, frames: &[u64]) -> String {
    let file = scan.file.file_name().unwrap_or_default().to_string_lossy();
    let shown = match frames {
        [frame] => format!("frame {frame}"),
        [first, .., last] => {
            format!("mean of {} between {first} and {last}", format_count(frames.len(), "frame"))
        }
        [] => "no frame".to_owned(),
    };
    format!("{file} {}, {}: {shown}", scan.entry, scan.detector)
}

/// Describes the geometry in two lines.
fn describe_geometry(
    poni: &Poni,
    recipe: &Recipe,
    detector: &str,
    beam: Option<[f64; 2]>,
) -> Vec<String> {
    let beam = match beam {
        Some([row, column]) => format!("beam at row {row:.1}, column {column:.1}"),
        None => "beam outside the image".to_owned(),
    };
    let tilt = (poni.rot1.cos() * poni.rot2.cos()).clamp(-1.0, 1.0).acos().to_degrees();
    let wavelength = poni.wavelength.map(|wavelength| wavelength / ANGSTROM).map(|wavelength| {
        format!(", wavelength {wavelength:.5} Å ({:.3} keV)", KEV_ANGSTROM / wavelength)
    });
    // pyFAI calls a detector of which only the pixel size is known `Detector`.
    let detector = if detector == "Detector" { "unnamed detector" } else { detector };
    let file = recipe.poni_label();
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    vec![
        format!(
            "{file}: {detector}, distance {:.3} mm{}",
            poni.dist * 1e3,
            wavelength.unwrap_or_default()
        ),
        format!("{beam}, tilt {tilt:.3}°"),
    ]
}
