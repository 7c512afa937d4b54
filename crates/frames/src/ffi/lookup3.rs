//! The checksum with which HDF5 protects its metadata.

/// Returns Jenkins' lookup3 checksum (`hashlittle` from 0), with which HDF5 protects its metadata.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let add = |[a, b, c]: [u32; 3], block: &[u8]| {
        let mut padded = [0; 12];
        padded.iter_mut().zip(block).for_each(|(to, from)| *to = *from);
        let [x, y, z] = [0, 4, 8].map(|at| {
            u32::from_le_bytes([padded[at], padded[at | 1], padded[at | 2], padded[at | 3]])
        });
        [a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z)]
    };
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    let mut blocks = bytes.chunks(12).peekable();
    while let Some(block) = blocks.next() {
        state = add(state, block);
        if blocks.peek().is_some() {
            state = mix(state);
        }
    }
    if bytes.is_empty() { start } else { mix_last(state) }
}

/// Mixes three words reversibly (`mix` of lookup3).
fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for turns in [[4, 6, 8], [16, 19, 4]] {
        a = a.wrapping_sub(c) ^ c.rotate_left(turns[0]);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(turns[1]);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(turns[2]);
        b = b.wrapping_add(a);
    }
    [a, b, c]
}

/// Mixes three words to one (`final` of lookup3).
fn mix_last([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    for turns in [[14, 11, 25], [16, 4, 14]] {
        c = (c ^ b).wrapping_sub(b.rotate_left(turns[0]));
        a = (a ^ c).wrapping_sub(c.rotate_left(turns[1]));
        b = (b ^ a).wrapping_sub(a.rotate_left(turns[2]));
    }
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_lookup3() {
        // From the comments of lookup3.c, by Bob Jenkins (2006, public domain).
        assert_eq!(checksum(b""), 0xdead_beef);
        assert_eq!(checksum(b"Four score and seven years ago"), 0x1777_0551);
    }
}
