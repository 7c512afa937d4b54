//! INI files, parsed like Python's `ConfigParser` with `#` for comments within lines, as the
//! integrator does.

/// The name of a section of an INI file, and its keys (in lower case) with their values.
pub type IniSection = (String, Vec<(String, String)>);

/// Parses the sections in their order.
///
/// # Errors
/// A line is invalid, or a section or key occurs twice. The message names the line.
pub(super) fn parse(text: &str) -> Result<Vec<IniSection>, String> {
    let mut sections: Vec<IniSection> = Vec::new();
    // Editors of Windows write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, raw) in (1..).zip(text.lines()) {
        let line = without_comment(raw).trim_end();
        let trimmed = line.trim();
        let refuse = |why: &str| Err(format!("line {number}: `{trimmed}`: {why}"));
        if trimmed.is_empty() {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if sections.iter().any(|(known, _)| known == name) {
                return refuse("expected each section once");
            }
            sections.push((name.to_owned(), Vec::new()));
            continue;
        }
        let Some((_, keys)) = sections.last_mut() else {
            return refuse("expected a [section] first");
        };
        if let (true, Some((_, value))) = (line.starts_with([' ', '\t']), keys.last_mut()) {
            // An indented line continues the value above.
            value.push('\n');
            value.push_str(trimmed);
            continue;
        }
        let Some((key, value)) = trimmed.split_once(['=', ':']) else {
            return refuse("expected key = value");
        };
        let key = key.trim().to_lowercase();
        if keys.iter().any(|(known, _)| *known == key) {
            return refuse("expected each key once in a section");
        }
        keys.push((key, value.trim().to_owned()));
    }
    Ok(sections)
}

/// Removes a comment, which begins with `#` or `;` at the start of a line, or with `#` after a
/// space.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with(['#', ';']) {
        return "";
    }
    let begins_comment =
        |(index, _): &(usize, &str)| *index == 0 || line[..*index].ends_with(char::is_whitespace);
    line.match_indices('#').find(begins_comment).map_or(line, |(index, _)| &line[..index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_comments_and_continued_lines_are_parsed() {
        let text = "; first\n[azimuthal integration]\nN_pts = 2500   # bins\nunit: q_A^-1\nmask_file = /a/b#c.edf\n\
            empty =\n[dataset]\nlocation = one.h5,\n    two.h5\n";
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let expected = [
            (
                "azimuthal integration".to_owned(),
                vec![
                    pair("n_pts", "2500"),
                    pair("unit", "q_A^-1"),
                    pair("mask_file", "/a/b#c.edf"),
                    pair("empty", ""),
                ],
            ),
            ("dataset".to_owned(), vec![pair("location", "one.h5,\ntwo.h5")]),
        ];
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse(&format!("\u{feff}{text}")).unwrap(), expected);
    }

    #[test]
    fn an_error_names_the_line() {
        for (text, expected) in [
            ("a = 1", "line 1: `a = 1`: expected a [section]"),
            ("[a]\nb", "line 2: `b`: expected key = value"),
            ("[a]\nb=1\nB=2", "line 3: `B=2`: expected each key once"),
            ("[a]\n[a]", "line 2: `[a]`: expected each section once"),
        ] {
            assert!(parse(text).unwrap_err().starts_with(expected), "{text}: {:?}", parse(text));
        }
    }
}
