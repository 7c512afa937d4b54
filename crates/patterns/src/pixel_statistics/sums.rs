//! [`StoredPixelSums`], the sums of a pixel, and [`StatisticsTotal`], which adds up files.

use system::memory;

use super::file::{StatisticsError, StatisticsFile};
use crate::rounding::NAN64;

/// The sums of one pixel over some frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPixelSums {
    /// Frames in which the value means "no measurement".
    pub invalid: u32,
    /// Frames in which the value is valid and not zero.
    pub nonzero: u32,
    /// Sum of the valid values.
    pub sum: i64,
    /// Sum of the squares of the valid values.
    pub squares: u128,
    /// The largest valid value that is not zero; `i64::MIN` if there is none.
    pub max: i64,
}

impl StoredPixelSums {
    /// Sums of no frame.
    pub const NONE: Self = Self { invalid: 0, nonzero: 0, sum: 0, squares: 0, max: i64::MIN };

    /// Adds the sums of other frames; `None` if a sum overflows, which only damaged files cause.
    fn combined_with(&self, other: &Self) -> Option<Self> {
        Some(Self {
            invalid: self.invalid.checked_add(other.invalid)?,
            nonzero: self.nonzero.checked_add(other.nonzero)?,
            sum: self.sum.checked_add(other.sum)?,
            squares: self.squares.checked_add(other.squares)?,
            max: self.max.max(other.max),
        })
    }
}

/// The sums of all pixels over the frames of several files.
pub struct StatisticsTotal {
    frames: u64,
    pixels: Vec<StoredPixelSums>,
}

impl StatisticsTotal {
    /// Reads and adds up files that share no frame.
    ///
    /// # Errors
    /// Fails if a file can't be read, is damaged, or if there is no memory.
    pub fn read(files: Vec<StatisticsFile>) -> Result<Self, StatisticsError> {
        let mut total = Self { frames: 0, pixels: Vec::new() };
        for mut file in files {
            let count = file.pixels()?;
            if total.pixels.is_empty() {
                memory::reserve(&mut total.pixels, count)
                    .map_err(|why| StatisticsError::Io { path: file.path.clone(), why })?;
                total.pixels.resize(count, StoredPixelSums::NONE);
            }
            total.frames = total.frames.saturating_add(file.metadata.task.range.count());
            let mut first = 0_usize;
            while let Some(block) = file.next_block()? {
                let end = first.saturating_add(block.len());
                let all = total.pixels.get_mut(first..end).into_iter().flatten();
                for (pixel, sums) in all.zip(&block) {
                    *pixel = pixel
                        .combined_with(sums)
                        .ok_or_else(|| StatisticsError::damaged(&file.path, "its sums overflow"))?;
                }
                first = end;
            }
        }
        Ok(total)
    }

    /// Returns the number of valid values of each pixel.
    pub fn valid_frames(&self) -> Vec<u32> {
        self.map(|pixel| self.valid(pixel) as u32)
    }

    /// Returns how often each pixel was zero.
    pub fn zeros(&self) -> Vec<u32> {
        self.map(|pixel| self.zeros_of(pixel) as u32)
    }

    /// Returns the mean of each pixel's valid values; NaN if there are none.
    pub fn means(&self) -> Vec<f64> {
        self.map(|pixel| match self.valid(pixel) {
            0 => NAN64,
            valid => pixel.sum as f64 / valid as f64,
        })
    }

    /// Returns the variance of each pixel's valid values, of which the sum of squared deviations is
    /// divided by one less than their number; NaN if there are fewer than two. It is computed from
    /// exact integers, so that nothing cancels.
    pub fn variances(&self) -> Vec<f64> {
        self.map(|pixel| {
            let valid = self.valid(pixel);
            let numerator = u128::from(valid)
                .checked_mul(pixel.squares)
                .zip(u128::from(pixel.sum.unsigned_abs()).checked_pow(2))
                .and_then(|(squares, sum)| squares.checked_sub(sum));
            match (numerator, valid) {
                (None, _) | (_, 0 | 1) => NAN64,
                (Some(numerator), _) => {
                    numerator as f64 / (valid as f64 * valid.saturating_sub(1) as f64)
                }
            }
        })
    }

    /// Returns the largest of each pixel's valid values; NaN if there are none.
    pub fn maxima(&self) -> Vec<f64> {
        self.map(|pixel| match (self.valid(pixel), self.zeros_of(pixel)) {
            (0, _) => NAN64,
            (_, 0) => pixel.max as f64,
            _ => pixel.max.max(0) as f64,
        })
    }

    /// Returns the number of frames in which a pixel has a valid value.
    fn valid(&self, pixel: &StoredPixelSums) -> u64 {
        self.frames.saturating_sub(pixel.invalid.into())
    }

    fn zeros_of(&self, pixel: &StoredPixelSums) -> u64 {
        self.valid(pixel).saturating_sub(pixel.nonzero.into())
    }

    fn map<T>(&self, value: impl Fn(&StoredPixelSums) -> T) -> Vec<T> {
        self.pixels.iter().map(value).collect()
    }
}
