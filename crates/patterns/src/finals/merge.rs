//! The rows of a final in the order of the frames, read from wherever they are.

use super::supply::{Origin, Supply};
use super::{Error, Final, Rows as FinalRows};
use crate::finish::Pattern;
use crate::part::{Part, Rows};
use crate::variance::Counted;
use crate::{Finish, Row, Shared, Status, Weights};

/// Parts whose files are open at a time; each holds a block of rows.
const OPEN_PARTS: usize = 16;

/// One frame of a final.
pub(super) struct Merged {
    pub status: Status,
    /// Intensity and errors; `None` without a pattern.
    pub pattern: Option<Pattern>,
    /// The sums, where they are known and needed.
    pub sums: Option<Row>,
    /// What the weights are multiplied by, where there is a pattern.
    pub scale: f64,
    /// The variance by the counts alone of so many members, where the frame is put together of several.
    pub counted: Option<(Counted, usize)>,
}

/// The frames of a final to be.
pub(super) trait Frames {
    /// Frame `frame` of the scan.
    ///
    /// # Errors
    /// A file that can't be read; parts that disagree.
    fn frame(&mut self, frame: usize) -> Result<Merged, Error>;

    /// The weights of a frame that invalidates no pixel.
    fn shared_weights(&self) -> &Weights;

    /// The weights of a frame.
    fn weights<'b>(&'b self, row: &'b Row) -> &'b Weights {
        row.exception.as_ref().unwrap_or(self.shared_weights())
    }
}

/// Reads frame after frame of one scan.
pub(super) struct Merge<'a> {
    supply: &'a Supply,
    parts: &'a [Part],
    shared: &'a Shared,
    finish: &'a Finish,
    existing: Option<FinalRows<'a>>,
    needs_sums: bool,
    /// The parts that are open, the one used last at the end.
    open: Vec<(usize, Rows<'a>)>,
}

impl Frames for Merge<'_> {
    fn frame(&mut self, frame: usize) -> Result<Merged, Error> {
        let status = self.supply.status[frame];
        let (kept, sums) = match self.supply.origins[frame] {
            Origin::Nothing => (None, None),
            Origin::Part { part, row } => match self.pattern(frame, part, row)? {
                Some(pattern) => (Some(pattern), None),
                None => (None, Some(self.agreed(frame, part, row)?)),
            },
            Origin::Final => {
                let rows = self.existing.as_mut().expect("a final that gives rows is open");
                (Some(rows.pattern(frame)?), rows.sums(frame)?)
            }
        };
        let sums = sums.filter(Row::has_sums);
        if status != Status::Ok {
            return Ok(Merged { status, pattern: None, sums, scale: f64::NAN, counted: None });
        }
        let scale = self.finish.scale(self.supply.monitor[frame], self.supply.reference).unwrap_or(f64::NAN);
        let pattern = match &sums {
            Some(row) => self.finish.pattern(row, self.shared_weights(), self.supply.reference),
            None => kept,
        };
        Ok(Merged { status, pattern, sums, scale, counted: None })
    }

    fn shared_weights(&self) -> &Weights {
        &self.shared.weights
    }
}

impl<'a> Merge<'a> {
    /// Frames come without sums where nobody needs them and their patterns are at hand.
    pub fn new(
        supply: &'a Supply,
        parts: &'a [Part],
        existing: Option<&'a Final>,
        shared: &'a Shared,
        finish: &'a Finish,
        needs_sums: bool,
    ) -> Result<Self, Error> {
        let existing = match supply.origins.contains(&Origin::Final) {
            true => existing.map(Final::rows).transpose()?,
            false => None,
        };
        Ok(Self { supply, parts, shared, finish, existing, needs_sums, open: Vec::new() })
    }

    /// The pattern as the part has it, where that is all that is asked for.
    fn pattern(&mut self, frame: usize, part: usize, row: usize) -> Result<Option<Pattern>, Error> {
        let is_single = !self.supply.repeated.contains_key(&(frame as u64));
        match !self.needs_sums && is_single && self.supply.status[frame] == Status::Ok {
            true => Ok(self.rows(part)?.pattern(row)?),
            false => Ok(None),
        }
    }

    fn agreed(&mut self, frame: usize, part: usize, row: usize) -> Result<Row, Error> {
        let first = self.rows(part)?.row(row)?;
        for &(other, row) in self.supply.repeated.get(&(frame as u64)).into_iter().flatten() {
            if !self.rows(other)?.row(row)?.agrees(&first) {
                let (one, two) = (self.parts[part].path.clone(), self.parts[other].path.clone());
                return Err(Error::Disagree { frame: frame as u64, one, two });
            }
        }
        Ok(first)
    }

    fn rows(&mut self, part: usize) -> Result<&mut Rows<'a>, Error> {
        let opened = match self.open.iter().position(|(open, _)| *open == part) {
            Some(at) => self.open.remove(at),
            None => (part, self.parts[part].open()?),
        };
        if self.open.len() >= OPEN_PARTS {
            self.open.remove(0);
        }
        self.open.push(opened);
        let (_, rows) = self.open.last_mut().expect("one was pushed just now");
        Ok(rows)
    }
}
