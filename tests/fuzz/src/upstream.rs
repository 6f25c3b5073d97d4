//! An HTTP server that responds to every request with configured bytes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A status and a body.
pub type Answer = (u16, Vec<u8>);

/// The server. It ends with the process.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Upstream {
    /// Starts it.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let answers = Arc::<Mutex<Vec<_>>>::default();
        let script = Arc::clone(&answers);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let script = Arc::clone(&script);
                thread::spawn(move || serve(connection, &script));
            }
        });
        Self { address, answers }
    }

    /// `http://127.0.0.1:{port}`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the responses; the last one is repeated.
    pub fn answer(&self, mut answers: Vec<Answer>) {
        answers.reverse();
        *self.answers.lock().expect("no other panic") = answers;
    }
}

fn serve(connection: TcpStream, script: &Mutex<Vec<Answer>>) -> Option<()> {
    connection.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut connection = connection;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some(("content-length", value)) = line.split_once(": ") {
                length = value.parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (status, body) = {
            let mut script = script.lock().ok()?;
            match script.len() {
                0 | 1 => script.first().cloned()?,
                _ => script.pop()?,
            }
        };
        let mut answer = format!(
            "HTTP/1.1 {status} Reason\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        answer.extend_from_slice(&body);
        connection.write_all(&answer).ok()?;
    }
}
