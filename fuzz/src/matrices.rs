//! Matrices as they are kept in files.

use std::sync::{Arc, LazyLock};

use integrator::{Integrator, PixelType};
use recipe::{Recipe, Settings};
use records::FrameLayout;

/// The recipe and frame layout of a stored integrator, and its bytes.
struct Kept {
    recipe: Recipe,
    framing: FrameLayout,
    bytes: Vec<u8>,
}

static KEPT: LazyLock<Kept> = LazyLock::new(|| {
    let poni = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\nDistance: 0.1\n\
                Poni1: 0.0003\nPoni2: 0.0004\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";
    let settings =
        Settings { geometry: Some(poni.to_owned()), npt: Some(7), ..Settings::default() };
    let recipe = Recipe::resolve(&settings).expect("a recipe");
    let framing = FrameLayout::full_frame([9, 11]);
    let mut bytes = Vec::new();
    let integrator = Integrator::new(&recipe, &framing, PixelType::U32).expect("an integrator");
    integrator.write_to(&mut bytes).expect("memory takes all");
    Kept { recipe, framing, bytes }
});

/// A kept matrix with some bytes changed: it is refused, or sums pixels without reading what is not
/// its own. The input is a list of changes: a place in two bytes, and the byte that stands there
/// now.
pub fn matrix(data: &[u8]) {
    let mut bytes = KEPT.bytes.clone();
    for change in data.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(byte) = bytes.get_mut(place) {
            *byte = change[2];
        }
    }
    if data.len() % 3 == 1 {
        bytes.truncate(usize::from(data[data.len() - 1]) * 16);
    }
    // Sections lie on borders of 64 bytes, as in a mapped file.
    let aligned = Aligned::new(&bytes);
    let _ =
        Integrator::from_memory(&KEPT.recipe, &KEPT.framing, PixelType::U32, Arc::new(aligned), 0);
}

/// Bytes on a border of 64.
struct Aligned {
    lines: Vec<[u8; 128]>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(bytes: &[u8]) -> Self {
        let mut lines = vec![[0; 128]; bytes.len() / 128 + 2];
        let start = lines.as_ptr().cast::<u8>().align_offset(64);
        lines.as_flattened_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        Self { lines, start, len: bytes.len() }
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &self.lines.as_flattened()[self.start..self.start + self.len]
    }
}
