//! A manual page: what clap knows of a filter, and the sections that only a person can write.

use clap::Command;
use clap_mangen::Man;

/// When somebody last read the pages through.
const DATE: &str = "2026-11-21";

/// The first lines of a page, which define an apostrophe that is one on every device.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// The page of a filter. `sections` is what comes behind its options, in roff, with the examples
/// between `.EX` and `.EE` as one would type them.
pub fn render(command: &Command, sections: &str) -> String {
    let (name, version) = (command.get_name(), command.get_version().unwrap_or_default());
    // clap_mangen leaves out the text of an option that `-h` hides, unless it has a longer one.
    let man = Man::new(command.clone().mut_args(|argument| argument.hide_short_help(false)));
    let parts = [
        format!(".TH {} 1 {DATE} \"azpipe {version}\" azpipe\n", name.to_uppercase()),
        render_part(|out| man.render_name_section(out)),
        format!(".SH SYNOPSIS\n\\fB{}\\fR {}\n", escape(name), synopsis(command)),
        render_part(|out| man.render_description_section(out)),
        with_subsections(render_part(|out| man.render_options_section(out)), command),
        with_literal_examples(sections),
    ];
    let lines: Vec<String> = parts.concat().lines().map(format_line).collect();
    PREAMBLE.to_owned() + &without_idle_breaks(&lines)
}

/// Turns the command line's help headings into subsections.
fn with_subsections(options: String, command: &Command) -> String {
    let headings = command.get_arguments().filter_map(|argument| argument.get_help_heading());
    headings.fold(options, |options, heading| {
        let upper = heading.to_uppercase();
        let titles = [format!(".SH {upper}\n"), format!(".SH \"{upper}\"\n")];
        titles
            .iter()
            .fold(options, |options, title| options.replace(title, &format!(".SS {heading}\n")))
    })
}

/// Returns the usage line of `--help` after the program's name.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let (_, arguments) = usage.split_once(command.get_name()).expect("the usage names the program");
    escape(arguments.trim())
}

fn with_literal_examples(sections: &str) -> String {
    let mut literal = false;
    let mut line = |line: &str| {
        literal = line == ".EX" || literal && line != ".EE";
        if !literal || line == ".EX" {
            return format!("{line}\n");
        }
        let text = line
            .replace('\\', "\\e")
            .replace('-', "\\-")
            .replace('\'', "\\(aq")
            .replace('`', "\\(ga");
        // A dot at the start of a line would be a command to roff, and an empty line a space.
        format!("\\&{text}\n")
    };
    sections.lines().map(&mut line).collect()
}

fn render_part(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    render(&mut out).expect("memory takes all");
    String::from_utf8(out).expect("clap's text is UTF-8").replace(PREAMBLE, "")
}

fn escape(text: &str) -> String {
    text.replace('-', "\\-")
}

/// A line without blanks at its end, and with what stands between backticks in bold.
fn format_line(line: &str) -> String {
    let mut out = String::new();
    for (index, piece) in line.trim_end().split('`').enumerate() {
        match index % 2 {
            0 if index > 0 => out += "\\fR",
            1 => out += "\\fB",
            _ => (),
        }
        out += piece;
    }
    out
}

/// clap_mangen puts a break on either side of an empty line, and two at once, where one is enough.
fn without_idle_breaks(lines: &[String]) -> String {
    let is = |index: usize, what: &str| lines.get(index).is_some_and(|line| line == what);
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        match line.as_str() {
            "" => out += ".sp\n",
            ".br" if is(index + 1, "") || is(index + 1, ".br") => {}
            ".br" if index > 0 && is(index - 1, "") => {}
            line => {
                out += line;
                out.push('\n');
            }
        }
    }
    out
}
