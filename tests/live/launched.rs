//! Servers that a launcher starts.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::{RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::keycloak::{address, environment};

/// A running server. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Launched(Child);

impl Launched {
    /// Starts a server with the launcher that this variable names; returns its facts too.
    pub(crate) async fn start<F>(launcher: &'static str, arguments: Vec<String>) -> (Self, F)
    where
        F: DeserializeOwned + Send + 'static,
    {
        // On another thread, so that the test's connections keep running.
        let started = spawn_blocking(move || Self::start_and_wait(launcher, &arguments));
        started.await.expect("a server")
    }

    /// Starts a server again that was [killed](Self::kill), with the same data in its home, at the same address.
    pub(crate) async fn start_again<F>(launcher: &'static str, home: &str, url: &str) -> (Self, F)
    where
        F: DeserializeOwned + Send + 'static,
    {
        let port = address(url, &[]).port();
        let port = port.expect("a port of its own").to_string();
        let arguments = ["--home", home, "--http-port", &port];
        Self::start(launcher, arguments.map(str::to_owned).to_vec()).await
    }

    fn start_and_wait<F: DeserializeOwned>(launcher: &str, arguments: &[String]) -> (Self, F) {
        let mut process = Command::new(environment(launcher))
            .arg("start")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the launcher");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("a pipe");
        let read = BufReader::new(stdout).read_line(&mut line);
        // From here on the process is killed on every path.
        let process = Self(process);
        read.expect("standard output");
        let facts = serde_json::from_str(&line).expect("the facts of a started server");
        (process, facts)
    }

    /// Kills it without a graceful shutdown. Both calls fail only if it has ended already.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("a process").is_none()
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The status of a response and its JSON; null if it has none.
pub(crate) async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.expect("a response");
    let status = response.status();
    let body = response.bytes().await.expect("a complete response");
    (status, serde_json::from_slice(&body).unwrap_or_default())
}
