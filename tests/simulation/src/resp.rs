//! The protocol of Redis, as far as the gateway uses it: RESP3.

/// A reply.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Ok,
    Number(i64),
    Bulk(Vec<u8>),
    Array(Vec<Self>),
    Map(Vec<(Self, Self)>),
    /// The code and the text.
    Error(&'static str),
}

impl Reply {
    pub(crate) fn text(text: &str) -> Self {
        Self::Bulk(text.as_bytes().to_vec())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut line = |prefix: char, text: &str| {
            out.extend(format!("{prefix}{text}\r\n").as_bytes());
        };
        match self {
            Self::Ok => line('+', "OK"),
            Self::Number(number) => line(':', &number.to_string()),
            Self::Error(text) => line('-', text),
            Self::Bulk(bytes) => {
                line('$', &bytes.len().to_string());
                out.extend(bytes);
                out.extend(b"\r\n");
            }
            Self::Array(items) => {
                line('*', &items.len().to_string());
                for item in items {
                    item.write(out);
                }
            }
            Self::Map(members) => {
                line('%', &members.len().to_string());
                for (key, value) in members {
                    key.write(out);
                    value.write(out);
                }
            }
        }
    }
}

/// Takes the first command from the bytes; `None` if it is not complete.
pub(crate) fn take_command(bytes: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let mut rest = &bytes[..];
    let count = take_number(&mut rest, b'*')?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let length = take_number(&mut rest, b'$')?;
        let part = rest.get(..length)?;
        rest = rest.get(length + 2..)?;
        parts.push(part.to_vec());
    }
    let used = bytes.len() - rest.len();
    bytes.drain(..used);
    Some(parts)
}

fn take_number(rest: &mut &[u8], prefix: u8) -> Option<usize> {
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    assert_eq!(rest[0], prefix, "a command");
    let number = std::str::from_utf8(&rest[1..end]).expect("a number");
    let number = number.parse().expect("a number");
    *rest = rest.get(end + 2..)?;
    Some(number)
}
