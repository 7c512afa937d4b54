//! Statistics of pixels after random histories: scans cut in any way, recipes with different values
//! that mean "no measurement", `--force`, images that are taken again, taken away and added, and
//! runs with and without statistics. Images of them are exactly the sums of the frames that they
//! claim, and the same pipe, run twice, leaves no frame out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sample::Random;
use tempfile::TempDir;

use crate::support::{Outcome, files_below, new_seed, run};

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

    fn chance(&mut self, percent: usize) -> bool {
        self.random.index(100) < percent
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

    /// Takes images again, takes the last ones away, or adds some. The first image tells the scan.
    fn change_raw_data(&mut self) {
        let last = self.frames.len();
        match self.random.index(3) {
            0 => {
                let first = 1 + self.random.index(last - 1);
                let end = (first + 1 + self.random.index(4)).min(last);
                self.log.push(format!("images {first} to {} are taken again", end - 1));
                (first..end).for_each(|frame| self.take_image(frame));
            }
            1 if last > 4 => {
                let left = 3 + self.random.index(last - 4);
                self.take_images_away(left);
                // Without a change, patterns of images that are away are kept, and no run can give
                // their frames statistics.
                (1..left).for_each(|frame| self.take_image(frame));
            }
            _ => {
                let more = 1 + self.random.index(5);
                self.log.push(format!("{more} images are added"));
                (0..more).for_each(|_| self.append_image());
            }
        }
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
        let why = if ran.status == 0 { "" } else { &ran.stderr };
        self.log.push(format!("gather: {} {why}", ran.status));
        ran
    }

    /// Integrates some tasks, with or without statistics.
    fn integrate_some(&mut self) {
        let recipes = self.some_recipes();
        let by = self.some_cut();
        let tasks = self.plan(&recipes, by);
        let all = self.chance(40);
        let mut tasks: Vec<&str> = tasks.lines().filter(|_| all || self.chance(50)).collect();
        if self.chance(50) {
            tasks.reverse();
        }
        let mut flags = vec!["--pixel-stats"];
        if self.chance(30) {
            flags.clear();
        }
        if self.chance(30) {
            flags.push("--force");
        }
        if self.chance(30) {
            flags.extend(["--engines", "2"]);
        }
        let tasks: String = tasks.into_iter().map(|task| format!("{task}\n")).collect();
        let results = self.integrate(&tasks, &flags).stdout;
        if self.chance(50) {
            let gathered = self.gather(&results);
            if all {
                self.check_images(&gathered);
            }
        }
    }

    fn some_cut(&mut self) -> &'static str {
        let cuts = ["scan", "file", "frames=1", "frames=3", "frames=4", "frames=7"];
        cuts[self.random.index(cuts.len())]
    }

    fn some_recipes(&mut self) -> Vec<usize> {
        let chosen = 1 + self.random.index(7);
        (0..3).filter(|recipe| chosen & (1 << recipe) != 0).collect()
    }

    /// Integrates all frames until there are statistics of them, which takes at most two runs.
    fn finish(&mut self) {
        let (recipes, by) = (self.some_recipes(), self.some_cut());
        let tasks = self.plan(&recipes, by);
        if !self.run_all(&tasks) {
            assert!(self.run_all(&tasks), "{self}");
        }
    }

    /// Integrates all frames with statistics, and returns whether the images are of all of them.
    /// They are exact in any case, and of fewer frames only if `gather` says so.
    fn run_all(&mut self, tasks: &str) -> bool {
        let integrated = self.integrate(tasks, &["--pixel-stats"]);
        let gathered = self.gather(&integrated.stdout);
        self.check_images(&gathered);
        assert_eq!(integrated.status, 0, "{self}");
        let all: Vec<usize> = (0..self.frames.len()).collect();
        let is_of_all = gathered.records("summary").iter().all(|summary| {
            let images = summary["pixel_images"].as_str();
            let claimed = images.map(|images| claimed_frames(Path::new(images)));
            claimed.is_some_and(|claimed| claimed.starts_with(&all))
        });
        assert!(is_of_all || gathered.stderr.contains("which have patterns: run"), "{self}");
        is_of_all
    }

    /// Compares the images that a run wrote with the frames that they claim. All frames of the scan
    /// have been integrated, so that they are of the images that there are.
    fn check_images(&self, gathered: &Outcome) {
        for summary in gathered.records("summary") {
            let Some(images) = summary["pixel_images"].as_str() else { continue };
            let recipe = RECIPES.iter().find(|(name, ..)| images.contains(&format!("_{name}.")));
            let [low, high] = recipe.expect("a recipe's images").2;
            let claimed = claimed_frames(Path::new(images));
            if let Some(former) = claimed.iter().find(|frame| **frame >= self.frames.len()) {
                // Final files keep patterns of images that are away, unless they know of a change.
                let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
                let status = file.dataset("1.1/s_integrate/integrated/frame_status").unwrap();
                assert_eq!(status.read_raw::<u8>().unwrap()[*former], 0, "{self}{claimed:?}");
                continue;
            }
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
        assert!(history.run_all(&tasks), "{history}");
        history.take_images_away(left as usize);
        (1..history.frames.len()).for_each(|frame| history.take_image(frame));
        let tasks = history.plan(&[0, 1], "frames=8");
        assert!(history.run_all(&tasks), "{history}");
        // The scan grows again.
        (0..5).for_each(|_| history.append_image());
        let tasks = history.plan(&[0], "scan");
        assert!(history.run_all(&tasks), "{history}");
    }
}

#[test]
fn another_cut_adds_all_frames_that_share_a_file_of_statistics_with_changed_ones() {
    for order in ["as planned", "reversed"] {
        let mut history = History::new(3, 12);
        let tasks = history.plan(&[0], "scan");
        assert!(history.run_all(&tasks), "{history}");
        (6..8).for_each(|frame| history.take_image(frame));
        let tasks = history.plan(&[0], "frames=4");
        let mut tasks: Vec<&str> = tasks.lines().collect();
        if order == "reversed" {
            tasks.reverse();
        }
        assert!(history.run_all(&(tasks.join("\n") + "\n")), "{history}");
    }
}

#[test]
fn force_on_some_frames_keeps_the_statistics_of_the_others() {
    let mut history = History::new(8, 24);
    let tasks = history.plan(&[0], "scan");
    assert!(history.run_all(&tasks), "{history}");
    let tasks = history.plan(&[0], "frames=4");
    let third: String = tasks.lines().skip(2).take(1).map(|task| format!("{task}\n")).collect();
    history.integrate(&third, &["--pixel-stats", "--force"]).assert_success();
    let files = |history: &History| files_below(&history.path("out/.azpipe/pixels"));
    assert_eq!(files(&history).len(), 2, "the earlier file is kept");
    // The images are of what was added last, until the others are there as well.
    assert!(history.run_all(&tasks), "{history}");
    let names = files(&history);
    assert_eq!(names.len(), 6, "{names:?}");
}

/// Runs a history of a seed.
fn live(seed: u64) {
    let images = 6 + Random::new(&[seed, 1]).index(14);
    let mut history = History::new(seed, images);
    for _ in 0..2 + history.random.index(7) {
        if history.chance(30) {
            history.change_raw_data();
        } else {
            history.integrate_some();
        }
    }
    history.finish();
}

/// Runs histories of fixed seeds and of a new one; `AZPIPE_HISTORIES=FIRST,COUNT` runs others.
#[test]
fn images_are_exact_and_runs_come_to_an_end_after_any_history() {
    let asked = std::env::var("AZPIPE_HISTORIES").unwrap_or_default();
    let mut numbers = asked.split(',').map_while(|number| number.parse().ok());
    if let (Some(first), Some(count)) = (numbers.next(), numbers.next()) {
        return (first..first + count).for_each(live);
    }
    (0..10).for_each(live);
    live(new_seed());
}
