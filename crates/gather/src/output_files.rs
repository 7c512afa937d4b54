//! Checks the plots and the report that a run is to write, before any work is done.

use std::path::{Path, PathBuf};

use filter::Stop;
use patterns::plot;
use patterns::report::Report;
use recipe::Calibrant;
use system::ownership::ReplacePolicy;

use crate::args::Args;
use crate::messages;

/// Checks the files of `--plot`, `--plot-scans` and `--report`, and protects the run's records,
/// background, standard and calibrant from being replaced by them and by exports.
///
/// # Errors
/// Fails if a name has another extension than expected, if two flags have the same file, if a
/// directory does not exist or can't be written to, and if a file would be replaced that this run
/// reads or that azpipe did not write.
pub fn check(args: &Args, policy: &ReplacePolicy) -> Result<(), Stop> {
    let calibrant = args.output.drift.as_ref().and_then(Calibrant::file);
    let files = args.reduction.files().chain(calibrant);
    let operands = args.inputs.iter().chain(&args.plan).chain(files);
    // The streams may be files, too.
    let streams = ["/dev/stdin", "/dev/stdout"].map(PathBuf::from);
    for path in operands.filter(|path| *path != Path::new("-")).chain(&streams) {
        let path = std::path::absolute(path).map_err(|why| Stop::fatal(path.display(), why))?;
        policy.protected.add(&path);
    }
    let output = &args.output;
    let flags = [
        ("--plot", &output.plot),
        ("--plot-scans", &output.plot_scans),
        ("--report", &output.report),
    ];
    let files = flags.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    let files: Vec<(&str, &Path)> = files.collect();
    for (index, (flag, path)) in files.iter().enumerate() {
        let named = |why: &str| Stop::fatal(flag, format_args!("{}: {why}", path.display()));
        // An error here is one of the check below, too.
        if matches!(policy.protected.contains(path), Ok(true)) {
            return Err(named(messages::holds_records()));
        }
        let is_same = |other: &&(&str, &Path)| is_same_target(other.1, path);
        if let Some((other, _)) = files[..index].iter().find(is_same) {
            return Err(named(&messages::is_other_output(other)));
        }
        match *flag {
            "--report" => check_report(path, policy)?,
            _ => plot::check(path, policy).map_err(|why| Stop::fatal(flag, why))?,
        }
    }
    Ok(())
}

fn check_report(path: &Path, policy: &ReplacePolicy) -> Result<(), Stop> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    if extension != "html" && extension != "htm" {
        return Err(Stop::fatal("--report", messages::report_name(path)));
    }
    Report::check(path, policy)
        .map_err(|why| Stop::fatal("--report", format!("{}: {why}", path.display())))
}

/// Returns whether two files that are written are one: they have the same name in the same
/// directory. (A link is replaced, and what it leads to stays.)
pub fn is_same_target(one: &Path, other: &Path) -> bool {
    let directory = |path: &Path| {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // A directory that can't be resolved is compared by its name, and is an error when it is
        // written to.
        parent.canonicalize().unwrap_or_else(|_| parent.to_owned())
    };
    one.file_name() == other.file_name() && directory(one) == directory(other)
}
