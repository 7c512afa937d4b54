//! Random numbers that depend on a seed alone: SplitMix64, and Poisson counts from it.

/// A stream of random numbers that its seeds determine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns the stream of a list of seeds.
    pub fn new(seeds: &[u64]) -> Self {
        let mut stream = Self(0);
        for seed in seeds {
            stream.0 = stream.next() ^ seed;
        }
        stream
    }

    /// 64 random bits (Steele, Lea and Flood, OOPSLA 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Evenly in [0, 1).
    fn even(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns an index into a list of `len` items.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A Poisson count of this mean. Above 50, where chopping down would be slow, the normal
    /// distribution of the same mean and variance, rounded.
    pub(crate) fn poisson(&mut self, mean: f64) -> u32 {
        if mean > 50.0 {
            let (radius, angle) =
                ((-2.0 * (1.0 - self.even()).ln()).sqrt(), std::f64::consts::TAU * self.even());
            return (mean + mean.sqrt() * radius * angle.cos()).round().max(0.0) as u32;
        }
        let (mut left, mut chance, mut count) = (self.even(), (-mean).exp(), 0);
        while left > chance && count < 1000 {
            left -= chance;
            count += 1;
            chance *= mean / f64::from(count);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_mean_and_the_variance_of_poisson() {
        for mean in [0.01, 2.0, 30.0, 400.0] {
            let mut random = Random::new(&[1, 2]);
            let counts: Vec<f64> = (0..40_000).map(|_| random.poisson(mean).into()).collect();
            let average = counts.iter().sum::<f64>() / 40_000.0;
            let variance =
                counts.iter().map(|count| (count - average).powi(2)).sum::<f64>() / 40_000.0;
            // Five standard errors.
            assert!(
                (average - mean).abs() < 5.0 * (mean / 40_000.0).sqrt(),
                "{average} for {mean}"
            );
            let spread = ((mean + 2.0 * mean * mean) / 40_000.0).sqrt();
            assert!((variance - mean).abs() < 5.0 * spread, "{variance} for {mean}");
        }
    }
}
