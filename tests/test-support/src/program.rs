//! A program that a test starts. It is killed when it is dropped.

use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde_json::Value;

use crate::wait::DEADLINE;

/// The lines of one output stream.
#[derive(Debug)]
struct Stream {
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Stream {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let _ = sender.send(line.expect("text"));
            }
        });
        Self {
            lines,
            seen: Vec::new(),
        }
    }

    /// The first line that matches, among the earlier and the next ones.
    #[track_caller]
    fn find(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        if let Some(line) = self.seen.iter().find(|line| wanted(line)) {
            return line.clone();
        }
        loop {
            let line = self.lines.recv_timeout(DEADLINE);
            let line = line.unwrap_or_else(|why| panic!("no such line ({why}): {:#?}", self.seen));
            self.seen.push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
    }

    /// All lines, once the program has closed the stream.
    fn rest(mut self) -> String {
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("does not end: {:#?}", self.seen),
            }
        }
        self.seen.join("\n") + "\n"
    }
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    out: Option<Stream>,
    err: Option<Stream>,
}

/// The exit code and all output of a program.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// All of standard output.
    pub out: String,
    /// All of standard error.
    pub err: String,
}

impl Ended {
    /// Every line of standard output, each of which has to be JSON.
    pub fn log(&self) -> Vec<Value> {
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        self.out.lines().map(parse).collect()
    }

    /// Standard output and standard error.
    pub fn everything(&self) -> String {
        format!("{}\n{}", self.out, self.err)
    }
}

/// A program under test. Its path is known to the test binary only: cargo sets
/// `CARGO_BIN_EXE_<name>` for the integration tests of the package.
#[derive(Debug, Clone, Copy)]
pub struct Executable {
    /// The file.
    pub path: &'static str,
}

impl Executable {
    /// A command whose environment contains only these variables: a setting by its key
    /// (`session.freshness`), or any variable that begins with `AUTH_GATEWAY_`.
    pub fn command(self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.path);
        command.args(arguments).env_clear().stdin(Stdio::null());
        for (name, value) in variables {
            if name.to_ascii_uppercase().starts_with("AUTH_GATEWAY_") {
                command.env(name, value);
            } else {
                let name = name.to_uppercase().replace('.', "__");
                command.env(format!("AUTH_GATEWAY__{name}"), value);
            }
        }
        command
    }

    /// Runs it until it exits.
    pub fn run(self, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        self.spawn(arguments, variables).wait()
    }

    /// Starts it with these arguments.
    pub fn spawn(self, arguments: &[&str], variables: &[(&str, &str)]) -> Program {
        Program::start(self.command(arguments, variables))
    }

    /// Starts a gateway that serves on free ports.
    pub fn serve(self, variables: &[(&str, &str)]) -> Program {
        let free = [
            ("http.listen", "127.0.0.1:0"),
            ("management.listen", "127.0.0.1:0"),
        ];
        self.spawn(&[], &[&free[..], variables].concat())
    }
}

impl Program {
    /// Starts any command.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = Stream::of(child.stdout.take().expect("piped"));
        let err = Stream::of(child.stderr.take().expect("piped"));
        Self {
            child,
            out: Some(out),
            err: Some(err),
        }
    }

    /// Waits for a log line with this message.
    #[track_caller]
    pub fn logged(&mut self, message: &str) -> Value {
        self.logged_with("message", message)
    }

    /// Waits for a log line with this member and value.
    #[track_caller]
    pub fn logged_with(&mut self, member: &str, value: &str) -> Value {
        let matches = |line: &str| {
            serde_json::from_str::<Value>(line).is_ok_and(|line| line[member] == value)
        };
        let line = self.out.as_mut().expect("runs").find(matches);
        serde_json::from_str(&line).expect("JSON")
    }

    /// Waits for a line on standard error that contains this text; returns all lines up to it.
    #[track_caller]
    pub fn wait_for_stderr(&mut self, text: &str) -> String {
        let stream = self.err.as_mut().expect("runs");
        stream.find(|line| line.contains(text));
        stream.seen.join("\n")
    }

    /// The addresses of the public and of the management listener, once it listens.
    #[track_caller]
    pub fn addresses(&mut self) -> (SocketAddr, SocketAddr) {
        let line = self.logged("listening");
        let address = |field: &str| {
            let text = line[field].as_str().expect("an address");
            text.parse().expect("an address")
        };
        (address("http.address"), address("management.address"))
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh")
            .args(["-c", "kill -\"$1\" \"$2\"", "sh", name, &id])
            .status();
        assert!(sent.expect("a shell").success());
    }

    /// Stops it by SIGTERM, after which its exit code has to be 0.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.signal("TERM");
        let ended = self.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended
    }

    /// Waits until it exits.
    pub fn wait(mut self) -> Ended {
        let (out, err) = (self.out.take(), self.err.take());
        Ended {
            out: out.expect("runs").rest(),
            err: err.expect("runs").rest(),
            code: self.child.wait().expect("a child").code(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
