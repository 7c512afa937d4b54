//! INI files as Python's `ConfigParser` reads them with `#` for comments within lines, as the integrator does.

/// A section: its name, and its keys in lower case with their values.
pub(super) type IniSection = (String, Vec<(String, String)>);

/// The sections in their order.
///
/// # Errors
/// The line, and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<IniSection>, String> {
    let mut sections: Vec<IniSection> = Vec::new();
    for (number, raw) in (1..).zip(text.lines()) {
        let line = without_comment(raw).trim_end();
        let word = line.trim();
        let wrong = |why: &str| Err(format!("line {number}: `{word}`: {why}"));
        if word.is_empty() {
            continue;
        }
        if let Some(name) = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if sections.iter().any(|(known, _)| known == name) {
                return wrong("the section is there twice");
            }
            sections.push((name.to_owned(), Vec::new()));
            continue;
        }
        let Some((_, keys)) = sections.last_mut() else { return wrong("expected a [section] first") };
        if let (true, Some((_, value))) = (line.starts_with([' ', '\t']), keys.last_mut()) {
            // An indented line goes on with the value above.
            value.push('\n');
            value.push_str(word);
            continue;
        }
        let Some((key, value)) = word.split_once(['=', ':']) else { return wrong("expected key = value") };
        let key = key.trim().to_lowercase();
        if keys.iter().any(|(known, _)| *known == key) {
            return wrong("the key is there twice");
        }
        keys.push((key, value.trim().to_owned()));
    }
    Ok(sections)
}

/// A comment begins with `#` or `;` at the start of a line, or with `#` after a space.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with(['#', ';']) {
        return "";
    }
    let begins = |(at, _): &(usize, &str)| *at == 0 || line[..*at].ends_with(char::is_whitespace);
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_comments_and_lines_that_go_on() {
        let text = "; first\n[azimuthal integration]\nN_pts = 2500   # bins\nunit: q_A^-1\nmask_file = /a/b#c.edf\n\
            empty =\n[dataset]\nlocation = one.h5,\n    two.h5\n";
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let expected = [
            (
                "azimuthal integration".to_owned(),
                vec![pair("n_pts", "2500"), pair("unit", "q_A^-1"), pair("mask_file", "/a/b#c.edf"), pair("empty", "")],
            ),
            ("dataset".to_owned(), vec![pair("location", "one.h5,\ntwo.h5")]),
        ];
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn what_is_no_ini_is_told_with_its_line() {
        for (text, expected) in [
            ("a = 1", "line 1: `a = 1`: expected a [section]"),
            ("[a]\nb", "line 2: `b`: expected key = value"),
            ("[a]\nb=1\nB=2", "line 3: `B=2`: the key is there twice"),
            ("[a]\n[a]", "line 2: `[a]`: the section is there twice"),
        ] {
            assert!(parse(text).unwrap_err().starts_with(expected), "{text}: {:?}", parse(text));
        }
    }
}
