//! Quotes values for generated scripts, with one function per language.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The reasons why a value can't be quoted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuoteError {
    /// The value has a line break, at which an `#SBATCH` directive ends even inside quotes.
    #[error("{0:?}: an #SBATCH directive can't hold a line break")]
    LineBreak(OsString),
    /// The name of a log has a backslash, which disables `%A` and `%a` in it.
    #[error("{0:?}: the name of a SLURM log can't hold a backslash")]
    Backslash(OsString),
    /// The value is so long that sbatch fails or overruns a buffer.
    #[error("{0:?}: an #SBATCH directive can't be longer than 8000 bytes")]
    TooLong(OsString),
}

/// Quotes a value as one word of a POSIX shell.
///
/// ```
/// assert_eq!(filter::quote::shell("it's $5".as_ref()), r"'it'\''s $5'");
/// assert_eq!(filter::quote::shell("/data/a.h5".as_ref()), "/data/a.h5");
/// ```
pub fn shell(value: &OsStr) -> OsString {
    if needs_no_quotes(value) {
        return value.to_owned();
    }
    let mut out = b"'".to_vec();
    for &byte in value.as_bytes() {
        match byte {
            b'\'' => out.extend_from_slice(br"'\''"),
            byte => out.push(byte),
        }
    }
    out.push(b'\'');
    OsString::from_vec(out)
}

/// Quotes a value as one word of a shell command in a makefile's recipe, in which make expands `$`
/// first. A value with a line break needs `SHELL = bash` in the makefile, because make splits
/// recipes at line breaks even inside quotes.
///
/// ```
/// assert_eq!(filter::quote::make("it's $5".as_ref()), r"'it'\''s $$5'");
/// assert_eq!(filter::quote::make("two\nlines".as_ref()), r"'two'$$'\n''lines'");
/// ```
pub fn make(value: &OsStr) -> OsString {
    let mut out = Vec::new();
    for &byte in shell(value).as_bytes() {
        match byte {
            b'$' => out.extend_from_slice(b"$$"),
            b'\n' => out.extend_from_slice(br"'$$'\n''"),
            byte => out.push(byte),
        }
    }
    OsString::from_vec(out)
}

/// Quotes the value of an `#SBATCH --flag=` directive.
///
/// sbatch parses directives by rules of its own: quotes keep spaces and `#`, and a backslash
/// escapes the next byte, inside quotes, too.
///
/// ```
/// assert_eq!(filter::quote::sbatch("my job".as_ref()).unwrap(), "\"my job\"");
/// assert!(filter::quote::sbatch("two\nlines".as_ref()).is_err());
/// ```
///
/// # Errors
/// Fails if the value has a line break or is too long for sbatch.
pub fn sbatch(value: &OsStr) -> Result<OsString, QuoteError> {
    if value.as_bytes().contains(&b'\n') {
        return Err(QuoteError::LineBreak(value.to_owned()));
    }
    if value.len() > 8000 {
        return Err(QuoteError::TooLong(value.to_owned()));
    }
    if needs_no_quotes(value) {
        return Ok(value.to_owned());
    }
    let mut out = b"\"".to_vec();
    for &byte in value.as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    Ok(OsString::from_vec(out))
}

/// Quotes the value of `#SBATCH --output=` and `--error=`: a directory that is taken literally, and
/// a file name in which `%A` and `%a` stand for the job and the array element.
///
/// ```
/// assert_eq!(filter::quote::sbatch_log("/50% off".as_ref(), "%A_%a.log").unwrap(), "\"/50%% off/%A_%a.log\"");
/// ```
///
/// # Errors
/// Fails as [`sbatch`] does, and if the directory's name has a backslash.
pub fn sbatch_log(directory: &OsStr, pattern: &str) -> Result<OsString, QuoteError> {
    if directory.as_bytes().contains(&b'\\') {
        return Err(QuoteError::Backslash(directory.to_owned()));
    }
    let mut out = Vec::new();
    for &byte in directory.as_bytes() {
        out.extend_from_slice(if byte == b'%' { b"%%" } else { std::slice::from_ref(&byte) });
    }
    out.push(b'/');
    out.extend_from_slice(pattern.as_bytes());
    sbatch(&OsString::from_vec(out))
}

/// Returns whether a shell takes the value literally without quotes, in any position.
fn needs_no_quotes(value: &OsStr) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_%+:,./-@".contains(byte);
    !value.is_empty() && value.as_bytes().iter().all(plain)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    const NAMES: [&[u8]; 11] = [
        b"",
        b"plain-1.h5",
        b"two words",
        b"it's",
        b"\"$HOME\" `id` $(id)",
        b"50%:#!*?[~]",
        b"~root",
        b"line\nbreak\n",
        b"back\\slash\\",
        b"\xff\xfe",
        b"-n",
    ];

    /// Runs the script and returns its output.
    fn printed(program: &str, args: &[&str], script: &[u8]) -> Vec<u8> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is installed");
        child.stdin.take().expect("a pipe").write_all(script).expect("it reads its script");
        child.wait_with_output().expect("it ends").stdout
    }

    #[test]
    fn a_shell_gives_the_names_back() {
        for name in NAMES {
            let script = [b"printf '%s' ", shell(OsStr::from_bytes(name)).as_bytes()].concat();
            assert_eq!(printed("sh", &["-s"], &script), name);
        }
    }

    #[test]
    fn a_makefile_gives_the_names_back() {
        for name in NAMES {
            let word = make(OsStr::from_bytes(name));
            let makefile =
                [b"SHELL = bash\nall:\n\t@printf '%s' ".as_slice(), word.as_bytes(), b"\n"]
                    .concat();
            assert_eq!(printed("make", &["-s", "-f", "-"], &makefile), name);
        }
    }

    #[test]
    fn sbatch_takes_bytes_behind_a_backslash() {
        let quoted =
            |name: &str| sbatch(name.as_ref()).expect("a value").into_string().expect("UTF-8");
        assert_eq!(quoted(r#"a "b" \c #d"#), r#""a \"b\" \\c #d""#);
        assert_eq!(quoted("gpu:a100,1"), "gpu:a100,1");
        assert!(sbatch_log(r"a\b".as_ref(), "%A").is_err());
    }
}
