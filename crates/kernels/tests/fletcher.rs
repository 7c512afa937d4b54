//! Compares Fletcher-32 with h5py: exactly those chunks are refused that the HDF5 library refuses.

use std::path::PathBuf;
use std::process::Command;

use kernels::{Pipeline, PixelType};

/// Returns the Python interpreter that has h5py: that of `AZPIPE_PEERS`, or `.venv` in the root.
/// Returns `None` if there is none.
fn python() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join(".venv"), PathBuf::from);
    let python = peers.join("bin/python");
    if python.exists() {
        return Some(python);
    }
    assert!(std::env::var_os("CI").is_none(), "no {}: scripts/test makes it", python.display());
    eprintln!("skipped: no {}", python.display());
    None
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

/// The kinds of damage that `fletcher.py` does to stored bytes, in its order.
fn variants(stored: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flipped = [1, 255].into_iter().flat_map(move |flip| {
        (0..stored.len()).map(move |at| {
            let mut stored = stored.to_vec();
            stored[at] ^= flip;
            stored
        })
    });
    let (data, checksum) = stored.split_last_chunk::<4>().expect("a checksum");
    let [a, b, c, d] = *checksum;
    flipped.chain([[data, &[b, a, d, c]].concat()])
}

#[test]
fn what_the_library_refuses_is_refused() {
    let Some(python) = python() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fletcher.py");
    let ran = Command::new(python).arg(script).output().expect("python");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).expect("ASCII");
    let (mut chunks, mut refused) = (0, 0);
    for line in text.lines() {
        let [dtype, filters, pixels, stored, verdicts] = line.split(' ').collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let about = format!("{dtype} {filters}, {} bytes", pixels.len() / 2);
        let dtype: PixelType = match dtype {
            "u1" => PixelType::U8,
            "i1" => PixelType::I8,
            "u2" => PixelType::U16,
            "i2" => PixelType::I16,
            "u4" => PixelType::U32,
            "i4" => PixelType::I32,
            "u8" => PixelType::U64,
            "f4" => PixelType::F32,
            "f8" => PixelType::F64,
            other => panic!("{other}"),
        };
        let filter = |text: &str| {
            let (id, values) = text.split_once(':').expect("a filter");
            let values = values
                .split(',')
                .filter(|value| !value.is_empty())
                .map(|value| value.parse::<u32>());
            (
                id.parse::<u32>().expect("a number"),
                values.collect::<Result<Vec<_>, _>>().expect("numbers"),
            )
        };
        let filters: Vec<(u32, Vec<u32>)> = filters.split(';').map(filter).collect();
        let filters: Vec<(u32, &[u32])> =
            filters.iter().map(|(id, values)| (*id, &values[..])).collect();
        let pipeline = Pipeline::from_hdf5(&filters, dtype, false).expect("filters that are known");
        let (pixels, stored) = (bytes(pixels), bytes(stored));
        let decode = |stored: &[u8]| {
            let mut out = vec![0xee; pixels.len()];
            pipeline.decode(0, stored, &mut out).map(|()| out)
        };
        assert_eq!(decode(&stored).as_ref(), Ok(&pixels), "{about}");
        let reads = verdicts.chars().map(|digit| digit == '1');
        assert_eq!(verdicts.len(), 2 * stored.len() + 1, "{about}");
        for (number, (stored, reads)) in variants(&stored).zip(reads).enumerate() {
            let decoded = decode(&stored);
            assert_eq!(decoded.is_ok(), reads, "{about}: variant {number}: {:?}", decoded.err());
            match decoded {
                Ok(decoded) => assert!(decoded == pixels, "{about}: variant {number}"),
                Err(why) => {
                    assert!(
                        why.to_string().starts_with("fletcher32: the chunk is corrupt: checksum "),
                        "{about}: variant {number}: {why}"
                    );
                    refused += 1;
                }
            }
        }
        chunks += 1;
    }
    assert!(chunks > 100 && refused > 100_000, "{chunks} chunks, {refused} refused");
}
