//! Where each request of a connection begins and ends (RFC 9112 sections 2, 6 and 7).
//!
//! actix-http parses every request that it receives, even before the previous response. It responds to
//! malformed input without a hook for that response. So it gets one request at a time, and only after
//! this module has framed it. No response depends on what follows its request, and each request has
//! exactly one response. httparse parses one head; it does not decide which header fields frame the
//! body.
//!
//! A request that could be framed in two ways is refused here. Nothing is accepted that actix-http
//! would refuse or frame differently; a test compares the two.

use std::mem::MaybeUninit;
use std::ops::Range;

use actix_web::http::{Method, Uri};
use memchr::memchr_iter;

use super::{BodyError, ConnectionRefusal};

/// The longest head of a request: the request line and all header fields. Browsers and proxies stay
/// below, also with cookies: session tokens are in bodies.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The most header fields, as in actix-http.
const HEADERS_MAX: usize = 96;

/// The framing of a chunked body (sizes, extensions, line ends, trailers) may have this many bytes,
/// and half as many as the data: a chunk costs the same whether it holds 1 byte or 1 KiB. Chunks of
/// 14 bytes or more always fit, and a body of 900 bytes in chunks of 1 byte.
const CHUNK_FRAMING_BYTES: u64 = 4 * 1024;

/// Follows the bytes of a connection from request to request.
#[derive(Debug)]
pub(super) struct RequestFraming {
    state: FramingState,
    /// Whether the current request is of HTTP/1.0, where a connection ends with the response unless
    /// both sides agree to keep it.
    is_http_1_0: bool,
    /// Whether the client sends no request after the current one (`Connection: close`, RFC 9112 section 9.6).
    is_last: bool,
}

#[derive(Debug)]
enum FramingState {
    Head {
        /// How many bytes have been searched for its end.
        searched: usize,
        /// With how many bytes to parse it before its end, to refuse a malformed head early.
        parse_at: usize,
    },
    /// This many bytes of the body are missing.
    Length(u64),
    Chunked(Chunks),
    /// All further bytes are for a tunnel (CONNECT, RFC 9110 section 9.3.6), which is not opened.
    Tunnel,
    /// The body cannot be read to its end.
    Broken(BodyError),
    Complete,
}

impl RequestFraming {
    /// Before the first byte of a request.
    pub(super) const fn new() -> Self {
        Self {
            state: FramingState::Head {
                searched: 0,
                parse_at: 1,
            },
            is_http_1_0: false,
            is_last: false,
        }
    }

    /// How many of these bytes belong to the current request and can be passed on: none while the
    /// head is not complete. The caller keeps the others, and begins with them the next time.
    ///
    /// An offered upgrade is overwritten with spaces (RFC 9110 section 7.8: a server may ignore it):
    /// actix-http would treat the body as data of the other protocol.
    ///
    /// `on_whole` gets the head of a request that is here with all of its body.
    ///
    /// # Errors
    ///
    /// The head is malformed or too large.
    pub(super) fn frame(
        &mut self,
        bytes: &mut [u8],
        on_whole: impl FnOnce(RequestHead<'_>),
    ) -> Result<usize, ConnectionRefusal> {
        let head = match &mut self.state {
            FramingState::Head { searched, parse_at } => {
                // The parser starts at the first byte each time, so it does not run for every byte.
                let from = searched.saturating_sub(3);
                let unseen = bytes.get(from..).unwrap_or_default();
                if bytes.len() < *parse_at && !has_empty_line(unseen) {
                    *searched = bytes.len();
                    return too_long(bytes.len()).map(|()| 0);
                }
                (*searched, *parse_at) = (bytes.len(), bytes.len() * 2);
                let Some(head) = Head::parse(bytes, on_whole)? else {
                    return too_long(bytes.len()).map(|()| 0);
                };
                for upgrade in head.upgrades {
                    bytes.get_mut(upgrade).unwrap_or_default().fill(b' ');
                }
                self.is_http_1_0 = head.is_http_1_0;
                self.is_last = head.is_last;
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
            FramingState::Length(missing) => {
                let length = usize::try_from(*missing).map_or(bytes.len(), |n| n.min(bytes.len()));
                *missing -= length as u64;
                (length, (*missing == 0).then_some(FramingState::Complete))
            }
            FramingState::Chunked(chunks) => match chunks.advance(bytes) {
                Ok((framed, true)) => (framed, Some(FramingState::Complete)),
                Ok((framed, false)) => (framed, None),
                Err(fault) => (0, Some(FramingState::Broken(fault))),
            },
            FramingState::Tunnel => (bytes.len(), None),
            FramingState::Head { .. } | FramingState::Broken(_) | FramingState::Complete => {
                (0, None)
            }
        };
        if let Some(next) = next {
            self.state = next;
        }
        framed
    }

    pub(super) const fn has_head(&self) -> bool {
        !matches!(self.state, FramingState::Head { .. })
    }

    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.state, FramingState::Complete)
    }

    /// Whether the client wants the connection to end with the response to this request.
    pub(super) const fn is_last(&self) -> bool {
        self.is_last
    }

    /// Why the body cannot be read to its end, where it cannot.
    pub(super) const fn fault(&self) -> Option<BodyError> {
        match self.state {
            FramingState::Broken(fault) => Some(fault),
            _ => None,
        }
    }

    /// Whether this response to the request is the last one of the connection, by its headers
    /// (RFC 9112 section 9.3). `response` begins with the response, or with what is left of an
    /// interim one before it.
    pub(super) fn is_last_response(&self, response: &[u8]) -> bool {
        // Many times faster than `split`, which compares byte by byte.
        let mut begin = 0;
        let mut lines = memchr_iter(b'\n', response).filter_map(|end| {
            let line = response.get(begin..end);
            begin = end + 1;
            line
        });
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

fn too_long(bytes: usize) -> Result<(), ConnectionRefusal> {
    if bytes > HEAD_BYTES_MAX {
        Err(ConnectionRefusal::HeadTooLarge)
    } else {
        Ok(())
    }
}

/// Whether a head may end here. A bare LF ends a line as well (RFC 9112 section 2.2).
fn has_empty_line(bytes: &[u8]) -> bool {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').skip(1);
    lines.any(|line| matches!(line, b"\n" | b"\r\n"))
}

/// The head of a request, for [`ConnectionEvents::refusal_of_request`](super::ConnectionEvents::refusal_of_request).
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// `POST`, for example.
    pub method: &'a str,
    /// What the request line has (RFC 9112 section 3.2), mostly a path.
    pub target: &'a str,
    headers: &'a [httparse::Header<'a>],
}

impl<'a> RequestHead<'a> {
    /// The values of the header fields with this name, in their order.
    #[must_use]
    pub fn values(&self, name: &str) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let fields = self.headers.iter();
        let fields = fields.filter(move |field| field.name.eq_ignore_ascii_case(name));
        fields.map(|field| field.value)
    }
}

/// The framing of a request, from its head.
struct Head {
    length: usize,
    is_http_1_0: bool,
    is_last: bool,
    body: FramingState,
    /// Where it offers an upgrade.
    upgrades: Vec<Range<usize>>,
}

impl Head {
    /// `None` while it is not complete.
    fn parse(
        bytes: &[u8],
        on_whole: impl FnOnce(RequestHead<'_>),
    ) -> Result<Option<Self>, ConnectionRefusal> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let length = match request.parse_with_uninit_headers(bytes, &mut headers) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(ConnectionRefusal::HeadTooLarge),
            Err(_) => return Err(ConnectionRefusal::MalformedHead),
        };
        let method = request.method.unwrap_or_default();
        let target = request.path.unwrap_or_default();
        // The other parser of a target takes a copy of it, and nearly every target is as simple as this.
        let is_path = target.starts_with('/')
            && target.bytes().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.' | b'_')
            });
        // It would ignore what follows `#`, and a request line has none (RFC 9112 section 3.2): a proxy before the gateway may have
        // compared the whole target with its rules.
        let is_target = is_path || !target.contains('#') && Uri::try_from(target).is_ok();
        if Method::from_bytes(method.as_bytes()).is_err() || !is_target {
            return Err(ConnectionRefusal::MalformedHead);
        }
        let is_http_1_0 = request.version != Some(1);
        let (mut hosts, mut content_length, mut chunked) = (0, None, false);
        let (mut upgrades, mut is_last) = (Vec::new(), false);
        for header in request.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("host") {
                hosts += 1;
            } else if is("content-length") {
                let length = number(header.value).ok_or(ConnectionRefusal::MalformedHead)?;
                if content_length.replace(length).is_some() {
                    return Err(ConnectionRefusal::MalformedHead);
                }
            } else if is("transfer-encoding") {
                let is_chunked = header.value.trim_ascii().eq_ignore_ascii_case(b"chunked");
                if !is_chunked || is_http_1_0 || std::mem::replace(&mut chunked, true) {
                    return Err(ConnectionRefusal::MalformedHead);
                }
            } else if is("upgrade") {
                upgrades.push(range_within(bytes, header.value));
            } else if is("connection") {
                let options = header.value.split(|byte| *byte == b',');
                for option in options.map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"upgrade") {
                        upgrades.push(range_within(bytes, option));
                    }
                    is_last |= option.eq_ignore_ascii_case(b"close");
                }
            }
        }
        let one_host = hosts == 1 || hosts == 0 && is_http_1_0;
        let unframed = is_http_1_0 && method == "POST" && content_length.is_none();
        if !one_host || unframed || chunked && content_length.is_some() {
            return Err(ConnectionRefusal::MalformedHead);
        }
        let body = match content_length {
            _ if chunked => FramingState::Chunked(Chunks::default()),
            Some(1..) => FramingState::Length(content_length.unwrap_or_default()),
            _ if method == "CONNECT" => FramingState::Tunnel,
            Some(0) | None => FramingState::Complete,
        };
        too_long(length)?;
        if content_length.is_some_and(|body| body <= (bytes.len() - length) as u64) {
            on_whole(RequestHead {
                method,
                target,
                headers: request.headers,
            });
        }
        Ok(Some(Self {
            length,
            is_http_1_0,
            is_last,
            body,
            upgrades,
        }))
    }
}

/// A whole number of decimal digits and nothing else (RFC 9110 section 8.6).
fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// The range of a part within the whole.
fn range_within(whole: &[u8], part: &[u8]) -> Range<usize> {
    let begin = part.as_ptr().addr() - whole.as_ptr().addr();
    begin..begin + part.len()
}

/// A chunked body (RFC 9112 section 7.1).
#[derive(Debug, Default)]
struct Chunks {
    state: ChunkState,
    /// Missing bytes of the chunk's data.
    missing: u64,
    /// Bytes of data so far, and of framing.
    data: u64,
    framing: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
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
    fn advance(&mut self, bytes: &[u8]) -> Result<(usize, bool), BodyError> {
        let mut rest = bytes;
        while let Some((byte, behind)) = rest.split_first() {
            if self.state == ChunkState::Data {
                let length =
                    usize::try_from(self.missing).map_or(rest.len(), |n| n.min(rest.len()));
                self.missing -= length as u64;
                self.data += length as u64;
                rest = rest.get(length..).unwrap_or_default();
                if self.missing == 0 {
                    self.state = ChunkState::DataCr;
                }
                continue;
            }
            rest = behind;
            self.framing += 1;
            if self.framing > CHUNK_FRAMING_BYTES + self.data / 2 {
                return Err(BodyError::TooLarge);
            }
            self.state = self.after(*byte).ok_or(BodyError::MalformedChunks)?;
            if self.state == ChunkState::End {
                return Ok((bytes.len() - rest.len(), true));
            }
        }
        Ok((bytes.len(), false))
    }

    /// The state after this byte; `None` where the byte is not allowed.
    fn after(&mut self, byte: u8) -> Option<ChunkState> {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        Some(match (self.state, byte) {
            (ChunkState::FirstDigit, _) => {
                self.missing = digit?;
                ChunkState::Digit
            }
            (ChunkState::Digit, _) if digit.is_some() => {
                self.missing = self.missing.checked_mul(16)? + digit?;
                ChunkState::Digit
            }
            (ChunkState::Digit | ChunkState::Blank, b' ' | b'\t') => ChunkState::Blank,
            (ChunkState::Digit | ChunkState::Blank, b';') => ChunkState::Extension,
            (ChunkState::Digit | ChunkState::Blank | ChunkState::Extension, b'\r') => {
                ChunkState::SizeLf
            }
            (ChunkState::Extension, byte) if byte == b'\t' || !byte.is_ascii_control() => {
                ChunkState::Extension
            }
            (ChunkState::SizeLf, b'\n') if self.missing == 0 => ChunkState::Line,
            (ChunkState::SizeLf, b'\n') => ChunkState::Data,
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::FirstDigit,
            (ChunkState::Line, b'\r') => ChunkState::EndLf,
            (ChunkState::Trailer, b'\r') => ChunkState::TrailerLf,
            (ChunkState::Line | ChunkState::Trailer, byte) if byte != b'\n' => ChunkState::Trailer,
            (ChunkState::TrailerLf, b'\n') => ChunkState::Line,
            (ChunkState::EndLf, b'\n') => ChunkState::End,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
