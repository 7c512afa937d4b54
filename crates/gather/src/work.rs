//! From a group to its final, its summary, and what comes with them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use manners::{Filter, Stop};
use patterns::finals::{self, Built, Final, Watch};
use patterns::{export, part, plot};
use records::{Extra, Fail, RawPath, Summary};
use serde_json::Value;

use crate::args::Args;
use crate::group::Group;

/// Makes finals.
pub struct Worker<'a> {
    args: &'a Args,
    filter: &'a Filter,
    /// How many pictures have been drawn.
    pictures: usize,
}

impl<'a> Worker<'a> {
    /// One that makes what the arguments say.
    pub fn new(args: &'a Args, filter: &'a Filter) -> Self {
        Self { args, filter, pictures: 0 }
    }

    /// Makes the final of a group and emits its summary, or what kept it from being made.
    ///
    /// # Errors
    /// An output root that can't be written; a signal; what [`Filter::emit`] says.
    pub fn make(&mut self, group: &mut Group) -> Result<(), Stop> {
        group.is_open = false;
        let (target, filter) = (&group.target, self.filter);
        filter.progress().expect(target.frames(), "frames");
        let built = match finals::build(target, &self.args.options(), &Progress(filter)) {
            Ok(built) => built,
            Err(error) => return self.refuse(group, &error),
        };
        built.warnings.iter().for_each(|why| filter.warn(why));
        if built.layout.is_none() && self.args.complete_only {
            filter.note(1, || format!("{}: not complete yet, left alone", target.path().display()));
            return Ok(());
        }
        let unsettled =
            group.required.as_ref().map_or(built.unsettled.clone(), |required| built.unsettled.and(required));
        if !unsettled.is_empty() {
            filter.mark_failed();
        }
        self.tell(target.path().as_path(), &built);
        let mut extra = Extra::new();
        if let Some(layout) = built.layout {
            extra.insert("layout".to_owned(), layout.name().into());
            self.accompany(group, &mut extra)?;
        }
        filter.emit(&summary(group, built, extra).into())
    }

    /// Writes the exports and the picture that go with a final.
    fn accompany(&mut self, group: &Group, extra: &mut Extra) -> Result<(), Stop> {
        let picture = self.args.form.plot.as_deref();
        if self.args.form.export.is_empty() && picture.is_none() {
            return Ok(());
        }
        let path = group.target.path();
        let of = match Final::open(&path) {
            Ok(of) => of,
            Err(error) => return self.refuse(group, &error),
        };
        let mut exports = Vec::new();
        for format in self.args.formats() {
            match export::write(&of, format) {
                Ok(written) => exports.extend(written.into_iter().map(to_json)),
                Err(why) => self.fail(group, &path, &why)?,
            }
        }
        if !exports.is_empty() {
            extra.insert("export".to_owned(), exports.into());
        }
        if let Some(picture) = picture {
            let picture = numbered(picture, self.pictures, &path);
            match plot::draw(&of, &picture) {
                Ok(()) => drop(extra.insert("plot".to_owned(), to_json(picture))),
                Err(why) => self.fail(group, &picture, &why)?,
            }
            self.pictures += 1;
        }
        Ok(())
    }

    fn tell(&self, path: &Path, built: &Built) {
        let path = path.display();
        for absent in &built.missing {
            let (count, reason) = (absent.range.count(), &absent.reason);
            self.filter.warn(&format!("{path}: {count} frames without a pattern: {reason}"));
        }
        self.filter.note(1, || match built.found {
            true => format!("{path}: found as it should be"),
            false => format!("{path}: {} frames", built.integrated.count()),
        });
    }

    fn refuse(&self, group: &Group, error: &finals::Error) -> Result<(), Stop> {
        let path = group.target.path();
        match error {
            finals::Error::Stopped => self.filter.check(),
            finals::Error::Io { why, .. } | finals::Error::Part(part::Error::Io { why, .. })
                if is_fatal(why.kind()) =>
            {
                Err(Stop::fatal(path.display(), error))
            }
            error => self.fail(group, &path, error),
        }
    }

    fn fail(&self, group: &Group, about: &Path, why: &dyn std::error::Error) -> Result<(), Stop> {
        let (id, about, error) = (group.target.id(), about.display().to_string(), why.to_string());
        self.filter.fail(Fail { id, about, error, ..Fail::default() })
    }
}

struct Progress<'a>(&'a Filter);

impl Watch for Progress<'_> {
    fn asks_to_stop(&self) -> bool {
        self.0.check().is_err()
    }

    fn advance(&self, frames: u64) {
        self.0.progress().advance(frames);
    }
}

/// What no other scan below the same root would be spared.
fn is_fatal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull)
        || matches!(kind, ErrorKind::QuotaExceeded | ErrorKind::NotADirectory)
}

fn summary(group: &Group, built: Built, extra: Extra) -> Summary {
    let (target, scan) = (&group.target, &group.target.task().acquisition);
    Summary {
        id: target.id(),
        scan: target.task().scan.clone(),
        file: scan.file.clone(),
        entry: scan.entry.clone(),
        detector: scan.detector.clone(),
        recipe_digest: target.task().recipe_digest.clone(),
        final_file: target.path().into(),
        frames: target.frames(),
        integrated: built.integrated.count(),
        missing: built.missing,
        complete: built.complete,
        data_digest: built.data_digest,
        seconds: group.seconds,
        extra,
    }
}

fn to_json(path: PathBuf) -> Value {
    let path = std::path::absolute(&path).unwrap_or(path);
    serde_json::to_value(RawPath::from(path)).expect("a path serializes")
}

/// The name of picture `number`: the first has the name that was asked for, the others the name of
/// their final with it.
fn numbered(asked: &Path, number: usize, of: &Path) -> PathBuf {
    if number == 0 {
        return asked.to_path_buf();
    }
    let mut name = asked.file_stem().unwrap_or_default().to_owned();
    name.push("_");
    name.push(of.file_stem().unwrap_or_default());
    name.push(".");
    name.push(asked.extension().unwrap_or_default());
    asked.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_picture_bears_its_finals_name() {
        let name = |number| numbered(Path::new("/tmp/p.png"), number, Path::new("/out/s_scan0002_p3.h5"));
        assert_eq!(name(0), Path::new("/tmp/p.png"));
        assert_eq!(name(1), Path::new("/tmp/p_s_scan0002_p3.png"));
    }
}
