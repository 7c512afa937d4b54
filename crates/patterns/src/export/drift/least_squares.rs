//! [`NormalEquations`]: weighted linear least squares with few parameters.

/// Normal equations AᵀWA p = AᵀWy of N parameters p, which observations are added to one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct NormalEquations<const N: usize> {
    matrix: [[f64; N]; N],
    vector: [f64; N],
}

impl<const N: usize> NormalEquations<N> {
    /// Creates the equations of no observation.
    pub fn new() -> Self {
        Self { matrix: [[0.0; N]; N], vector: [0.0; N] }
    }

    /// Adds an observation: its value, its derivatives by the parameters, and its weight, 1/σ².
    pub fn add(&mut self, value: f64, slopes: &[f64; N], weight: f64) {
        for ((row, sum), slope) in self.matrix.iter_mut().zip(&mut self.vector).zip(slopes) {
            *sum += weight * slope * value;
            for (cell, other) in row.iter_mut().zip(slopes) {
                *cell += weight * slope * other;
            }
        }
    }

    /// Removes a parameter, which stays 0.
    pub fn fix(&mut self, parameter: usize) {
        for (index, row) in self.matrix.iter_mut().enumerate() {
            for (column, cell) in row.iter_mut().enumerate() {
                if index == parameter || column == parameter {
                    *cell = if index == column { 1.0 } else { 0.0 };
                }
            }
        }
        if let Some(value) = self.vector.get_mut(parameter) {
            *value = 0.0;
        }
    }

    /// Multiplies the diagonal by `1 + damping`, as Levenberg and Marquardt do.
    pub fn damped(mut self, damping: f64) -> Self {
        for (index, row) in self.matrix.iter_mut().enumerate() {
            row[index] *= 1.0 + damping;
        }
        self
    }

    /// Returns the parameters, and their covariance matrix (AᵀWA)⁻¹, by Gauss and Jordan's
    /// elimination of the matrix that is scaled to a diagonal of 1. `None` if the observations do not
    /// determine the parameters.
    pub fn solve(&self) -> Option<([f64; N], [[f64; N]; N])> {
        let scales: [f64; N] = std::array::from_fn(|index| self.matrix[index][index].sqrt());
        if !scales.iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return None;
        }
        let mut left = self.matrix;
        let mut inverse = [[0.0; N]; N];
        for (index, row) in left.iter_mut().enumerate() {
            inverse[index][index] = 1.0;
            for (cell, scale) in row.iter_mut().zip(&scales) {
                *cell /= scale * scales[index];
            }
        }
        for pivot in 0..N {
            // The matrix is positive, so that rows need no exchange.
            let size = left[pivot][pivot];
            if size.is_nan() || size < 1e-10 {
                return None;
            }
            left[pivot].iter_mut().chain(&mut inverse[pivot]).for_each(|cell| *cell /= size);
            let (pivot_left, pivot_inverse) = (left[pivot], inverse[pivot]);
            for row in (0..N).filter(|row| *row != pivot) {
                let factor = left[row][pivot];
                let cells = left[row].iter_mut().chain(&mut inverse[row]);
                for (cell, other) in cells.zip(pivot_left.iter().chain(&pivot_inverse)) {
                    *cell -= factor * other;
                }
            }
        }
        for (index, row) in inverse.iter_mut().enumerate() {
            for (cell, scale) in row.iter_mut().zip(&scales) {
                *cell /= scale * scales[index];
            }
        }
        let parameters =
            inverse.map(|row| row.iter().zip(&self.vector).map(|(cell, sum)| cell * sum).sum());
        Some((parameters, inverse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_with_its_covariance() {
        let mut equations = NormalEquations::<3>::new();
        for x in [0.0, 1.0, 2.0] {
            equations.add(1e6 + 2.0 * x, &[1.0, x, 7.0], 4.0);
        }
        assert!(equations.solve().is_none(), "two parameters are of one kind");
        equations.fix(2);
        let (line, covariance) = equations.solve().unwrap();
        assert!((line[0] - 1e6).abs() < 1e-6 && (line[1] - 2.0).abs() < 1e-6 && line[2] == 0.0);
        // By hand: of the normal matrix 4 [[3, 3], [3, 5]].
        let expected = [[5.0 / 24.0, -3.0 / 24.0], [-3.0 / 24.0, 3.0 / 24.0]];
        for (row, expected) in covariance.iter().zip(expected) {
            assert!((row[0] - expected[0]).abs() < 1e-12 && (row[1] - expected[1]).abs() < 1e-12);
        }
    }
}
