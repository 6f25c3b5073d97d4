//! Makes the calls that `tests/applications/run` requests, each in a task: one JSON object a line in both directions.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use auth_gateway_client::{AccessToken, AuthGateway, Credentials, Error, Options, Session, Timing};
use futures_util::future::BoxFuture;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Runtime;

static CLOCK: Mutex<Clock> = Mutex::new(Clock::new());

struct Clock {
    ahead: Duration,
    random: f64,
    pauses: Vec<f64>,
}

impl Clock {
    const fn new() -> Self {
        Self {
            ahead: Duration::ZERO,
            random: 0.5,
            pauses: Vec::new(),
        }
    }
}

fn clock() -> MutexGuard<'static, Clock> {
    CLOCK.lock().unwrap()
}

fn now() -> Instant {
    Instant::now() + clock().ahead
}

fn sleep(pause: Duration) -> BoxFuture<'static, ()> {
    let mut clock = clock();
    clock.ahead += pause;
    clock.pauses.push(pause.as_secs_f64());
    Box::pin(std::future::ready(()))
}

fn random() -> f64 {
    clock().random
}

#[derive(Clone, Default)]
struct Objects {
    gateway: Option<AuthGateway>,
    session: Option<Session>,
    token: Option<AccessToken>,
}

#[derive(Default)]
struct Faults {
    objects: Mutex<Objects>,
    /// In addition to that of `main`.
    runtime: Mutex<Option<Runtime>>,
}

impl Faults {
    async fn handle(&self, call: &Value) -> Result<Value, Error> {
        let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
        let duration = |name: &str| Duration::from_secs_f64(call[name].as_f64().unwrap());
        let objects = self.objects.lock().unwrap().clone();
        let gateway = || objects.gateway.clone().unwrap();
        let session = || objects.session.clone().unwrap();
        let keep = |change: &dyn Fn(&mut Objects)| change(&mut self.objects.lock().unwrap());
        match call["do"].as_str().unwrap() {
            "new" => {
                *clock() = Clock::new();
                let timing = Timing { now, sleep, random };
                let options = Options {
                    attempt: duration("attempt"),
                    deadline: duration("deadline"),
                    timing,
                };
                let made = AuthGateway::new(&text("url"), options).unwrap();
                keep(&|objects| objects.gateway = Some(made.clone()));
            }
            "login" => {
                let mut credentials = Credentials::new(text("email"), text("password"));
                credentials.otp = call["otp"].as_str().map(Into::into);
                let address = call["address"].as_str();
                credentials.client_address = address.map(|address| address.parse().unwrap());
                let made = gateway().log_in(&credentials).await?;
                keep(&|objects| objects.session = Some(made.clone()));
                let token = made.token.expose_secret();
                return Ok(
                    json!({"session_id": made.id, "session_token": token, "expires_at": made.expires_at}),
                );
            }
            "resume" => {
                let made = gateway().resume(text("session_id"), text("session_token").into(), None);
                keep(&|objects| objects.session = Some(made.clone()));
            }
            "token" => {
                let made = session().access_token(&text("scope")).await?;
                keep(&|objects| objects.token = Some(made.clone()));
                return Ok(json!({"value": made.value.expose_secret(), "scope": made.scope}));
            }
            "start_in_runtime" => {
                let (session, scope) = (session(), text("scope"));
                let runtime = Runtime::new().unwrap();
                runtime.spawn(async move { session.access_token(&scope).await });
                *self.runtime.lock().unwrap() = Some(runtime);
            }
            "end_runtime" => {
                let runtime = self.runtime.lock().unwrap().take();
                // A runtime that waits for the end of another one in a task panics.
                std::thread::spawn(move || drop(runtime)).join().unwrap();
            }
            "discard" => session().discard(objects.token.as_ref().unwrap()),
            "logout" => session().log_out().await?,
            "advance" => clock().ahead += duration("seconds"),
            "random" => clock().random = call["value"].as_f64().unwrap(),
            "pauses" => return Ok(json!(std::mem::take(&mut clock().pauses))),
            "shown" => {
                return Ok(json!(format!(
                    "{:?} {:?} {:#?}",
                    objects.gateway, objects.session, objects.token
                )));
            }
            other => panic!("unknown: {other}"),
        }
        Ok(Value::Null)
    }
}

fn answer(id: &Value, outcome: Result<Value, Error>) -> Value {
    match outcome {
        Ok(result) => json!({"id": id, "result": result}),
        Err(error) => json!({
            "id": id,
            "error": format!("{:?}", error.kind),
            "shown": format!("{error} {error:?}"),
            "code": error.code,
            "retry_after": error.retry_after.map(|time| time.as_secs()),
            "request_id": error.request_id,
        }),
    }
}

#[tokio::main]
async fn main() {
    let faults = Arc::new(Faults::default());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let call: Value = serde_json::from_str(&line).unwrap();
        let faults = Arc::clone(&faults);
        tokio::spawn(
            async move { println!("{}", answer(&call["id"], faults.handle(&call).await)) },
        );
    }
}
