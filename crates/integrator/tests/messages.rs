//! Lists all errors of the crate, so that they can be read side by side.

use std::io;

use integrator::{AssembleError, DecodeError, IntegratorError, PixelType};
use recipe::{Recipe, RecipeError, Settings};
use records::FrameLayout;

const PONI: &str = "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {\"orientation\": 3}\n\
                    Distance: 0.2\nPoni1: 0.01677\nPoni2: 0.0\nRot1: 0\nRot2: 0\nRot3: 0\n";

#[test]
fn errors() {
    let errors = [
        IntegratorError::Geometry {
            poni: "geometry.poni".into(),
            why: "detector Eiger2CdTe_4M has 2162 x 2068 pixels".to_owned(),
        },
        IntegratorError::Image {
            role: "mask",
            name: "mask.npy".to_owned(),
            why: "0 images; expected at least one".to_owned(),
        },
        IntegratorError::Shape {
            role: "dark",
            name: "dark.edf".to_owned(),
            found: [2, 3],
            expected: [195, 487],
        },
        IntegratorError::Binning("0 radial bins; expected at least 1".to_owned()),
        IntegratorError::NoPixels("no pixel in radial range 1 to 2 q_nm^-1".to_owned()),
        IntegratorError::File(RecipeError::Changed {
            path: "mask.npy".into(),
            found: "0a".to_owned(),
            expected: "1b".to_owned(),
        }),
        IntegratorError::Coding("the pixel type is u16; expected i32 as in the task".to_owned()),
        IntegratorError::NothingValid {
            dtype: "u16".to_owned(),
            settings: "valid-min 65536".to_owned(),
        },
        IntegratorError::Unsupported("sensor CdTe,1mm: needs a wavelength".to_owned()),
    ];
    let messages = [
        "geometry.poni: detector Eiger2CdTe_4M has 2162 x 2068 pixels",
        "mask mask.npy: 0 images; expected at least one",
        "dark dark.edf: 2 x 3 pixels; expected 195 x 487 like the frames: give a dark of this shape",
        "binning: 0 radial bins; expected at least 1",
        "binning: no pixel in radial range 1 to 2 q_nm^-1",
        "mask.npy: has changed since the recipe was made (SHA-256 0a, expected 1b); run plan-split again",
        "the pixel type is u16; expected i32 as in the task",
        "no value of u16 pixels is valid: valid-min 65536; change these settings, which exclude all values",
        "sensor CdTe,1mm: needs a wavelength",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);

    let end = io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends early");
    let read = AssembleError::Read { offset: 4096, why: end };
    assert_eq!(read.to_string(), "offset 4096: the file ends early");
    let decode = AssembleError::Decode {
        offset: 4096,
        why: DecodeError::Length { filter: "raw", found: 99, expected: 100 },
    };
    assert_eq!(decode.to_string(), "offset 4096: raw: 99 bytes; expected 100");
}

#[test]
fn errors_of_recipes() {
    let error_of = |settings: Settings, shape| {
        let settings =
            Settings { geometry: Some(PONI.to_owned()), unit: "2th_deg".parse().ok(), ..settings };
        let recipe = Recipe::resolve(&settings).expect("a recipe");
        integrator::check(&recipe, &FrameLayout::full_frame(shape), PixelType::U16)
            .expect_err("an error")
            .to_string()
    };
    let frames = [195, 487];
    let sensor =
        Settings { sensor: Some("CdTe,1mm".parse().expect("a sensor")), ..Settings::default() };
    let messages = [
        error_of(Settings { valid_min: Some(65536.0), ..Settings::default() }, frames),
        error_of(Settings { radial_range: Some([90.0, 95.0]), ..Settings::default() }, frames),
        error_of(sensor, frames),
    ];
    assert_eq!(
        messages,
        [
            "no value of u16 pixels is valid: valid-min 65536; change these settings, which exclude all values",
            "binning: no pixel in radial range 90 to 95 2th_deg; unmasked pixels cover -0.00581604 to 23.1288 2th_deg",
            "sensor CdTe,1000um: needs a wavelength, and the PONI file gives none; \
             add `Wavelength: METRES` to it, or leave out the sensor",
        ]
    );
}
