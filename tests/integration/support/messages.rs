//! A rule for all messages of the filters: a line names a file once.

/// The beginning of each filter's messages.
const PREFIXES: [&str; 5] =
    ["scan-find: ", "plan-split: ", "ai-integrate: ", "gather: ", "slurm-emit: "];

/// Characters that may stand around a path, or end it.
const AROUND: &[char] = &['`', '"', '\'', '(', ')', '[', ']', '<', '>', ',', ';', ':', '.'];

/// Returns the first message that names an absolute path more than once, with or without a dataset
/// in the file.
pub fn find_repeated_path(stderr: &str) -> Option<&str> {
    let is_message = |line: &&str| PREFIXES.iter().any(|prefix| line.starts_with(prefix));
    stderr.lines().filter(is_message).find(|line| {
        let words = line.split_whitespace().map(|word| word.trim_matches(AROUND));
        let mut paths: Vec<&str> = words.filter(|word| is_path(word)).map(file_of).collect();
        paths.sort_unstable();
        paths.windows(2).any(|pair| pair[0] == pair[1])
    })
}

fn is_path(word: &str) -> bool {
    word.starts_with('/') && word.len() > 1
}

fn file_of(path: &str) -> &str {
    path.split_once("::").map_or(path, |(file, _)| file)
}

/// Panics if a message names a path more than once.
#[track_caller]
pub fn assert_no_repeated_path(stderr: &str) {
    if let Some(line) = find_repeated_path(stderr) {
        panic!("a message names a path twice: {line}");
    }
}

#[test]
fn a_path_that_is_named_twice_is_found() {
    for line in [
        "gather: /out/a.h5: can't read /out/a.h5: No such file",
        "gather: /out/a.h5::/entry: no group in \"/out/a.h5\"",
        "scan-find: warning: `/raw/x.h5`, read as (/raw/x.h5): nothing",
    ] {
        assert_eq!(find_repeated_path(&format!("gather: good\n{line}\n")), Some(line));
    }
    for line in [
        "gather: /out/a.h5: can't read /out/a: No such file",
        "gather: /out/a.h5: its raw file is /raw/a.h5: run gather --from /out",
        "/out/a.h5 and /out/a.h5, which no filter says",
    ] {
        assert_eq!(find_repeated_path(line), None);
    }
}
