//! The gateway as the program that it is: a process with an environment, a log and an exit code.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use serde_json::Value;
use test_support::client::Client;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::figures::iam_calls;
use crate::scene::PATIENCE;

const PROGRAM: &str = env!("CARGO_BIN_EXE_auth-gateway-dev");

/// The program, with these settings and no others.
pub(crate) fn gateway(settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().stdin(Stdio::null());
    for (key, value) in PATIENCE.iter().chain(settings) {
        let name = key.to_uppercase().replace('.', "__");
        command.env(format!("AUTH_GATEWAY__{name}"), value);
    }
    command
}

/// A gateway that serves. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) client: Client,
    management: String,
    child: Child,
    coming: UnboundedReceiver<Value>,
    log: Vec<Value>,
}

impl Process {
    /// Runs it on free ports.
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let ports = [
            ("http.listen", "127.0.0.1:0"),
            ("management.listen", "127.0.0.1:0"),
            ("http.workers", "1"),
        ];
        let mut child = gateway(&[&ports, settings].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program");
        let stdout = child.stdout.take().expect("a pipe");
        let (line, coming) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for text in BufReader::new(stdout).lines() {
                let text = text.expect("text");
                let told = serde_json::from_str(&text).expect("a line of JSON");
                // The test may be over already.
                if line.send(told).is_err() {
                    break;
                }
            }
        });
        let mut process = Self {
            client: Client::new("", ""),
            management: String::new(),
            child,
            coming,
            log: Vec::new(),
        };
        let listening = process.logs("listening").await;
        let address = |name: &str| listening[name].as_str().expect("an address").to_owned();
        process.management = address("management.address");
        process.client = Client::new(address("http.address"), &process.management);
        process
    }

    /// Runs it, and waits until it has probed the IAM, which it does once and not again.
    pub(crate) async fn start_and_probe(settings: &[(&str, &str)]) -> Self {
        let once = [("upstream.probe_interval", "1h")];
        let process = Self::start(&[settings, &once].concat()).await;
        while iam_calls(&process.management, "probe").await == 0 {}
        process
    }

    /// Waits until it writes a line with this message.
    pub(crate) async fn logs(&mut self, message: &str) -> Value {
        loop {
            let Some(line) = self.coming.recv().await else {
                panic!("it ended without {message:?}: {:#?}", self.log);
            };
            self.log.push(line.clone());
            if line["message"] == message {
                return line;
            }
        }
    }

    /// Asks it to stop, and gives all that it wrote.
    pub(crate) async fn stop(mut self) -> (ExitStatus, Vec<Value>) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        assert!(asked.expect("kill").success());
        let mut log = std::mem::take(&mut self.log);
        while let Some(line) = self.coming.recv().await {
            log.push(line);
        }
        // Its standard output is closed, so there is nothing to wait for.
        let ended = self.child.wait().expect("it ends");
        (ended, log)
    }
}

impl Drop for Process {
    /// Both fail only where it has ended already.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
