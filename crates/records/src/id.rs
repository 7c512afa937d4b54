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
pub struct Digest(Sha256);

impl Digest {
    /// An identity of the named kind.
    pub fn new(kind: &str) -> Self {
        Self(Sha256::new()).text(kind)
    }

    /// Adds a text.
    pub fn text(self, part: &str) -> Self {
        self.bytes(part.as_bytes())
    }

    /// Adds bytes.
    pub fn bytes(mut self, part: &[u8]) -> Self {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// The first 64 bits in 16 hexadecimal digits: the ids of records.
    pub fn short(self) -> String {
        self.full()[..16].to_owned()
    }

    /// All 256 bits in 64 hexadecimal digits.
    pub fn full(self) -> String {
        hex(&self.0.finalize())
    }

    /// What `sha256sum` prints for these bytes.
    pub fn of_content(bytes: &[u8]) -> String {
        hex(&Sha256::digest(bytes))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn content_is_what_sha256sum_prints() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(super::Digest::of_content(b"abc"), expected);
    }
}
