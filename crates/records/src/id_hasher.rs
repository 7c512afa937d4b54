//! Identities: SHA-256 over named, length-prefixed parts.

use sha2::{Digest as _, Sha256};

/// Collects the parts of an identity. Each part is preceded by its length, so that no two lists
/// of parts give the same bytes.
///
/// ```
/// let one = records::Digest::new("scan").text("ab").text("c").short();
/// let two = records::Digest::new("scan").text("a").text("bc").short();
/// assert_ne!(one, two);
/// ```
pub struct IdHasher(Sha256);

impl IdHasher {
    /// An identity of the named kind.
    pub fn new(kind: &str) -> Self {
        Self(Sha256::new()).add_text(kind)
    }

    /// Adds a text.
    pub fn add_text(self, part: &str) -> Self {
        self.add_bytes(part.as_bytes())
    }

    /// Adds bytes.
    pub fn add_bytes(mut self, part: &[u8]) -> Self {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// The first 64 bits in 16 hexadecimal digits: the ids of records.
    pub fn to_short_hex(self) -> String {
        self.to_hex()[..16].to_owned()
    }

    /// All 256 bits in 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        format_hex(&self.0.finalize())
    }

    /// What `sha256sum` prints for these bytes.
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
