//! Where each request of a connection begins and ends (RFC 9112 sections 2, 6 and 7).
//!
//! actix-http parses every request that was received and answers by itself what it cannot parse.
//! It gets one request at a time, and only one that this module has framed: so no response depends
//! on what follows its request, and each request has exactly one.
//!
//! Whatever could be framed in two ways is refused here. Nothing is accepted that actix-http would
//! refuse or end elsewhere; a test compares the two.

use std::mem::MaybeUninit;
use std::ops::Range;

use actix_web::http::{Method, Uri};

use crate::http::problem::{InvalidRequest, Problem};

/// The longest head of a request, the line and all headers. Browsers and proxies stay far below.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The most headers, as in actix-http.
const HEADERS_MAX: usize = 96;

/// The framing of a chunked body (sizes, extensions, line ends, trailers) may take this many
/// bytes, and half as many as the data: a chunk costs the same whether it holds 1 byte or 1 KiB.
/// Chunks of 14 bytes or more always fit, and a body of 900 bytes in chunks of 1 byte.
const CHUNK_FRAMING_BYTES: u64 = 4 * 1024;

/// Follows the bytes of a connection from request to request.
#[derive(Debug)]
pub(super) struct RequestFraming {
    state: State,
    /// Whether the current request is of HTTP/1.0, where connections end unless both sides keep
    /// them.
    is_http_1_0: bool,
}

#[derive(Debug)]
enum State {
    /// The head is not complete.
    Head {
        /// How many bytes hold no end of it.
        searched: usize,
        /// With how many bytes to parse it even so, to refuse garbage at once.
        parse_at: usize,
    },
    /// So many bytes of the body are missing.
    Length(u64),
    /// The body is chunked.
    Chunked(Chunks),
    /// All further bytes are for a tunnel (CONNECT, RFC 9110 section 9.3.6), which is not opened.
    Tunnel,
    /// The body cannot be read to its end.
    Broken(BodyFault),
    /// The request is complete.
    Complete,
}

/// Why a body cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum BodyFault {
    /// The chunks are not as RFC 9112 section 7.1 has them.
    Malformed,
    /// The chunks hold far more framing than data.
    TooMuchFraming,
}

impl From<BodyFault> for Problem {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::Malformed => Self::InvalidRequest(InvalidRequest::Chunks),
            BodyFault::TooMuchFraming => Self::TooLarge,
        }
    }
}

impl RequestFraming {
    /// Before the first byte of a request.
    pub(super) const fn new() -> Self {
        Self {
            state: State::Head {
                searched: 0,
                parse_at: 1,
            },
            is_http_1_0: false,
        }
    }

    /// How many of these bytes belong to the current request and can be passed on: none while the
    /// head is not complete. The caller keeps the others, and begins with them the next time.
    ///
    /// An offered upgrade is blanked out (RFC 9110 section 7.8: a server may ignore it): actix-http
    /// would take the body for the other protocol's.
    ///
    /// # Errors
    ///
    /// How to refuse a head.
    pub(super) fn frame(&mut self, bytes: &mut [u8]) -> Result<usize, Problem> {
        let head = match &mut self.state {
            State::Head { searched, parse_at } => {
                // Parsed as a whole each time: so not with every byte that comes.
                let from = searched.saturating_sub(3);
                let unseen = bytes.get(from..).unwrap_or_default();
                if bytes.len() < *parse_at && !has_empty_line(unseen) {
                    *searched = bytes.len();
                    return too_long(bytes.len()).map(|()| 0);
                }
                (*searched, *parse_at) = (bytes.len(), bytes.len() * 2);
                let Some(head) = Head::parse(bytes)? else {
                    return too_long(bytes.len()).map(|()| 0);
                };
                too_long(head.length)?;
                for upgrade in head.upgrades {
                    bytes.get_mut(upgrade).unwrap_or_default().fill(b' ');
                }
                self.is_http_1_0 = head.is_http_1_0;
                self.state = head.body;
                head.length
            }
            _ => 0,
        };
        Ok(head + self.body(bytes.get(head..).unwrap_or_default()))
    }

    /// How many of these bytes belong to the body.
    fn body(&mut self, bytes: &[u8]) -> usize {
        let (framed, next) = match &mut self.state {
            State::Length(missing) => {
                let there = usize::try_from(*missing).map_or(bytes.len(), |n| n.min(bytes.len()));
                *missing -= there as u64;
                (there, (*missing == 0).then_some(State::Complete))
            }
            State::Chunked(chunks) => match chunks.advance(bytes) {
                Ok((framed, true)) => (framed, Some(State::Complete)),
                Ok((framed, false)) => (framed, None),
                Err(fault) => (0, Some(State::Broken(fault))),
            },
            State::Tunnel => (bytes.len(), None),
            State::Head { .. } | State::Broken(_) | State::Complete => (0, None),
        };
        if let Some(next) = next {
            self.state = next;
        }
        framed
    }

    /// Whether the head is complete.
    pub(super) const fn has_head(&self) -> bool {
        !matches!(self.state, State::Head { .. })
    }

    /// Whether the request is complete.
    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }

    /// Why the body cannot be read to its end, where it cannot.
    pub(super) const fn fault(&self) -> Option<BodyFault> {
        match self.state {
            State::Broken(fault) => Some(fault),
            _ => None,
        }
    }

    /// Whether this response to the request is the last one of the connection, by its headers
    /// (RFC 9112 section 9.3). `response` begins with the response, or with what is left of an
    /// interim one before it.
    pub(super) fn is_last_response(&self, response: &[u8]) -> bool {
        let mut lines = response.split(|byte| *byte == b'\n');
        if !response.starts_with(b"HTTP/") || response.starts_with(b"HTTP/1.1 100 ") {
            let _interim = lines.by_ref().find(|line| line.trim_ascii().is_empty());
        }
        let option = lines
            .map(<[u8]>::trim_ascii)
            .take_while(|line| !line.is_empty())
            .find_map(|line| {
                let (name, value) = line.split_at_checked(CONNECTION.len())?;
                name.eq_ignore_ascii_case(CONNECTION)
                    .then_some(value.trim_ascii())
            });
        match option {
            Some(option) => option.eq_ignore_ascii_case(b"close"),
            None => self.is_http_1_0,
        }
    }
}

const CONNECTION: &[u8] = b"connection:";

fn too_long(bytes: usize) -> Result<(), Problem> {
    if bytes > HEAD_BYTES_MAX {
        Err(Problem::HeadersTooLarge)
    } else {
        Ok(())
    }
}

/// Whether a head may end here. A bare LF ends a line as well (RFC 9112 section 2.2).
fn has_empty_line(bytes: &[u8]) -> bool {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').skip(1);
    lines.any(|line| matches!(line, b"\n" | b"\r\n"))
}

/// What a head says of its request's length.
struct Head {
    length: usize,
    is_http_1_0: bool,
    body: State,
    /// Where an upgrade is offered.
    upgrades: Vec<Range<usize>>,
}

impl Head {
    /// None where it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>, Problem> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let length = match request.parse_with_uninit_headers(bytes, &mut headers) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Problem::HeadersTooLarge),
            Err(_) => return Err(malformed()),
        };
        let method = request.method.unwrap_or_default();
        let target = request.path.unwrap_or_default();
        if Method::from_bytes(method.as_bytes()).is_err() || Uri::try_from(target).is_err() {
            return Err(malformed());
        }
        let is_http_1_0 = request.version != Some(1);
        let (mut hosts, mut content_length, mut chunked) = (0, None, false);
        let mut upgrades = Vec::new();
        for header in request.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("host") {
                hosts += 1;
            } else if is("content-length") {
                let said = number(header.value).ok_or_else(malformed)?;
                if content_length.replace(said).is_some() {
                    return Err(malformed());
                }
            } else if is("transfer-encoding") {
                let fit = header.value.trim_ascii().eq_ignore_ascii_case(b"chunked");
                if !fit || is_http_1_0 || std::mem::replace(&mut chunked, true) {
                    return Err(malformed());
                }
            } else if is("upgrade") {
                upgrades.push(range_within(bytes, header.value));
            } else if is("connection") {
                let options = header.value.split(|byte| *byte == b',');
                let offers = options
                    .map(<[u8]>::trim_ascii)
                    .filter(|option| option.eq_ignore_ascii_case(b"upgrade"));
                upgrades.extend(offers.map(|option| range_within(bytes, option)));
            }
        }
        let one_host = hosts == 1 || hosts == 0 && is_http_1_0;
        let unframed = is_http_1_0 && method == "POST" && content_length.is_none();
        if !one_host || unframed || chunked && content_length.is_some() {
            return Err(malformed());
        }
        let body = match content_length {
            _ if chunked => State::Chunked(Chunks::default()),
            Some(1..) => State::Length(content_length.unwrap_or_default()),
            _ if method == "CONNECT" => State::Tunnel,
            Some(0) | None => State::Complete,
        };
        Ok(Some(Self {
            length,
            is_http_1_0,
            body,
            upgrades,
        }))
    }
}

const fn malformed() -> Problem {
    Problem::InvalidRequest(InvalidRequest::NotHttp)
}

/// A whole number of decimal digits and nothing else (RFC 9110 section 8.6).
fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// Where a part stands in the whole.
fn range_within(whole: &[u8], part: &[u8]) -> Range<usize> {
    let begin = part.as_ptr().addr() - whole.as_ptr().addr();
    begin..begin + part.len()
}

/// A chunked body (RFC 9112 section 7.1).
#[derive(Debug, Default)]
struct Chunks {
    at: At,
    /// Bytes that are missing of the chunk's data.
    missing: u64,
    /// Bytes of data so far, and of all else.
    data: u64,
    framing: u64,
}

/// What comes next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum At {
    #[default]
    FirstDigit,
    Digit,
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// A line of the trailer, or the empty line at the end.
    Line,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

impl Chunks {
    /// How many of these bytes belong to the body, and whether that is all of it.
    fn advance(&mut self, bytes: &[u8]) -> Result<(usize, bool), BodyFault> {
        let mut rest = bytes;
        while let Some((byte, behind)) = rest.split_first() {
            if self.at == At::Data {
                let there = usize::try_from(self.missing).map_or(rest.len(), |n| n.min(rest.len()));
                self.missing -= there as u64;
                self.data += there as u64;
                rest = rest.get(there..).unwrap_or_default();
                if self.missing == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            rest = behind;
            self.framing += 1;
            if self.framing > CHUNK_FRAMING_BYTES + self.data / 2 {
                return Err(BodyFault::TooMuchFraming);
            }
            self.at = self.after(*byte).ok_or(BodyFault::Malformed)?;
            if self.at == At::End {
                return Ok((bytes.len() - rest.len(), true));
            }
        }
        Ok((bytes.len(), false))
    }

    /// What comes after this byte; none where it must not stand here.
    fn after(&mut self, byte: u8) -> Option<At> {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        Some(match (self.at, byte) {
            (At::FirstDigit, _) => {
                self.missing = digit?;
                At::Digit
            }
            (At::Digit, _) if digit.is_some() => {
                self.missing = self.missing.checked_mul(16)? + digit?;
                At::Digit
            }
            (At::Digit | At::Blank, b' ' | b'\t') => At::Blank,
            (At::Digit | At::Blank, b';') => At::Extension,
            (At::Digit | At::Blank | At::Extension, b'\r') => At::SizeLf,
            (At::Extension, byte) if byte == b'\t' || !byte.is_ascii_control() => At::Extension,
            (At::SizeLf, b'\n') if self.missing == 0 => At::Line,
            (At::SizeLf, b'\n') => At::Data,
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::FirstDigit,
            (At::Line, b'\r') => At::EndLf,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::Line | At::Trailer, byte) if byte != b'\n' => At::Trailer,
            (At::TrailerLf, b'\n') => At::Line,
            (At::EndLf, b'\n') => At::End,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
