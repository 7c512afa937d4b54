//! Values as literals of Python, for the generated drivers.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

/// Formats a string literal. Bytes that are not UTF-8 become the surrogates that Python's `os`
/// functions use for them (PEP 383).
pub fn string_literal(value: impl AsRef<OsStr>) -> String {
    let mut out = String::from("\"");
    for chunk in value.as_ref().as_bytes().utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => {
                    out.push('\\');
                    out.push(char);
                }
                '\n' => out.push_str("\\n"),
                char if char.is_control() => {
                    write!(out, "\\u{:04x}", char as u32).expect("memory takes all")
                }
                char => out.push(char),
            }
        }
        for byte in chunk.invalid() {
            write!(out, "\\udc{byte:02x}").expect("memory takes all");
        }
    }
    out.push('"');
    out
}

/// Formats a list of string literals.
pub fn list_literal<T: AsRef<OsStr>>(values: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<_> = values.into_iter().map(string_literal).collect();
    format!("[{}]", texts.join(", "))
}

/// Formats `True` or `False`.
pub fn bool_literal(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn python_reads_the_same_names() {
        for name in [
            &b"it's \"50%\" \\ {x} $HOME"[..],
            b"two\nlines\t\r\x01",
            b"caf\xe9 \xc3\xa9 \xff",
            b"",
        ] {
            let literal = string_literal(OsStr::from_bytes(name));
            let script = format!("import os, sys; sys.stdout.buffer.write(os.fsencode({literal}))");
            let output =
                Command::new("python3").args(["-X", "utf8", "-c", &script]).output().unwrap();
            assert_eq!(output.stdout, name, "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
