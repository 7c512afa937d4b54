//! Statistics of pixels after random histories: scans cut in any way, recipes with different values
//! that mean "no measurement", `--force`, images that are taken again, taken away and added, and
//! runs with and without statistics. Images of them are exactly the sums of the frames that they
//! claim, and the same pipe, run twice, leaves no frame out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sample::Random;
use tempfile::TempDir;

use crate::support::{Outcome, run};

const SHAPE: [usize; 2] = [13, 11];
const PIXELS: usize = SHAPE[0] * SHAPE[1];

/// Recipes: name, settings, and the values that mean "no measurement".
const RECIPES: [(&str, &str, [i32; 2]); 3] = [
    ("plain", "npt = 20\ndummy = \"none\"\n", [1, 0]),
    ("minus", "npt = 20\ndummy = \"-1,0.5\"\n", [-1, -1]),
    ("other", "npt = 30\ndummy = \"none\"\n", [1, 0]),
];

/// A scan of one image per frame, and what was done to it.
struct History {
    directory: TempDir,
    random: Random,
    /// The pixels of the frames that exist.
    frames: Vec<Vec<i32>>,
    log: Vec<String>,
}

impl History {
    fn new(seed: u64, images: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut history =
            Self { directory, random: Random::new(&[seed]), frames: Vec::new(), log: vec![] };
        let write = |name: &str, text: &str| fs::write(history.path(name), text).unwrap();
        write(
            "g.poni",
            "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
             Distance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n",
        );
        for (name, settings, _) in RECIPES {
            write(&format!("{name}.toml"), settings);
        }
        fs::create_dir(history.path("raw")).unwrap();
        (0..images).for_each(|_| history.append_image());
        history.log.push(format!("seed {seed}, {images} images"));
        history
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn image(&self, frame: usize) -> PathBuf {
        self.path("raw").join(format!("s_{frame:04}.edf"))
    }

    fn append_image(&mut self) {
        self.frames.push(Vec::new());
        self.take_image(self.frames.len() - 1);
    }

    /// Writes an image with new counts; negative ones and large ones are among them.
    fn take_image(&mut self, frame: usize) {
        let pixels: Vec<i32> = (0..PIXELS)
            .map(|pixel| match pixel / SHAPE[1] {
                2 => (self.random.below(1 << 32) as u32).cast_signed(),
                3 => self.random.index(3) as i32 - 1,
                _ => self.random.index(4) as i32,
            })
            .collect();
        let header = format!(
            "{{\nHeaderID = EH:000001:000000:000000 ;\nByteOrder = LowByteFirst ;\nDataType = SignedInteger ;\n\
             Dim_1 = {} ;\nDim_2 = {} ;\nSize = {} ;\n",
            SHAPE[1],
            SHAPE[0],
            PIXELS * 4
        );
        let mut bytes = format!("{header:510}}}\n").into_bytes();
        bytes.extend(pixels.iter().flat_map(|pixel| pixel.to_le_bytes()));
        // The time of last change has to be another one.
        std::thread::sleep(Duration::from_millis(5));
        fs::write(self.image(frame), bytes).unwrap();
        self.frames[frame] = pixels;
    }

    fn take_images_away(&mut self, left: usize) {
        self.log.push(format!("the first {left} images are left"));
        (left..self.frames.len()).for_each(|frame| fs::remove_file(self.image(frame)).unwrap());
        self.frames.truncate(left);
    }

    /// Plans the scan for some recipes.
    fn plan(&mut self, recipes: &[usize], by: &str) -> String {
        let names = recipes.iter().map(|recipe| RECIPES[*recipe].0);
        self.log.push(format!("plan {:?} --by {by}", names.clone().collect::<Vec<_>>()));
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let scans = run("scan-find", &[text(self.path("raw"))], "").assert_success().stdout;
        let mut flags = vec!["--poni".to_owned(), text(self.path("g.poni"))];
        flags.extend([
            "--out".to_owned(),
            text(self.path("out")),
            "--by".to_owned(),
            by.to_owned(),
        ]);
        for name in names.clone() {
            flags.extend(["--recipe".to_owned(), text(self.path(&format!("{name}.toml")))]);
        }
        if recipes.len() == 1 {
            flags.extend(names.flat_map(|name| ["--recipe-name".to_owned(), name.to_owned()]));
        }
        run("plan-split", &flags, &scans).assert_success().stdout
    }

    fn integrate(&mut self, tasks: &str, flags: &[&str]) -> Outcome {
        let flags = [flags, &["--threads", "1"]].concat();
        let ran = run("ai-integrate", &flags, tasks);
        self.log.push(format!(
            "ai-integrate {flags:?} of {} tasks: {}",
            tasks.lines().count(),
            ran.status
        ));
        ran
    }

    fn gather(&mut self, results: &str) -> Outcome {
        let ran = run("gather", &["--pixel-images"], results);
        self.log.push(format!("gather: {}", ran.status));
        ran
    }

    /// Integrates all frames with statistics, and returns the status of `gather`. Images are exact;
    /// with status 0, they are of all frames.
    fn run_all(&mut self, tasks: &str) -> i32 {
        let integrated = self.integrate(tasks, &["--pixel-stats"]);
        let gathered = self.gather(&integrated.stdout);
        self.check_images(&gathered);
        assert_eq!(integrated.status, 0, "{self}");
        for summary in gathered.records("summary") {
            if gathered.status == 0 {
                let images = Path::new(summary["pixel_images"].as_str().unwrap());
                let all: Vec<usize> = (0..self.frames.len()).collect();
                assert_eq!(claimed_frames(images), all, "{self}");
            }
        }
        gathered.status
    }

    /// Compares the images that a run wrote with the frames that they claim. All frames of the scan
    /// have been integrated, so that they claim none of former raw data.
    fn check_images(&self, gathered: &Outcome) {
        for summary in gathered.records("summary") {
            let Some(images) = summary["pixel_images"].as_str() else { continue };
            let recipe = RECIPES.iter().find(|(name, ..)| images.contains(&format!("_{name}.")));
            let [low, high] = recipe.expect("a recipe's images").2;
            let claimed = claimed_frames(Path::new(images));
            assert!(claimed.iter().all(|frame| *frame < self.frames.len()), "{self}{claimed:?}");
            let expected: Vec<[f64; 5]> = (0..PIXELS)
                .map(|pixel| {
                    let values = claimed.iter().map(|frame| self.frames[*frame][pixel]);
                    let is_valid = |value: &i32| *value < low || *value > high;
                    summarize(&values.filter(is_valid).map(i128::from).collect::<Vec<_>>())
                })
                .collect();
            let file = hdf5::File::open(images).unwrap();
            for (index, name) in ["mean", "variance", "max", "zeros", "frames"].iter().enumerate() {
                let image = file.dataset(&format!("entry/{name}/{name}")).unwrap();
                let image = image.read_raw::<f64>().unwrap();
                let is_same = |(one, other): (&f64, &[f64; 5])| {
                    *one == other[index] || (one.is_nan() && other[index].is_nan())
                };
                assert!(image.iter().zip(&expected).all(is_same), "{self}{images}: {name}");
            }
        }
    }
}

impl std::fmt::Display for History {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        writeln!(out, "{} images now, after\n{}", self.frames.len(), self.log.join("\n"))
    }
}

/// Returns mean, variance, maximum, number of zeros and number of values.
fn summarize(values: &[i128]) -> [f64; 5] {
    let count = values.len() as i128;
    let (sum, squares): (i128, i128) =
        values.iter().fold((0, 0), |(sum, squares), value| (sum + value, squares + value * value));
    let divide = |number: i128, by: f64| if by > 0.0 { number as f64 / by } else { f64::NAN };
    let n = count as f64;
    [
        divide(sum, n),
        divide(count * squares - sum * sum, n * (n - 1.0)),
        values.iter().max().map_or(f64::NAN, |max| *max as f64),
        values.iter().filter(|value| **value == 0).count() as f64,
        n,
    ]
}

/// Returns the frames that images claim to be of, such as `0 to 3, 7`.
fn claimed_frames(images: &Path) -> Vec<usize> {
    let file = hdf5::File::open(images).unwrap();
    let text = file.dataset("entry/statistics/frames").unwrap();
    let text = text.read_scalar::<hdf5::types::VarLenUnicode>().unwrap();
    let ranges = text.split(", ").filter(|range| !range.is_empty());
    ranges
        .flat_map(|range| {
            let mut ends = range.split(" to ").map(|end| end.parse::<usize>().unwrap());
            let first = ends.next().unwrap();
            first..=ends.next().unwrap_or(first)
        })
        .collect()
}

#[test]
fn frames_that_a_scan_no_longer_has_leave_its_images() {
    for left in [3, 8, 12, 17] {
        let mut history = History::new(left, 24);
        let tasks = history.plan(&[0, 1], "frames=8");
        assert_eq!(history.run_all(&tasks), 0, "{history}");
        history.take_images_away(left as usize);
        (1..history.frames.len()).for_each(|frame| history.take_image(frame));
        let tasks = history.plan(&[0, 1], "frames=8");
        assert_eq!(history.run_all(&tasks), 0, "{history}");
        // The scan grows again.
        (0..5).for_each(|_| history.append_image());
        let tasks = history.plan(&[0], "scan");
        assert_eq!(history.run_all(&tasks), 0, "{history}");
    }
}

#[test]
fn another_cut_adds_all_frames_that_share_a_file_of_statistics_with_changed_ones() {
    for order in ["as planned", "reversed"] {
        let mut history = History::new(3, 12);
        let tasks = history.plan(&[0], "scan");
        assert_eq!(history.run_all(&tasks), 0, "{history}");
        (6..8).for_each(|frame| history.take_image(frame));
        let tasks = history.plan(&[0], "frames=4");
        let mut tasks: Vec<&str> = tasks.lines().collect();
        if order == "reversed" {
            tasks.reverse();
        }
        assert_eq!(history.run_all(&(tasks.join("\n") + "\n")), 0, "{history}");
    }
}
