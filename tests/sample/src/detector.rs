//! Detectors of modules and gaps, under the names that pyFAI knows them by.

use crate::Dtype;

/// A detector: a rectangular grid of modules with gaps between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Detector {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its class in pyFAI, as PONI files name it.
    pub class: &'static str,
    /// Its name in Bliss.
    pub device: &'static str,
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Edge of its square pixels in m.
    pub pixel: f64,
    /// Rows and columns of a module.
    module: [usize; 2],
    /// Rows and columns between modules.
    gap: [usize; 2],
    /// Columns that are dead in the middle of each module: two chips of CdTe meet there.
    seam: Option<[usize; 2]>,
    /// The type that it usually writes.
    pub dtype: Dtype,
    /// Distance to the sample in m, so that a dozen rings of LaB6 fall on it.
    pub distance: f64,
}

const PILATUS_MODULE: [usize; 2] = [195, 487];
const PILATUS_GAP: [usize; 2] = [17, 7];

/// All of them.
pub(crate) static DETECTORS: [Detector; 8] = [
    pilatus("pilatus-1m", "Pilatus1M", [1043, 981], 0.28),
    pilatus("pilatus-2m", "Pilatus2M", [1679, 1475], 0.45),
    pilatus("pilatus-300k", "Pilatus300k", [619, 487], 0.15),
    pilatus("pilatus-100k", "Pilatus100k", [195, 487], 0.12),
    eiger("eiger-4m", "Eiger4M", [2167, 2070], [514, 1030], [37, 10], None),
    eiger("eiger2-4m", "Eiger2_4M", [2162, 2068], [512, 1028], [38, 12], None),
    eiger("eiger2-cdte-1m", "Eiger2CdTe_1M", [1062, 1028], [512, 1028], [38, 12], Some([513, 515])),
    eiger("eiger2-cdte-4m", "Eiger2CdTe_4M", [2162, 2068], [512, 1028], [38, 12], Some([513, 515])),
];

const fn pilatus(
    name: &'static str,
    class: &'static str,
    shape: [usize; 2],
    distance: f64,
) -> Detector {
    Detector {
        name,
        class,
        device: "pilatus",
        shape,
        pixel: 172e-6,
        module: PILATUS_MODULE,
        gap: PILATUS_GAP,
        seam: None,
        dtype: Dtype::I32,
        distance,
    }
}

const fn eiger(
    name: &'static str,
    class: &'static str,
    shape: [usize; 2],
    module: [usize; 2],
    gap: [usize; 2],
    seam: Option<[usize; 2]>,
) -> Detector {
    // As far as the detector is high, and a half more.
    let distance = shape[0] as f64 * 1.5 * 75e-6;
    Detector {
        name,
        class,
        device: "eiger",
        shape,
        pixel: 75e-6,
        module,
        gap,
        seam,
        dtype: Dtype::U32,
        distance,
    }
}

impl Detector {
    /// Returns the same detector with another name in Bliss.
    pub fn with_device(&self, device: &'static str) -> Self {
        Self { device, ..self.clone() }
    }

    /// The detector of that name on the command line.
    pub fn named(name: &str) -> Option<&'static Self> {
        DETECTORS.iter().find(|detector| detector.name == name)
    }

    /// Pixels of a frame.
    pub fn pixels(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    /// Returns whether the pixel at this row and column has no sensor.
    pub fn is_gap(&self, row: usize, column: usize) -> bool {
        let along = column % (self.module[1] + self.gap[1]);
        let seam = self.seam.is_some_and(|[from, to]| (from..to).contains(&along));
        seam || along >= self.module[1] || row % (self.module[0] + self.gap[0]) >= self.module[0]
    }

    /// Where the beam meets the detector at right angles, in pixels: near its centre, on a module.
    pub(crate) fn centre(&self) -> [f64; 2] {
        [self.shape[0] as f64 * 0.47 + 0.3, self.shape[1] as f64 * 0.48 + 0.7]
    }
}
