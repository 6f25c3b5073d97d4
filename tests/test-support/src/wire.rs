//! HTTP/1.1 byte by byte, for requests that a client library cannot send.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::endpoints::{LOGOUT, TOKEN};
use crate::wait::DEADLINE;

/// One response.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Names in lower case, in the order sent.
    pub headers: Vec<(String, String)>,
    /// The body, as long as `Content-Length` announces.
    pub body: String,
}

impl Answer {
    /// The value of a header that occurs once at most.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(sent, _)| sent == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} more than once: {self:?}");
        value
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

/// A connection over any stream.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    read: Vec<u8>,
}

impl Connection<TcpStream> {
    /// Connects to this address.
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self::over(stream)
    }

    /// Closes the sending direction.
    pub fn finish(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}

impl<S: Read + Write> Connection<S> {
    /// Uses an open stream.
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            read: Vec::new(),
        }
    }

    /// Sends bytes; a closed connection is no error here.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // The peer may close the connection before it has read everything.
        let _ = self.stream.write_all(bytes.as_ref());
        let _ = self.stream.flush();
        self
    }

    /// Reads the response to a request that is no HEAD.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.receive(false)
    }

    /// The same; `None`: the peer closes the connection without a byte.
    #[track_caller]
    pub fn answer_unless_closed(&mut self) -> Option<Answer> {
        (!self.read.is_empty() || self.more()).then(|| self.answer())
    }

    /// Reads the response to a HEAD, which has a length and no body.
    #[track_caller]
    pub fn answer_to_head(&mut self) -> Answer {
        self.receive(true)
    }

    #[track_caller]
    fn receive(&mut self, bodiless: bool) -> Answer {
        let end = loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            let open = self.more();
            assert!(open, "no answer, but {:?}", self.text());
        };
        let head = String::from_utf8(self.read[..end].to_vec()).expect("text");
        let mut lines = head.split("\r\n");
        let status = lines.next().expect("a status line");
        let status = status.strip_prefix("HTTP/1.1 ").expect("HTTP/1.1");
        let headers: Vec<_> = lines
            .map(|line| line.split_once(": ").expect("a header"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Answer {
            status: status[..3].parse().expect("a status"),
            headers,
            body: String::new(),
        };
        let length = answer
            .header("content-length")
            .map(|text| text.parse().expect("a length"));
        let none = bodiless || answer.status == 100 || answer.status == 304;
        let length: usize = if none { 0 } else { length.unwrap_or_default() };
        while self.read.len() < end + 4 + length {
            assert!(self.more(), "the body broke off: {:?}", self.text());
        }
        answer.body =
            String::from_utf8(self.read[end + 4..end + 4 + length].to_vec()).expect("text");
        self.read.drain(..end + 4 + length);
        answer
    }

    /// Panics unless the peer closes the connection without another byte.
    #[track_caller]
    pub fn closed(&mut self) {
        let rest = self.rest();
        assert_eq!(String::from_utf8_lossy(&rest), "", "left over");
    }

    /// All bytes until the peer closes the connection.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.read)
    }

    /// The underlying stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Reads more bytes; returns whether there were any.
    #[track_caller]
    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(length) => {
                    self.read.extend(&buffer[..length]);
                    return true;
                }
                // A signal, such as the timer of a fuzzer.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
                Err(error) => panic!("{error}, after {:?}", self.text()),
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }
}

/// The response to one request on a new connection.
#[track_caller]
pub fn fetch(address: SocketAddr, request: impl AsRef<[u8]>) -> Answer {
    Connection::to(address).send(request).answer()
}

/// A request with a JSON body.
pub fn post(path: &str, body: &str) -> String {
    with_body("POST", path, "application/json", body)
}

/// A request with a form as its body.
pub fn form(path: &str, body: &str) -> String {
    with_body("POST", path, "application/x-www-form-urlencoded", body)
}

/// A request with a body of any type.
pub fn with_body(method: &str, path: &str, media_type: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A request with a JSON body in chunks of this size.
pub fn in_chunks(path: &str, body: &str, size: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{}",
        chunked(body, size)
    )
}

/// A request with another header line, or several.
pub fn with_header(line: &str, request: &str) -> String {
    request.replacen("\r\n", &format!("\r\n{line}\r\n"), 1)
}

/// The id and token in a response to a login, as members of a request.
pub fn pair(session: &Value) -> Value {
    json!({ "session_id": session["session_id"], "session_token": session["session_token"] })
}

/// A request for a token with the session in a response to a login.
pub fn exchange(session: &Value) -> String {
    let mut body = pair(session);
    body["grant_type"] = json!("session");
    post(TOKEN, &body.to_string())
}

/// A request that logs out the session in a response to a login.
pub fn logout(session: &Value) -> String {
    post(LOGOUT, &pair(session).to_string())
}

/// A request without a body.
pub fn get(path: &str) -> String {
    bare("GET", path)
}

/// A request without a body, with any method.
pub fn bare(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// A body in chunks of this size (RFC 9112 section 7.1).
pub fn chunked(body: &str, size: usize) -> String {
    let chunks = body.as_bytes().chunks(size);
    let chunks = chunks.map(|chunk| {
        let text = std::str::from_utf8(chunk).expect("whole characters");
        format!("{:x}\r\n{text}\r\n", chunk.len())
    });
    let text = chunks.collect::<Vec<_>>().concat();
    text + "0\r\n\r\n"
}

/// Credentials of the demo user.
pub const ALICE: &str = r#"{"email":"alice@example.test","password":"alice-pass"}"#;
