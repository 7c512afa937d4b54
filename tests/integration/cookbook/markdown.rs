//! The little Markdown that the pages use: its examples, and its translation to a manual page.

/// When somebody last read the pages through.
const DATE: &str = "2026-11-23";

/// An example of a page.
pub struct Example {
    /// The commands of a block in the language `sh`.
    pub script: String,
    /// The output of the commands, if the next block is in the language `text`.
    pub output: Option<String>,
}

/// A part of a page.
enum Block {
    Heading(usize, String),
    Paragraph(String),
    Item(String),
    /// The cells of a row of a table.
    Row(Vec<String>),
    /// The language and the text of a fenced block.
    Code(String, String),
}

/// Returns the examples of a page.
pub fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut is_after_script = false;
    for block in parse(text) {
        match block {
            Block::Code(language, script) if language == "sh" => {
                found.push(Example { script, output: None });
                is_after_script = true;
            }
            Block::Code(language, output) if language == "text" && is_after_script => {
                found.last_mut().expect("a script came before").output = Some(output);
                is_after_script = false;
            }
            _ => is_after_script = false,
        }
    }
    found
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    let mut starts_paragraph = true;
    while let Some(line) = lines.next() {
        let was_start = std::mem::take(&mut starts_paragraph);
        if let Some(language) = line.strip_prefix("```") {
            let code = lines
                .by_ref()
                .take_while(|line| *line != "```")
                .map(|line| format!("{line}\n"))
                .collect();
            blocks.push(Block::Code(language.to_owned(), code));
        } else if line.starts_with('#') {
            let title = line.trim_start_matches('#');
            blocks.push(Block::Heading(line.len() - title.len(), title.trim().to_owned()));
            starts_paragraph = true;
        } else if let Some(item) = line.strip_prefix("- ") {
            blocks.push(Block::Item(item.to_owned()));
        } else if let Some(row) = line.strip_prefix("| ") {
            blocks.push(Block::Row(
                row.trim_end_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect(),
            ));
        } else if line.is_empty() || line.starts_with("|-") || line.starts_with("<!--") {
            starts_paragraph = true;
        } else {
            match blocks.last_mut() {
                Some(Block::Paragraph(text) | Block::Item(text)) if !was_start => {
                    text.push('\n');
                    text.push_str(line.trim());
                }
                _ => blocks.push(Block::Paragraph(line.to_owned())),
            }
        }
    }
    blocks
}

/// Translates a page to roff. `page` is the name with its section, such as `azpipe.7`. The first
/// heading is `NAME: what it is`.
pub fn to_manual(text: &str, page: &str) -> String {
    let (name, section) = page.rsplit_once('.').expect("a name with a section");
    let version = env!("CARGO_PKG_VERSION");
    let mut out =
        format!(".TH {} {section} {DATE} \"azpipe {version}\" azpipe\n", name.to_uppercase());
    let mut is_after_heading = false;
    for block in parse(text) {
        let follows_heading = std::mem::take(&mut is_after_heading);
        match block {
            Block::Heading(1, title) => {
                let (_, what) =
                    title.split_once(": ").expect("the first heading is `NAME: what it is`");
                out += &format!(".SH NAME\n{} \\- {}\n", escape(name), inline(what));
            }
            Block::Heading(level, title) => {
                let command = if level == 2 { ".SH" } else { ".SS" };
                let title = if level == 2 { title.to_uppercase() } else { title };
                out += &format!("{command} \"{}\"\n", escape(&title.replace('`', "")));
                is_after_heading = true;
            }
            Block::Paragraph(text) => {
                let start = if follows_heading { "" } else { ".PP\n" };
                out += &format!("{start}{}\n", inline(&text));
            }
            Block::Item(text) => out += &format!(".IP \\(bu 2\n{}\n", inline(&text)),
            Block::Row(cells) => {
                let (first, rest) = cells.split_first().expect("a row has cells");
                let rest: Vec<&str> =
                    rest.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
                if !rest.is_empty() && !first.is_empty() {
                    out += &format!(
                        ".TP\n.B {}\n{}\n",
                        escape(&first.replace('`', "")),
                        inline(&rest.join(": "))
                    );
                }
            }
            Block::Code(_, code) => {
                let start = if follows_heading { "" } else { ".PP\n" };
                out += &format!("{start}.EX\n");
                // `\&` keeps a dot at the start of a line from being a command.
                out.extend(code.lines().map(|line| format!("\\&{}\n", escape(line))));
                out += ".EE\n";
            }
        }
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga")
        .replace('^', "\\(ha")
        .replace('~', "\\(ti")
}

/// Translates code, bold text and links within a paragraph. Each line is guarded, so that none is a
/// command to roff.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (index, piece) in text.split('`').enumerate() {
        if index % 2 == 1 {
            out += &format!("\\fB{}\\fR", escape(piece));
        } else {
            out += &escape(&without_links(piece)).replace("**", "");
        }
    }
    let guard = |line: &str| {
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
    };
    out.lines().map(guard).collect::<Vec<_>>().join("\n")
}

/// Returns the text with the texts of its links, without where they lead.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, (label, after))) =
        rest.split_once('[').and_then(|(before, link)| Some((before, link.split_once("](")?)))
    {
        out += before;
        out += label;
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out + rest
}
