//! Ids and digests: SHA-256 over length-prefixed parts.

use sha2::{Digest as _, Sha256};

/// Hashes the parts of an id. The length of each part precedes it, so that different lists of parts
/// never give the same bytes.
///
/// ```
/// let one = records::IdHasher::new("scan").add_text("ab").add_text("c").to_short_hex();
/// let two = records::IdHasher::new("scan").add_text("a").add_text("bc").to_short_hex();
/// assert_ne!(one, two);
/// ```
pub struct IdHasher(Sha256);

impl IdHasher {
    /// Creates a hasher for an id of the kind `kind`.
    pub fn new(kind: &str) -> Self {
        Self(Sha256::new()).add_text(kind)
    }

    /// Adds a text as the next part.
    pub fn add_text(self, part: &str) -> Self {
        self.add_bytes(part.as_bytes())
    }

    /// Adds bytes as the next part.
    pub fn add_bytes(mut self, part: &[u8]) -> Self {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// Returns the first 64 bits as 16 hexadecimal digits, the form of record ids.
    pub fn to_short_hex(self) -> String {
        self.to_hex()[..16].to_owned()
    }

    /// Returns all 256 bits as 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        format_hex(&self.0.finalize())
    }

    /// Returns the SHA-256 of the bytes in hexadecimal, as `sha256sum` prints it.
    pub fn sha256_hex(bytes: &[u8]) -> String {
        format_hex(&Sha256::digest(bytes))
    }
}

fn format_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn content_is_what_sha256sum_prints() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(super::IdHasher::sha256_hex(b"abc"), expected);
    }
}
