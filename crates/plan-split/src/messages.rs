//! The warnings of plan-split. The tests at the end list all messages of the crate, so that
//! their wording can be compared.

use std::path::Path;

use records::{Spans, format_count, format_frames};

/// Warns that frames are put back on the whole detector, because Lima recorded an image operation.
pub fn operation_undone(detector: &str, operation: &str) -> String {
    format!(
        "detector {detector}: Lima saved frames {operation}; they are put back on the whole detector, which the PONI file \
         describes. If the PONI file describes the frames as saved, pass --image-operation off"
    )
}

/// The most ranges of frames that a message lists.
const MAX_RANGES_IN_MESSAGE: usize = 5;

/// Warns of frames at which the motor of the incident angle has no finite position.
pub fn frames_without_angle(entry: &str, motor: &str, frames: &Spans) -> String {
    let frames = format_frames(frames, MAX_RANGES_IN_MESSAGE);
    format!(
        "entry {entry}: motor {motor} has no finite position at {frames}: no pattern without an incident angle"
    )
}

/// Warns that the output directory is among the raw data.
pub fn output_among_raw_data(out: &Path, raw_data: &Path) -> String {
    let place = if out == raw_data { String::new() } else { format!(" in {}", raw_data.display()) };
    format!(
        "--out {} is among the raw data{place}, so results will be, too; give --out another directory",
        out.display()
    )
}

/// Says how many tasks a scan gave, for `-v`.
pub fn scan_planned(file: &str, entry: &str, frames: u64, tasks: u64, recipes: u64) -> String {
    let frames = format_count(frames, "frame");
    match tasks {
        0 => format!("{file}: entry {entry}: {frames}, nothing new to integrate"),
        _ => {
            let (tasks, recipes) = (format_count(tasks, "task"), format_count(recipes, "recipe"));
            format!("{file}: entry {entry}: {frames} in {tasks}, {recipes}")
        }
    }
}

/// Warns that a recipe can be printed and not be applied.
pub fn printed_recipe_unusable(why: &str) -> String {
    format!("the printed recipe can't be applied here: {why}")
}

/// Describes a second recipe for `--print-recipe`.
pub fn several_recipes_to_print(count: usize) -> String {
    format!("{count} recipes given; expected --recipe at most once")
}

/// Says which frames a scan has, for a choice of others.
pub fn frames_from_0(frames: u64) -> String {
    match frames {
        0 => "no frames".to_owned(),
        _ => format!("{}, 0 to {}", format_count(frames, "frame"), frames - 1),
    }
}

/// Warns that no picture was drawn, because no scan came that can be drawn.
pub fn no_preview(path: &Path) -> String {
    format!("--preview {}: not drawn, because no scan can be drawn", path.display())
}

/// Describes a file that the picture would replace, and that is an operand, stdin, stdout, or a file
/// of a recipe.
pub fn holds_settings() -> &'static str {
    "holds records or settings of this run, which are never overwritten: choose another name"
}

/// Says why no picture of a scan was drawn.
pub fn no_preview_of_scan(entry: &str, detector: &str, why: &str) -> String {
    format!("entry {entry}, detector {detector}: no preview: {why}")
}

/// Warns that a calibrant has no ring between the frame's smallest and largest 2theta, in degrees.
pub fn no_ring_in_frame(calibrant: &str, [low, high]: [f64; 2]) -> String {
    format!(
        "--calibrant {calibrant}: no ring lies in the frame, which covers 2theta {low:.3} to {high:.3} degrees; \
         d-spacings are in angstrom: check them, and distance and wavelength in the PONI file"
    )
}

/// Says which picture was drawn, for `-v`.
pub fn preview_drawn(path: &Path) -> String {
    format!("{}: drawn", path.display())
}

/// Describes an earlier recipe with which settings can't be compared.
pub fn earlier_recipe_unreadable(file: &Path, why: &str) -> String {
    format!("the earlier recipe {} can't be read: {why}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_error::PlanError;
    use crate::preview::DrawError;
    use crate::recipe_flags::{parse_pair, parse_switch};
    use crate::split_scan::SplitBy;
    use std::io;

    #[test]
    fn errors() {
        let entry = || "1.1".to_owned();
        let detector = || "p3".to_owned();
        let errors = [
            PlanError::from(recipe::RecipeError::Setting {
                key: "npt",
                why: "0: expected 1 to 1048576 bins".into(),
            }),
            PlanError::RecipeNames("2 names for 1 recipe: expected one for each, in order".into()),
            PlanError::EqualRecipes { one: "wide".into(), other: "narrow".into() },
            PlanError::Geometry { poni: "lab6.poni".into(), why: "not a PONI file".into() },
            PlanError::Write { path: "/out/.azpipe".into(), why: io::Error::from_raw_os_error(13) },
            PlanError::Unsuitable {
                entry: entry(),
                detector: detector(),
                why: "no counter `mon`".into(),
                retryable: false,
            },
            PlanError::SameFinal {
                entry: entry(),
                path: "a/s.h5".into(),
                other: "/raw/b.h5".into(),
            },
            PlanError::OtherSettings {
                entry: entry(),
                path: "/out/s.h5".into(),
                differences: vec!["npt: 1000, now 500".into(), "mask".into()],
            },
            PlanError::OtherScan {
                entry: entry(),
                path: "/out/s.h5".into(),
                other: "/raw/b.h5".into(),
            },
            PlanError::LongName { entry: entry(), path: "a/s_name.h5".into(), most: 8 },
            PlanError::NotOwned { entry: entry(), path: "/out/s.h5".into() },
            PlanError::Unreadable {
                path: "/out/s.h5".into(),
                why: io::Error::from_raw_os_error(5),
            },
            PlanError::EscapesOutput { path: "../s.h5".into() },
            PlanError::NoFrames { entry: entry(), detector: detector() },
        ];
        let messages = [
            "npt: 0: expected 1 to 1048576 bins",
            "--recipe-name: 2 names for 1 recipe: expected one for each, in order",
            "--recipe: wide and narrow have the same settings; give one of them",
            "lab6.poni: not a PONI file",
            "/out/.azpipe: Permission denied (os error 13)",
            "entry 1.1, detector p3: no counter `mon`",
            "entry 1.1: the final file a/s.h5 is that of /raw/b.h5, too; give the two scans different --out",
            "entry 1.1: /out/s.h5 was planned with other settings (npt: 1000, now 500; mask); pass --replace to have it \
             with these, or --recipe-name to keep both",
            "entry 1.1: /out/s.h5 was made from /raw/b.h5, which is another scan; give the two scans different --out, \
             or name a directory above both to scan-find",
            "entry 1.1: the final file a/s_name.h5 has a name of 9 bytes; expected at most 8: choose a shorter --recipe-name \
             or a shorter name of the master",
            "entry 1.1: /out/s.h5 exists, and is not a file of azpipe; move or remove it, or choose another name with \
             --recipe-name or --out",
            "/out/s.h5: Input/output error (os error 5)",
            "field `below` is ../s.h5: expected a relative path without `..`",
            "entry 1.1, detector p3: no frames to integrate",
        ];
        assert_eq!(errors.map(|error| error.to_string()), messages);
    }

    #[test]
    fn warnings_and_values_of_flags() {
        let messages = [
            operation_undone("p3", "binned 2 x 1"),
            frames_without_angle("1.1", "th", &[2, 5, 6].into_iter().collect()),
            output_among_raw_data(Path::new("/raw/out"), Path::new("/raw")),
            output_among_raw_data(Path::new("/raw"), Path::new("/raw")),
            printed_recipe_unusable("mask none.edf: No such file or directory"),
            several_recipes_to_print(2),
            earlier_recipe_unreadable(Path::new("/out/r.toml"), "not a text: expected UTF-8"),
            no_preview(Path::new("p.png")),
            holds_settings().to_owned(),
            no_ring_in_frame("LaB6", [0.0, 23.1288]),
            no_preview_of_scan("1.1", "p3", "no frame has data"),
            DrawError::NoSuchFrames { frames: 12 }.to_string(),
            DrawError::Moving.to_string(),
            DrawError::NoWavelength { poni: "lab6.poni".into() }.to_string(),
            DrawError::Calibrant { path: "x.D".into(), why: "No such file or directory".into() }
                .to_string(),
            "frames".parse::<SplitBy>().unwrap_err(),
            parse_pair("1").unwrap_err(),
            parse_switch("yes").unwrap_err(),
        ];
        let expected = [
            "detector p3: Lima saved frames binned 2 x 1; they are put back on the whole detector, which the PONI file \
             describes. If the PONI file describes the frames as saved, pass --image-operation off",
            "entry 1.1: motor th has no finite position at frames 2, 5 to 6: no pattern without an incident angle",
            "--out /raw/out is among the raw data in /raw, so results will be, too; give --out another directory",
            "--out /raw is among the raw data, so results will be, too; give --out another directory",
            "the printed recipe can't be applied here: mask none.edf: No such file or directory",
            "2 recipes given; expected --recipe at most once",
            "the earlier recipe /out/r.toml can't be read: not a text: expected UTF-8",
            "--preview p.png: not drawn, because no scan can be drawn",
            "holds records or settings of this run, which are never overwritten: choose another name",
            "--calibrant LaB6: no ring lies in the frame, which covers 2theta 0.000 to 23.129 degrees; \
             d-spacings are in angstrom: check them, and distance and wavelength in the PONI file",
            "entry 1.1, detector p3: no preview: no frame has data",
            "--preview-frames: the scan has 12 frames, 0 to 11",
            "the geometry differs between frames, and a picture has one; pass --poni with the file of the frames to draw, and a number of degrees as --incident-angle",
            "--calibrant: the rings need a wavelength, and lab6.poni gives none; add `Wavelength: METRES` to it",
            "--calibrant x.D: No such file or directory",
            "expected file, scan, bytes=N (such as bytes=2G), frames=N or workers=N, with N at least 1",
            "expected two numbers separated by a comma, as in 1,20",
            "expected on or off",
        ];
        assert_eq!(messages, expected);
    }
}
