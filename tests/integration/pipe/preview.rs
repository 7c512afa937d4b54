//! `plan-split --preview`: the picture shows frames, masks, beam and rings where they are, and
//! replaces nobody's file.

use std::fs;
use std::path::Path;

use sample::{Defect, Options};

use crate::support::{Outcome, Workspace, files_below, run, small_options};

/// A decoded picture.
struct Picture {
    width: usize,
    /// Red, green and blue of each pixel, row by row from the top.
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn read(path: &Path) -> Self {
        let decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(path).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        Self { width: info.width as usize, pixels: bytes.as_chunks().0.to_vec() }
    }

    /// Returns the indices of the pixels whose colour satisfies a condition.
    fn find(&self, is_wanted: impl Fn([u8; 3]) -> bool) -> Vec<usize> {
        (0..self.pixels.len()).filter(|pixel| is_wanted(self.pixels[*pixel])).collect()
    }

    /// Returns the mean brightness of pixels, from 0 to 255.
    fn brightness(&self, pixels: &[usize]) -> f64 {
        pixels.iter().map(|pixel| f64::from(self.pixels[*pixel][1])).sum::<f64>()
            / pixels.len() as f64
    }
}

fn is_ring([red, green, blue]: [u8; 3]) -> bool {
    i16::from(blue) - i16::from(red) > 120 && green > 60
}

fn is_beam([red, green, blue]: [u8; 3]) -> bool {
    red > 180 && green < 60 && blue < 80
}

fn is_mask([red, green, blue]: [u8; 3]) -> bool {
    i16::from(red) - i16::from(blue) > 80 && green > 80
}

/// Runs plan-split with a picture called `name` and more flags.
fn preview(workspace: &Workspace, name: &str, flags: &[&str]) -> Outcome {
    let picture = workspace.path(name);
    let all =
        ["--poni", workspace.data.poni.to_str().unwrap(), "--preview", picture.to_str().unwrap()];
    run("plan-split", &[&all[..], flags].concat(), &workspace.scans)
}

#[test]
fn rings_of_the_right_calibrant_lie_on_the_peaks() {
    let detector = sample::Detector::named("pilatus-300k").unwrap();
    let options = Options { detector, dtype: detector.dtype, mean: 20.0, ..small_options() };
    let workspace = Workspace::new(&options);
    preview(&workspace, "plain.png", &[]).assert_success();
    preview(&workspace, "LaB6.png", &["--calibrant", "lab6"]).assert_success();
    preview(&workspace, "wrong.png", &["--calibrant", "4.4,3.2,2.7,2.25,1.78"]).assert_success();
    let said = |name: &str, calibrant: &str| {
        let drawn = preview(&workspace, name, &["--calibrant", calibrant]).assert_success();
        assert!(workspace.path(name).exists());
        drawn.stderr
    };
    assert_eq!(said("again.png", "LaB6"), "");
    fs::write(workspace.path("tiny.D"), "0.0001\n").unwrap();
    for calibrant in ["4.157e-10,2.939e-10", workspace.path("tiny.D").to_str().unwrap()] {
        let said = said("no-ring.png", calibrant);
        assert!(
            said.contains("no ring lies in the frame")
                && said.contains("d-spacings are in angstrom"),
            "{said}"
        );
    }
    let plain = Picture::read(&workspace.path("plain.png"));
    assert!(plain.find(is_ring).is_empty());
    // Only the image, without the pattern below it and the texts above it.
    let brightness_below_rings = |name: &str| {
        let picture = Picture::read(&workspace.path(name));
        assert_eq!((picture.width, picture.pixels.len()), (plain.width, plain.pixels.len()));
        let rows = picture.pixels.len() / picture.width;
        let image = picture.width * 180..picture.width * (rows - 380);
        let rings: Vec<usize> =
            picture.find(is_ring).into_iter().filter(|pixel| image.contains(pixel)).collect();
        assert!(rings.len() > 2000, "{name}: {}", rings.len());
        plain.brightness(&rings)
    };
    let (right, wrong) = (brightness_below_rings("LaB6.png"), brightness_below_rings("wrong.png"));
    assert!(right + 25.0 < wrong, "{right} and {wrong}");
}

#[test]
fn beam_and_masks_are_where_the_poni_file_and_flags_put_them() {
    let workspace = Workspace::new(&small_options());
    preview(&workspace, "a.png", &[]).assert_success();
    preview(&workspace, "b.png", &["--mask-region", "rectangle:0,0,195,100"]).assert_success();
    let poni = fs::read_to_string(&workspace.data.poni).unwrap();
    let number = |key: &str| -> f64 {
        poni.lines()
            .find_map(|line| line.strip_prefix(key))
            .and_then(|value| value.trim().parse().ok())
            .unwrap()
    };
    // Where the beam, from the sample straight on, hits the detector, in pixels: pyFAI's getFit2D.
    let (distance, tilts) = (number("Distance:"), [number("Rot1:"), number("Rot2:")]);
    let row = (number("Poni1:") + distance * tilts[1].tan() / tilts[0].cos()) / 172e-6;
    let column = (number("Poni2:") - distance * tilts[0].tan()) / 172e-6;
    let (plain, masked) =
        (Picture::read(&workspace.path("a.png")), Picture::read(&workspace.path("b.png")));
    let beam = plain.find(is_beam);
    let mean = |of: &dyn Fn(usize) -> usize| {
        beam.iter().map(|pixel| of(*pixel) as f64).sum::<f64>() / beam.len() as f64
    };
    // The image of 487 x 195 pixels is 860 x 344 on the screen; row 0 is at the bottom, 360 above
    // the end of the picture.
    let scale = 860.0 / 487.0;
    let height = plain.pixels.len() / plain.width;
    let found_column = (mean(&|pixel| pixel % plain.width) - 96.0) / scale;
    let found_row = ((height - 360) as f64 - mean(&|pixel| pixel / plain.width)) / scale;
    assert!(
        (found_column - column).abs() < 1.0 && (found_row - row).abs() < 1.0,
        "{found_row} {row} {found_column} {column}"
    );
    let orange = masked.find(is_mask).len() - plain.find(is_mask).len();
    let expected = 860.0 * 344.0 * 100.0 / 487.0;
    assert!((orange as f64 / expected - 1.0).abs() < 0.05, "{orange} of {expected}");
}

#[test]
fn without_out_there_is_only_the_picture_and_with_it_the_tasks_too() {
    let workspace = Workspace::new(&small_options());
    let before = files_below(workspace.path("").as_path()).len();
    let alone = preview(&workspace, "alone.png", &["--preview-frames", "3"]).assert_success();
    assert_eq!((alone.stdout.as_str(), alone.stderr.as_str()), ("", ""));
    assert_eq!(files_below(workspace.path("").as_path()).len(), before + 1);
    let out = workspace.path("out");
    let both = preview(&workspace, "both.png", &["--out", out.to_str().unwrap(), "--npt", "300"])
        .assert_success();
    assert_eq!(both.stdout, workspace.plan("out", &[]));
    assert!(workspace.path("both.png").exists());
    let none =
        run("plan-split", &["--poni", workspace.data.poni.to_str().unwrap()], &workspace.scans);
    assert_eq!(none.status, 2, "--out is required without --preview: {}", none.stderr);
}

#[test]
fn frames_without_data_are_left_out_or_named() {
    let options = Options { scans: 0, defects: vec![Defect::MissingFile], ..small_options() };
    let workspace = Workspace::new(&options);
    preview(&workspace, "some.png", &[]).assert_success();
    let missing = preview(&workspace, "missing.png", &["--preview-frames", "8"]);
    assert_eq!(missing.status, 1);
    assert!(
        missing.stderr.contains("no preview: frame 8: ") && missing.stderr.contains("not drawn"),
        "{}",
        missing.stderr
    );
    assert_eq!(missing.records("fail").len(), 1);
    let beyond = preview(&workspace, "beyond.png", &["--preview-frames", "0,24"]);
    assert!(
        beyond.status == 1 && beyond.stderr.contains("the scan has 24 frames, 0 to 23"),
        "{}",
        beyond.stderr
    );
    assert!(!workspace.path("missing.png").exists() && !workspace.path("beyond.png").exists());
}

#[test]
fn a_file_of_somebody_elses_is_refused_and_raw_data_always() {
    let workspace = Workspace::new(&small_options());
    let path = workspace.path("mine.png");
    fs::write(&path, "the only copy").unwrap();
    let refused = preview(&workspace, "mine.png", &[]);
    assert!(
        refused.status == 2 && refused.stderr.contains("pass --overwrite"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read(&path).unwrap(), b"the only copy");
    preview(&workspace, "mine.png", &["--overwrite"]).assert_success();
    let drawn = fs::read(&path).unwrap();
    preview(&workspace, "mine.png", &[]).assert_success();
    assert_eq!(fs::read(&path).unwrap(), drawn, "equal runs, equal files");
    fs::write(&path, [&drawn[..], b"notes"].concat()).unwrap();
    let refused = preview(&workspace, "mine.png", &[]);
    assert!(
        refused.status == 2 && refused.stderr.contains("or it was changed since"),
        "{}",
        refused.stderr
    );
    assert!(fs::read(&path).unwrap().ends_with(b"notes"));
    let raw = workspace.path("raw.png");
    let master = run("scan-find", &[&workspace.data.raw], "").records("scan")[0]["file"]
        .as_str()
        .unwrap()
        .to_owned();
    std::os::unix::fs::symlink(&master, &raw).unwrap();
    let bytes = fs::read(&master).unwrap();
    let refused = preview(&workspace, "raw.png", &["--overwrite"]);
    assert!(refused.status == 2 && refused.stderr.contains("holds raw data"), "{}", refused.stderr);
    assert_eq!(fs::read(&master).unwrap(), bytes);
}

#[test]
fn wrong_flags_are_refused_before_a_scan_is_read() {
    let workspace = Workspace::new(&small_options());
    let poni = workspace.data.poni.to_str().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["--preview", "p.svg"], "expected a name that ends in .png"),
        (&["--preview", "p.png", "--calibrant", "unobtainium"], "expected a name (AgBh, "),
        (
            &["--preview", "p.png", "--calibrant", "no/such.D"],
            "--calibrant: no/such.D: No such file",
        ),
        (&["--preview", "p.png", "--preview-frames", "5,1"], "as in 0,9"),
        (&["--calibrant", "LaB6", "--out", "o"], "--preview"),
    ];
    for (flags, expected) in cases {
        let refused = run("plan-split", &[&["--poni", poni][..], flags].concat(), "");
        assert!(
            refused.status == 2 && refused.stderr.contains(expected),
            "{flags:?}: {}",
            refused.stderr
        );
    }
    // Without a wavelength there are no rings.
    let text = fs::read_to_string(poni).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("Wavelength")).collect();
    fs::write(workspace.path("no-wavelength.poni"), lines.join("\n")).unwrap();
    let (poni, picture) = (workspace.path("no-wavelength.poni"), workspace.path("p.png"));
    let flags = [
        "--poni",
        poni.to_str().unwrap(),
        "--unit",
        "2th_deg",
        "--preview",
        picture.to_str().unwrap(),
    ];
    let refused =
        run("plan-split", &[&flags[..], &["--calibrant", "LaB6"]].concat(), &workspace.scans);
    assert!(
        refused.status == 1 && refused.stderr.contains("the rings need a wavelength"),
        "{}",
        refused.stderr
    );
    run("plan-split", &flags, &workspace.scans).assert_success();
    let empty = run("plan-split", &flags, "");
    assert!(
        empty.status == 0 && empty.stderr.contains("not drawn, because no scan can be drawn"),
        "{}",
        empty.stderr
    );
}
