use actix_http::ServiceConfig;
use actix_http::h1::{Codec, Message};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tokio_util::codec::Decoder as _;

use super::*;

/// The framed bytes and the state after them, if this many are received at a time.
fn framed(bytes: &[u8], at_once: usize) -> Result<(Vec<u8>, RequestFraming), ConnectionRefusal> {
    let mut framing = RequestFraming::new();
    let (mut received, mut passed_on) = (Vec::new(), Vec::new());
    for part in bytes.chunks(at_once) {
        received.extend_from_slice(part);
        let framed = framing.frame(&mut received, |_| ())?;
        passed_on.extend(received.drain(..framed));
    }
    Ok((passed_on, framing))
}

fn post(headers: &str, body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n{body}").into_bytes()
}

#[test]
fn end_of_a_request_does_not_depend_on_how_it_is_received() {
    let next = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for request in [
        next.as_bytes().to_vec(),
        b"\r\nGET / HTTP/1.1\nHost: a\n\n".to_vec(),
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        post("Content-Length: 0\r\n", ""),
        post("Content-Length: 5\r\n", "12345"),
        post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        post(
            "Transfer-Encoding: Chunked\r\n",
            "5 ;a=\"b\"\r\n12345\r\n00a\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
        ),
    ] {
        let row = [request.as_slice(), next.as_bytes()].concat();
        for at_once in 1..=row.len() {
            let (passed_on, framing) = framed(&row, at_once).expect("a request");
            assert!(framing.is_complete(), "{at_once}");
            assert_eq!(passed_on, request, "{at_once}");
        }
    }
}

#[test]
fn only_an_offered_upgrade_is_overwritten() {
    let head = "GET / HTTP/1.1\r\nHost: upgrade\r\nUPGRADE: websocket\r\nX: Upgrade\r\n\
                Connection: keep-alive,Upgrade , upgrades\r\nconnection: upgrade\r\n\r\n";
    let (passed_on, _) = framed(head.as_bytes(), head.len()).expect("a request");
    let expected = head
        .replace("websocket", "         ")
        .replace(",Upgrade ,", ",        ,")
        .replace("connection: upgrade", "connection:        ");
    assert_eq!(String::from_utf8(passed_on).expect("text"), expected);
}

/// The limit is on framing bytes: each chunk has at least five.
#[test]
fn framing_of_a_chunked_body_is_bounded_by_its_data() {
    let chunks = |size: usize, count: usize| {
        let data = "d".repeat(size);
        let chunks = format!("{size:x}\r\n{data}\r\n").repeat(count);
        let request = post("Transfer-Encoding: chunked\r\n", &(chunks + "0\r\n\r\n"));
        let (_, framing) = framed(&request, 4096).expect("a request");
        (framing.is_complete(), framing.fault())
    };
    let (fits, exceeds) = ((true, None), (false, Some(BodyError::TooLarge)));
    assert_eq!(chunks(1, 900), fits);
    assert_eq!(chunks(1, 920), exceeds);
    assert_eq!(chunks(1, 16 * 1024), exceeds);
    assert_eq!(chunks(4, 4 * 1024), exceeds);
    for size in [14, 16, 100, 1024, 16 * 1024] {
        assert_eq!(chunks(size, 1024 * 1024 / size), fits, "{size}");
    }
}

#[test]
fn head_is_not_parsed_again_for_every_byte() {
    let mut framing = RequestFraming::new();
    let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
    bytes.resize(HEAD_BYTES_MAX, b'x');
    let mut parsed = 0;
    for length in 1..=bytes.len() {
        let mut received = bytes[..length].to_vec();
        assert_eq!(
            framing.frame(&mut received, |_| ()).expect("no fault yet"),
            0
        );
        if let FramingState::Head { parse_at, .. } = framing.state {
            parsed += usize::from(parse_at == 2 * length);
        }
    }
    assert_eq!(parsed, 14, "with 1, 2, 4 … 8 KiB");
    bytes.push(b'x');
    let refused = framing.frame(&mut bytes, |_| ());
    assert!(matches!(refused, Err(ConnectionRefusal::HeadTooLarge)));
}

#[test]
fn connection_header_of_a_response_decides_whether_it_is_the_last_one() {
    let close = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close\r\n\r\n{}";
    let open = "HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\nconnection: close\r\n";
    let (newer, older) = (
        RequestFraming::new(),
        RequestFraming {
            is_http_1_0: true,
            ..RequestFraming::new()
        },
    );
    for (response, last) in [(close, true), (open, false)] {
        for interim in ["", "HTTP/1.1 100 Continue\r\n\r\n", "tinue\r\n\r\n"] {
            let response = format!("{interim}{response}");
            assert_eq!(
                newer.is_last_response(response.as_bytes()),
                last,
                "{response}"
            );
        }
    }
    let kept = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\n";
    assert!(!older.is_last_response(kept.as_bytes()));
    assert!(older.is_last_response(b"HTTP/1.0 200 OK\r\n\r\n"));
}

/// How many bytes of a request actix-http leaves unread, and whether the request is complete.
fn parsed_by_actix(config: &ServiceConfig, request: &[u8]) -> Result<(usize, bool), String> {
    let mut codec = Codec::new(config.clone());
    let mut bytes = request.into();
    let mut complete = false;
    for first in std::iter::once(true).chain(std::iter::repeat(false)) {
        if complete {
            break;
        }
        match codec
            .decode(&mut bytes)
            .map_err(|error| error.to_string())?
        {
            None => break,
            Some(Message::Item(_)) if first => {
                complete = matches!(codec.message_type(), actix_http::h1::MessageType::None);
            }
            Some(Message::Item(_)) => return Err("a second request".to_owned()),
            Some(Message::Chunk(chunk)) => complete = chunk.is_none(),
        }
    }
    Ok((bytes.len(), complete))
}

/// Header lines that affect the framing, and similar ones.
fn line() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "Content-Length",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "Upgrade",
        "Host",
        "Expect",
        "X",
        "Content-Length ",
        "Transfer_Encoding",
    ]);
    let value = prop::sample::select(vec![
        "0",
        "5",
        "05",
        "+5",
        "-5",
        "5,5",
        "5 5",
        "0x5",
        "",
        " 5",
        "5\t",
        "99999999999999999999",
        "chunked",
        "CHUNKED",
        "chunked ",
        "identity",
        "gzip, chunked",
        "chunked, chunked",
        "xchunked",
        "upgrade",
        "Upgrade, close",
        "keep-alive",
        "close",
        "websocket",
        "h2c",
        "a",
        "100-continue",
        "5\0",
        "5\r",
        "\u{b}chunked",
        "chunked\u{85}",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n", "\r\n "]);
    (name, value, end).prop_map(|(name, value, end)| format!("{name}: {value}{end}"))
}

fn start() -> impl Strategy<Value = String> {
    let method = prop::sample::select(vec!["POST", "GET", "CONNECT", "PUT", "post", "G\0"]);
    let target = prop::sample::select(vec![
        "/",
        "/a?b",
        "/a#b",
        "/a?b#c",
        "*",
        "a:1",
        "http://a/",
        "//",
        "/\u{e9}",
        "/%",
        "/ ",
        "/|",
        "/\"",
        "",
    ]);
    let version = prop::sample::select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", ""]);
    (method, target, version)
        .prop_map(|(method, target, version)| format!("{method} {target} {version}\r\n"))
}

fn body() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "5\r\n12345\r\n",
        "1\r\n1\r\n",
        "0\r\n",
        "\r\n",
        "12345",
        "5;a=b\r\n12345\r\n",
        "A",
        "a\r\n",
        "5 \r\n",
        "5\n",
        "X: y\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "ffffffffffffffffff\r\n",
        "-1\r\n",
        "\n",
        "\r",
        ";",
        "5\t;\"\r\n",
    ]);
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

/// actix-http parses the forwarded bytes as one request, with the same end.
#[actix_web::test]
async fn forwarded_bytes_are_one_request_for_actix() {
    let config = ServiceConfig::default();
    let lines = prop::collection::vec(line(), 0..4);
    let requests = (
        start(),
        prop::bool::weighted(0.9),
        lines,
        body(),
        1_usize..200,
    );
    let mut complete = 0;
    let mut runner = TestRunner::deterministic();
    for _ in 0..20_000 {
        let request = requests.new_tree(&mut runner).expect("a request").current();
        let (start, host, lines, body, at_once) = request;
        let host = if host { "Host: a\r\n" } else { "" };
        let bytes = format!("{start}{host}{}\r\n{body}", lines.concat()).into_bytes();
        let Ok((passed_on, framing)) = framed(&bytes, at_once) else {
            continue;
        };
        if framing.fault().is_none() && framing.has_head() {
            let parsed = parsed_by_actix(&config, &passed_on);
            let shown = String::from_utf8_lossy(&passed_on);
            assert_eq!(parsed, Ok((0, framing.is_complete())), "{shown:?}");
            complete += usize::from(framing.is_complete());
        }
    }
    assert!(complete > 1_000, "{complete}");
}
