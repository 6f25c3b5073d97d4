//! The responses of the scripted server.

use serde_json::Value;

/// How a response is sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Manner {
    Whole,
    /// So many bytes of the body, then the connection is closed.
    CutAfter(usize),
    /// The connection is reset without a response.
    Reset,
    /// No response; the connection stays open.
    Hanging,
    /// The body only, without HTTP.
    Bare,
    /// Complete, when it is released.
    Held,
    /// One space of the body every few milliseconds, without an end.
    Dripping,
}

/// One response.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    chunked: bool,
    pub(super) manner: Manner,
}

impl Answer {
    /// A JSON body.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "reads as `json!({…})` where it is used"
    )]
    pub fn json(status: u16, body: Value) -> Self {
        Self::text(status, "application/json", &body.to_string())
    }

    /// Any body.
    pub fn text(status: u16, content_type: &str, body: &str) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            body: body.as_bytes().to_vec(),
            chunked: false,
            manner: Manner::Whole,
        }
    }

    /// No body.
    pub fn empty(status: u16) -> Self {
        Self {
            headers: Vec::new(),
            ..Self::text(status, "", "")
        }
    }

    /// An HTML page.
    pub fn html(status: u16) -> Self {
        let page = "<!doctype html><title>Welcome</title>";
        Self::text(status, "text/html;charset=UTF-8", page)
    }

    /// A redirect.
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::empty(status).with("Location", to)
    }

    /// JSON whitespace of this length.
    pub fn padded(status: u16, length: usize) -> Self {
        Self::text(status, "application/json", &" ".repeat(length))
    }

    /// The connection is reset after the request.
    pub fn reset() -> Self {
        Self {
            manner: Manner::Reset,
            ..Self::empty(200)
        }
    }

    /// The greeting of an SSH server.
    pub fn not_http() -> Self {
        Self {
            manner: Manner::Bare,
            ..Self::text(200, "", "SSH-2.0-OpenSSH_10.0\r\n")
        }
    }

    /// No response on an open connection.
    pub fn hanging() -> Self {
        Self {
            manner: Manner::Hanging,
            ..Self::empty(200)
        }
    }

    /// A slow body without an end.
    pub fn dripping() -> Self {
        Self {
            manner: Manner::Dripping,
            ..Self::text(200, "application/json", "")
        }
    }

    /// Whether it is a JSON object with this status.
    #[must_use]
    pub fn is_json_object(&self, status: u16) -> bool {
        self.status == status && self.body.starts_with(b"{")
    }

    /// With another header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With chunked transfer encoding.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Without its last byte.
    #[must_use]
    pub fn cut_short(mut self) -> Self {
        self.manner = Manner::CutAfter(self.body.len() - 1);
        self
    }

    /// With half of its body, and the matching `Content-Length`.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        self.body.truncate(self.body.len() / 2);
        self
    }

    /// Sent after `ScriptedUpstream::release`.
    #[must_use]
    pub fn held(mut self) -> Self {
        self.manner = Manner::Held;
        self
    }

    pub(super) fn head(&self, length: usize) -> Vec<u8> {
        let headers: String = self
            .headers
            .iter()
            .map(|(name, value)| name.clone() + ": " + value + "\r\n")
            .collect();
        let framing = match (self.chunked, self.status) {
            (true, _) => "Transfer-Encoding: chunked\r\n".to_owned(),
            // RFC 9110 section 8.6: a 204 has no length.
            (false, 204) => String::new(),
            (false, _) => format!("Content-Length: {length}\r\n"),
        };
        let status = self.status;
        format!("HTTP/1.1 {status} Scripted\r\n{headers}{framing}\r\n").into_bytes()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head(self.body.len());
        if self.chunked {
            for chunk in self.body.chunks(16 * 1024) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
        } else {
            bytes.extend(&self.body);
        }
        bytes
    }
}
