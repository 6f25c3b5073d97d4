//! A Redis of one test, on a free port, which stops with the test.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::machine::not_run;

/// A Redis, which is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    port: u16,
    options: Vec<String>,
    folder: TempDir,
    password: Option<&'static str>,
}

impl Server {
    /// A Redis without persistence on the loopback address. `None`, with a message, if this machine
    /// has no Redis; a failure if CI=true.
    pub fn start() -> Option<Self> {
        Self::start_with(None, &["--port", "{port}"])
    }

    /// With these options, in which `{port}` and `{folder}` are replaced.
    pub fn start_with(password: Option<&'static str>, options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        Self::start_in(folder, password, options)
    }

    /// The same, with a folder for its files.
    pub fn start_in(
        folder: TempDir,
        password: Option<&'static str>,
        options: &[&str],
    ) -> Option<Self> {
        let there = Command::new("redis-server").arg("--version").output();
        if there.is_err() {
            not_run("redis-server is not installed (Debian: redis-server)");
            return None;
        }
        let mut server = Self {
            child: None,
            port: 0,
            options: options.iter().map(|&option| option.to_owned()).collect(),
            folder,
            password,
        };
        // Another process may take the port in the meantime.
        while server.child.is_none() {
            server.port = free_port();
            server.launch();
        }
        Some(server)
    }

    fn launch(&mut self) {
        let (port, folder) = (self.port.to_string(), self.folder.path().to_str());
        let folder = folder.expect("a path of text");
        let fill = |option: &String| option.replace("{port}", &port).replace("{folder}", folder);
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--dir", folder, "--enable-debug-command", "local"])
            .args(self.options.iter().map(fill));
        if let Some(password) = self.password {
            command.args(["--requirepass", password]);
        }
        self.child = listening(&mut command, "Ready to accept connections");
    }

    /// Kills it; its data is lost.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child");
            child.wait().expect("a child");
        }
    }

    /// Starts it again on the same port after it was killed.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "killed before");
        self.launch();
        assert!(self.child.is_some(), "redis-server starts again");
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("runs").id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(sent.expect("kill").success());
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The folder for its files.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// `redis.url` of the gateways.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// An administrator's connection, without TLS.
    pub fn admin(&self) -> Admin {
        let password = self.password.map(|password| format!(":{password}@"));
        let password = password.unwrap_or_default();
        let client = redis::Client::open(format!("redis://{password}127.0.0.1:{}", self.port));
        let connection = client.expect("an address").get_connection();
        Admin(connection.expect("a connection"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a `redis-server`, and waits for the text that it writes once it listens; `None`: it has exited, because
/// another process has its port. A connection would prove nothing: it may be one to that process.
pub fn listening(command: &mut Command, text: &str) -> Option<Child> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-server starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    if !lines.any(|line| line.expect("text").contains(text)) {
        child.wait().expect("a child");
        return None;
    }
    std::thread::spawn(move || lines.for_each(drop));
    Some(child)
}

/// Below the range of ports that the system uses for outgoing connections.
pub fn free_port() -> u16 {
    loop {
        let mut bits = [0; 2];
        aws_lc_rs::rand::fill(&mut bits).expect("randomness");
        let port = 20_000 + u16::from_be_bytes(bits) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// `redis.prefix` of the gateways.
pub const PREFIX: &str = "auth-gateway:test";

/// Their stream of revocations.
pub const STREAM: &str = "auth-gateway:test:revocations";

/// Their stream of refused logins.
pub const LOGINS: &str = "auth-gateway:test:logins";

/// A client with all permissions of Redis.
pub struct Admin(redis::Connection);

impl Admin {
    /// Runs a command whose words are separated by spaces.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> redis::Value {
        self.words(&command.split(' ').collect::<Vec<_>>())
    }

    /// Runs a command.
    #[track_caller]
    pub fn words(&mut self, words: &[&str]) -> redis::Value {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        let answer = command.query(&mut self.0);
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The entries of the stream of revocations, in its order.
    pub fn revocations(&mut self) -> Vec<Vec<u8>> {
        self.entries(STREAM)
    }

    /// The entries of a stream, in its order.
    pub fn entries(&mut self, stream: &str) -> Vec<Vec<u8>> {
        let mut command = redis::cmd("XRANGE");
        command.arg(stream).arg("-").arg("+");
        let entries: redis::streams::StreamRangeReply =
            command.query(&mut self.0).expect("a stream, or nothing");
        let bytes = |entry: redis::streams::StreamId| match &entry.map["r"] {
            redis::Value::BulkString(bytes) => bytes.clone(),
            other => panic!("{other:?}"),
        };
        entries.ids.into_iter().map(bytes).collect()
    }

    /// Adds an entry to the stream of revocations, as a replica does.
    pub fn append(&mut self, entry: &[u8]) {
        self.append_to(STREAM, entry);
    }

    /// Adds an entry to a stream.
    pub fn append_to(&mut self, stream: &str, entry: &[u8]) {
        let mut command = redis::cmd("XADD");
        command.arg(stream).arg("*").arg("r").arg(entry);
        command.exec(&mut self.0).expect("added");
    }

    /// Replaces a key by what DUMP returned.
    pub fn restore(&mut self, key: &str, dump: &redis::Value) {
        let redis::Value::BulkString(dump) = dump else {
            panic!("{dump:?}");
        };
        let mut command = redis::cmd("RESTORE");
        command.arg(key).arg(0).arg(&dump[..]).arg("REPLACE");
        command.exec(&mut self.0).expect("restored");
    }

    /// Disconnects all clients except this one.
    pub fn disconnect_all(&mut self) {
        self.run("CLIENT KILL TYPE normal SKIPME yes");
    }
}
