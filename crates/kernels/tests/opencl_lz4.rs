//! Checks the LZ4 decoder of the OpenCL kernels, compiled as C with the address sanitizer. No
//! OpenCL driver for CPUs runs under the sanitizer.
//!
//! On valid and damaged blocks it must give the bytes or the refusal of `lz4_flex`, and stay within
//! its memory.

mod support;

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use support::Random;

/// A block, and the bytes that it decodes to; `None` for a damaged block.
struct Case {
    block: Vec<u8>,
    len: usize,
    expected: Option<Vec<u8>>,
}

impl Case {
    fn random(random: &mut Random) -> Self {
        let mut below = |end: usize| random.below(end as u64) as usize;
        let longest = [60, 1024, 8192][below(3)];
        let len = 1 + below(longest);
        let (period, noise) = (1 + below(70), [2, 40, 900][below(3)]);
        let mut bytes = vec![0u8; len];
        for at in 0..len {
            let repeats = at >= period && below(noise) > 0;
            bytes[at] = if repeats { bytes[at - period] } else { below(256) as u8 };
        }
        let mut block = lz4_flex::block::compress(&bytes);
        if below(2) == 0 {
            for _ in 0..1 + below(3) {
                let at = below(block.len());
                block[at] = [0, 255, below(256) as u8][below(3)];
            }
        }
        if below(8) == 0 {
            block.truncate(below(block.len() + 1));
        }
        // Some blocks are said to have another decoded length than they have.
        let len = if below(10) == 0 { 1 + below(8192) } else { len };
        let mut decoded = vec![0; len];
        let sound = lz4_flex::block::decompress_into(&block, &mut decoded)
            .is_ok_and(|written| written == len);
        Self { block, len, expected: sound.then_some(decoded) }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(
            [self.block.len(), self.len].map(|length| (length as u32).to_ne_bytes()).as_flattened(),
        );
        out.extend(&self.block);
    }
}

/// Compiles the program. Returns `None` if there is no compiler with the sanitizer.
fn compile(to: &Path) -> bool {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opencl_lz4.c");
    let flags = [
        "-std=c11",
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-o",
    ];
    let flags = flags.into_iter().map(OsStr::new).chain([to.as_os_str(), source.as_os_str()]);
    let compiled =
        Command::new(compiler).args(flags).output().is_ok_and(|output| output.status.success());
    assert!(
        compiled || std::env::var_os("CI").is_none(),
        "the C compiler has no address sanitizer"
    );
    compiled
}

#[test]
fn the_decoder_of_devices_stays_within_its_memory_and_decodes_what_lz4_flex_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("lz4");
    if !compile(&program) {
        return;
    }
    let random = &mut Random::new(21);
    let cases: Vec<Case> = (0..20_000).map(|_| Case::random(random)).collect();
    let mut input = Vec::new();
    cases.iter().for_each(|case| case.put(&mut input));
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let output = std::thread::scope(|scope| {
        // If the sanitizer ends the program, it reads no more input.
        scope.spawn(move || drop(stdin.write_all(&input)));
        child.wait_with_output().expect("it ends")
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut found, mut refused) = (&output.stdout[..], 0);
    for (number, case) in cases.iter().enumerate() {
        let (answer, rest) = found.split_at(1 + case.len);
        found = rest;
        assert_eq!(answer[0] == 1, case.expected.is_some(), "block {number}: sound");
        match &case.expected {
            Some(expected) => assert!(answer[1..] == *expected, "block {number}: other bytes"),
            None => refused += 1,
        }
    }
    assert!(
        found.is_empty() && (4_000..16_000).contains(&refused),
        "{refused} of {} refused",
        cases.len()
    );
}
