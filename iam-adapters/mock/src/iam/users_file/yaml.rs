//! YAML as a [`Node`].

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

use super::node::Node;
use super::place;

/// A users file needs four: the document, its list, an entry, its permissions.
const DEPTH_MAX: usize = 16;

/// Reads one document; none at all is an empty table, as it is in TOML.
pub(super) fn read(text: &str) -> Result<Node, String> {
    let mut events = Events(Parser::new_from_str(text));
    let mut root = None;
    while let Some((event, at)) = events.next()? {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
            _ if root.is_some() => return Err(refused(at, "a second document")),
            event => root = Some(events.node(event, at, DEPTH_MAX)?),
        }
    }
    Ok(root.unwrap_or_else(|| Node::Table(Vec::new())))
}

struct Events<'t>(Parser<'t, StrInput<'t>>);

impl<'t> Events<'t> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Marker)>, String> {
        match self.0.next_event() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, span.start))),
            Some(Err(error)) => {
                // One of the parser's messages goes on with a character of the text.
                let what = error.info().split(": `").next().unwrap_or_default();
                Err(refused(*error.marker(), what))
            }
        }
    }

    /// The value that begins with this event.
    fn node(&mut self, event: Event<'t>, at: Marker, depth: usize) -> Result<Node, String> {
        let deeper = depth
            .checked_sub(1)
            .ok_or_else(|| refused(at, "too many levels"))?;
        match event {
            Event::Alias(_) => Err(refused(at, ANCHORS)),
            Event::Scalar(_, _, anchor, tag) if anchor != 0 || tag.is_some() => {
                Err(refused(at, ANCHORS))
            }
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag)
                if anchor != 0 || tag.is_some() =>
            {
                Err(refused(at, ANCHORS))
            }
            Event::Scalar(text, style, ..) => {
                let other = style == ScalarStyle::Plain && is_no_string(&text);
                Ok(if other {
                    Node::Other
                } else {
                    Node::Text(text.into_owned().into())
                })
            }
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                while let Some((event, at)) = self.next()? {
                    if event == Event::SequenceEnd {
                        break;
                    }
                    list.push(self.node(event, at, deeper)?);
                }
                Ok(Node::List(list))
            }
            Event::MappingStart(..) => {
                let mut table = Vec::new();
                while let Some((event, at)) = self.next()? {
                    let key = match event {
                        Event::MappingEnd => break,
                        Event::Scalar(key, _, 0, None) => key.into_owned(),
                        _ => return Err(refused(at, "a key that is no plain text")),
                    };
                    let Some((event, at)) = self.next()? else {
                        break;
                    };
                    table.push((key, self.node(event, at, deeper)?));
                }
                Ok(Node::Table(table))
            }
            _ => Err(refused(at, "no value")),
        }
    }
}

const ANCHORS: &str = "anchors, aliases and tags are not understood here (put a text that begins \
                       with &, * or ! in quotes)";

fn refused(at: Marker, what: &str) -> String {
    place(at.line(), at.col() + 1, what)
}

/// Whether text without quotes is something else than a string (YAML 1.2.2 section 10.3.2).
fn is_no_string(text: &str) -> bool {
    const WORDS: [&str; 5] = ["", "~", "null", "true", "false"];
    let lower = text.to_ascii_lowercase();
    let unsigned = lower.trim_start_matches(['+', '-']);
    WORDS.contains(&&*lower)
        || [".inf", ".nan"].contains(&unsigned)
        // Rust's floats know "inf" and "nan" as well, which are strings here.
        || unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && lower.parse::<f64>().is_ok()
        || ["0x", "0o"].iter().any(|base| is_digits_after(base, &lower))
}

fn is_digits_after(base: &str, text: &str) -> bool {
    text.strip_prefix(base)
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|d| d.is_ascii_hexdigit()))
}
