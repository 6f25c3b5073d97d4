//! An HTTP/1.1 server on a free loopback port with scripted responses, well-formed or not. It
//! records its requests and stops when it is dropped.
//!
//! `wiremock` (0.6.5) was tried for the tests with plain responses and is not used. It needs `h2`, which `.deny.toml`
//! forbids. The first mock of a path wins, so to replace a response takes a guard, and each ported test became longer. It
//! can delay or fail a response, but not hold one until the test releases it, cut it, or send bytes that are not HTTP. So
//! this server and its script of a Keycloak would stay, and the script would exist twice.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

mod answer;
pub mod keycloak;
pub mod kratos;
pub mod oauth2;
mod protocol;

pub use answer::Answer;
use answer::Manner;
pub use protocol::WireProtocol;

/// Every kind of IAM.
pub const PROTOCOLS: [WireProtocol; 4] = [
    keycloak::KEYCLOAK,
    oauth2::GLEWLWYD,
    oauth2::DJANGO_OAUTH_TOOLKIT,
    kratos::KRATOS,
];

/// One request as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target, query included.
    pub path: String,
    /// Names in lower case, in the order sent.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The values of a header, joined by `|` if it occurs more than once.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<_> = self
            .headers
            .iter()
            .filter(|(sent, _)| sent == name)
            .map(|(_, value)| value.as_str())
            .collect();
        (!values.is_empty()).then(|| values.join("|"))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a body of text")
    }
}

#[derive(Debug, Default)]
struct Script {
    once: HashMap<String, VecDeque<Answer>>,
    always: HashMap<String, Answer>,
    /// By the path and the name of a header.
    with_header: HashMap<(String, String), Answer>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    requests: watch::Sender<Vec<Request>>,
    disconnected: watch::Sender<usize>,
    released: Semaphore,
}

/// The server.
#[derive(Debug)]
pub struct ScriptedUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Dropping it closes every connection.
    _server: JoinSet<()>,
}

impl ScriptedUpstream {
    /// Starts without a script: every path responds with 500.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        Self::at(listener.expect("a free port"))
    }

    /// Starts on a port that refused connections so far.
    pub fn in_place_of(port: RefusingPort) -> Self {
        Self::at(port.0.listen(1024).expect("the port"))
    }

    fn at(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            script: Mutex::default(),
            requests: watch::Sender::default(),
            disconnected: watch::Sender::default(),
            released: Semaphore::new(0),
        });
        let mut server = JoinSet::new();
        server.spawn(serve(listener, Arc::clone(&shared)));
        Self {
            address,
            shared,
            _server: server,
        }
    }

    /// `http://127.0.0.1:{port}`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on this path has this response.
    pub fn on(&self, path: &str, answer: Answer) -> &Self {
        let mut script = self.shared.script.lock().expect("the script");
        script.always.insert(path.to_owned(), answer);
        drop(script);
        self
    }

    /// From now on, requests of this path with this header have this response. The name is in lower case.
    pub fn on_header(&self, path: &str, name: &str, answer: Answer) -> &Self {
        let mut script = self.shared.script.lock().expect("the script");
        let key = (path.to_owned(), name.to_owned());
        script.with_header.insert(key, answer);
        drop(script);
        self
    }

    /// The next request of this path has this response, after those already queued.
    pub fn once(&self, path: &str, answer: Answer) -> &Self {
        let mut script = self.shared.script.lock().expect("the script");
        let line = script.once.entry(path.to_owned()).or_default();
        line.push_back(answer);
        drop(script);
        self
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.borrow().clone()
    }

    /// The number of requests so far.
    pub fn request_count(&self) -> usize {
        self.shared.requests.borrow().len()
    }

    /// The requests after the first `count`, in order.
    pub fn requests_since(&self, count: usize) -> Vec<Request> {
        let requests = self.shared.requests.borrow();
        requests
            .get(count..)
            .map(<[Request]>::to_vec)
            .unwrap_or_default()
    }

    /// The requests of one path.
    pub fn requests_to(&self, path: &str) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.path == path);
        requests
    }

    /// Waits until this path has received this number of requests since the start.
    pub async fn received(&self, path: &str, count: usize) {
        let mut requests = self.shared.requests.subscribe();
        let of_path = |all: &Vec<Request>| all.iter().filter(|one| one.path == path).count();
        let seen = requests.wait_for(|all| of_path(all) >= count).await;
        seen.expect("the server runs");
    }

    /// Waits until this number of clients have closed their connection without a response since the start.
    pub async fn disconnected(&self, count: usize) {
        let mut disconnected = self.shared.disconnected.subscribe();
        let seen = disconnected.wait_for(|seen| *seen >= count).await;
        seen.expect("the server runs");
    }

    /// Releases one held response, the current or the next one.
    pub fn release(&self) {
        self.shared.released.add_permits(1);
    }
}

/// An address that refuses connections until this is dropped.
#[derive(Debug)]
pub struct RefusingPort(TcpSocket);

impl RefusingPort {
    /// Binds a port without listening on it.
    pub fn start() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = "127.0.0.1:0".parse().expect("an address");
        socket.bind(any).expect("a free port");
        Self(socket)
    }

    /// `http://127.0.0.1:{port}`.
    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().expect("an address"))
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // A client may close its connection at any time.
        connections.spawn(serve_connection(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(mut stream: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await? {
        let answer = shared.next(&request);
        shared.requests.send_modify(|all| all.push(request));
        if !perform(&answer, &mut stream, &shared).await? {
            break;
        }
    }
    Ok(())
}

impl Shared {
    fn next(&self, request: &Request) -> Answer {
        let mut script = self.script.lock().expect("the script");
        let path = &request.path;
        let once = script.once.get_mut(path).and_then(VecDeque::pop_front);
        let with_header = || {
            let names = request.headers.iter().map(|(name, _)| name);
            let mut keys = names.map(|name| (path.clone(), name.clone()));
            keys.find_map(|key| script.with_header.get(&key).cloned())
        };
        once.or_else(with_header)
            .or_else(|| script.always.get(path).cloned())
            .unwrap_or_else(|| Answer::text(500, "text/plain", "nothing in the script"))
    }
}

/// Sends one response; returns whether the connection can serve another request.
async fn perform(answer: &Answer, stream: &mut TcpStream, shared: &Shared) -> io::Result<bool> {
    match answer.manner {
        Manner::Whole => {
            stream.write_all(&answer.bytes()).await?;
            return Ok(true);
        }
        Manner::CutAfter(sent) => {
            let bytes = answer.bytes();
            let sent = bytes.len() - answer.body.len() + sent;
            stream.write_all(&bytes[..sent]).await?;
            stream.shutdown().await?;
        }
        Manner::Bare => stream.write_all(&answer.body).await?,
        Manner::Reset => stream.set_zero_linger()?,
        Manner::Hanging => closed_by_client(stream, shared).await,
        Manner::Held => {
            tokio::select! {
                permit = shared.released.acquire() => permit.expect("open").forget(),
                () = closed_by_client(stream, shared) => return Ok(false),
            }
            stream.write_all(&answer.bytes()).await?;
            return Ok(true);
        }
        Manner::Dripping => {
            stream.write_all(&answer.head(100_000)).await?;
            let mut drip = tokio::time::interval(Duration::from_millis(5));
            let mut one = [0];
            loop {
                tokio::select! {
                    _ = drip.tick() => if stream.write_all(b" ").await.is_err() { break },
                    _ = stream.read(&mut one) => break,
                }
            }
            shared.disconnected.send_modify(|count| *count += 1);
        }
    }
    Ok(false)
}

async fn closed_by_client(stream: &mut TcpStream, shared: &Shared) {
    // The client has sent its request, so reading returns when it closes the connection.
    let mut one = [0];
    let _ = stream.read(&mut one).await;
    shared.disconnected.send_modify(|count| *count += 1);
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        if let Some((request, length)) = parse(buffer) {
            buffer.drain(..length);
            return Ok(Some(request));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// The first request in the buffer and its length, if it is complete.
fn parse(buffer: &[u8]) -> Option<(Request, usize)> {
    let end = buffer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&buffer[..end]).expect("a head of text");
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().expect("a length"));
    let body = buffer.get(end + 4..end + 4 + length)?.to_vec();
    let request = Request {
        method,
        path,
        headers,
        body,
    };
    Some((request, end + 4 + length))
}
