//! Datasets of the virtual layout, which show rows of the parts in the order of the scan.
//!
//! The row of a frame that no part has is NaN. Paths of parts are relative to the final file, so
//! that the whole output root can be moved.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use super::content::OutputContent;
use super::row_sources::RowSource;
use crate::Status;
use crate::h5::{Group, Result, VirtualElement, VirtualSource};

/// Creates a dataset of all frames that shows the parts' dataset `in_part`.
pub(super) fn create_virtual_dataset<T: VirtualElement>(
    group: &Group,
    name: &str,
    in_part: &str,
    nan: T,
    content: &OutputContent,
) -> Result<()> {
    let files = content
        .parts
        .iter()
        .map(|part| relative_path_text(content.target.path().as_path(), &part.path));
    let files: Vec<String> =
        files.collect::<Option<_>>().ok_or("a part whose name is not UTF-8")?;
    let runs =
        consecutive_rows(&content.row_sources.sources, &content.row_sources.status).into_iter();
    let mappings = runs.map(|RowRun { part, rows, first, step }| VirtualSource {
        file: &files[part],
        rows_of_file: content.parts[part].frames.len(),
        rows,
        first,
        step,
    });
    let shape = [vec![content.row_sources.status.len()], content.shared.axes.shape()].concat();
    group.create_virtual(name, &shape, nan, in_part, &mappings.collect::<Vec<_>>()).map(drop)
}

/// Consecutive rows of a part that belong to equally spaced frames.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RowRun {
    part: usize,
    rows: Range<usize>,
    first: usize,
    step: usize,
}

fn consecutive_rows(origins: &[RowSource], status: &[Status]) -> Vec<RowRun> {
    let mut open: BTreeMap<usize, RowRun> = BTreeMap::new();
    let mut done = Vec::new();
    for (frame, origin) in origins.iter().enumerate() {
        let (RowSource::Part { part, row }, Status::Ok | Status::Monitor | Status::MonitorPending) =
            (*origin, status[frame])
        else {
            continue;
        };
        let new = RowRun { part, rows: row..row.saturating_add(1), first: frame, step: 1 };
        let run = open.entry(part).or_insert(new.clone());
        if run.first == frame {
            continue;
        }
        if run.rows.len() == 1 {
            run.step = frame.saturating_sub(run.first);
        }
        let next = run.step.saturating_mul(run.rows.len()).saturating_add(run.first);
        if run.rows.end == row && next == frame {
            run.rows.end = row.saturating_add(1)
        } else {
            done.push(std::mem::replace(run, new))
        }
    }
    done.extend(open.into_values());
    done
}

/// Returns the path of `to` relative to the file `from`. Both are below one root.
fn relative_path_text(from: &Path, to: &Path) -> Option<String> {
    let shared = from.components().zip(to.components()).take_while(|(one, two)| one == two).count();
    let up = from.parent()?.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect::<PathBuf>().to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_parts_are_runs_with_a_step() {
        let from = |part, row| RowSource::Part { part, row };
        let origins = [
            from(0, 0),
            from(1, 0),
            from(0, 1),
            from(1, 1),
            RowSource::None,
            from(1, 2),
            from(0, 2),
        ];
        let found = consecutive_rows(&origins, &[Status::Ok; 7]);
        let run = |part, rows, first, step| RowRun { part, rows, first, step };
        assert_eq!(found, [run(0, 0..2, 0, 2), run(0, 2..3, 6, 1), run(1, 0..3, 1, 2)]);
    }

    #[test]
    fn a_part_is_named_from_the_final() {
        let name =
            relative_path_text(Path::new("/out/s/a.h5"), Path::new("/out/.azpipe/parts/1/2/0.h5"));
        assert_eq!(name.unwrap(), "../.azpipe/parts/1/2/0.h5");
        assert_eq!(
            relative_path_text(Path::new("/out/a.h5"), Path::new("/out/.azpipe/0.h5")).unwrap(),
            ".azpipe/0.h5"
        );
    }
}
