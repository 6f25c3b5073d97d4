//! Makes the calls that `tests/applications/run` requests, each in a task: one JSON object a line in both directions.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use auth_gateway_client::{AccessToken, AuthGateway, Credentials, Error, Options, Session, Timing};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Runtime;

struct Clock {
    began: Instant,
    state: Mutex<(Duration, f64, Vec<f64>)>,
}

impl Timing for Clock {
    fn now(&self) -> Duration {
        self.began.elapsed() + self.state.lock().unwrap().0
    }

    fn sleep(&self, pause: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        let mut state = self.state.lock().unwrap();
        state.0 += pause;
        state.2.push(pause.as_secs_f64());
        Box::pin(std::future::ready(()))
    }

    fn random(&self) -> f64 {
        self.state.lock().unwrap().1
    }
}

#[derive(Clone, Default)]
struct Objects {
    gateway: Option<AuthGateway>,
    session: Option<Session>,
    token: Option<AccessToken>,
}

struct Faults {
    clock: Arc<Clock>,
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
                *self.clock.state.lock().unwrap() = (Duration::ZERO, 0.5, Vec::new());
                let timing = Arc::clone(&self.clock) as Arc<dyn Timing>;
                let options = Options {
                    attempt: duration("attempt"),
                    deadline: duration("deadline"),
                    timing,
                };
                let made = AuthGateway::new(&text("url"), options)?;
                keep(&|objects| objects.gateway = Some(made.clone()));
            }
            "login" => {
                let mut credentials = Credentials::new(text("email"), text("password"));
                credentials.otp = call["otp"].as_str().map(Into::into);
                let address = call["address"].as_str();
                credentials.client_address = address.map(|address| address.parse().unwrap());
                let made = gateway().log_in(&credentials).await?;
                keep(&|objects| objects.session = Some(made.clone()));
                let token = made.token().expose_secret();
                return Ok(
                    json!({"session_id": made.id(), "session_token": token, "expires_at": made.expires_at()}),
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
            "advance" => self.clock.state.lock().unwrap().0 += duration("seconds"),
            "random" => self.clock.state.lock().unwrap().1 = call["value"].as_f64().unwrap(),
            "pauses" => {
                return Ok(json!(std::mem::take(
                    &mut self.clock.state.lock().unwrap().2
                )));
            }
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
    let error = match outcome {
        Ok(result) => return json!({"id": id, "result": result}),
        Err(error) => error,
    };
    let shown = format!("{error} {error:?}");
    let (kind, code, retry_after, request_id) = match error {
        Error::InvalidCredentials { request_id } => ("InvalidCredentials", None, None, request_id),
        Error::SessionOver { request_id } => ("SessionOver", None, None, request_id),
        Error::Unavailable {
            retry_after,
            request_id,
            ..
        } => ("Unavailable", None, retry_after, request_id),
        Error::RequestRefused {
            error, request_id, ..
        } => ("RequestRefused", error, None, request_id),
        Error::GatewayFault { request_id, .. } => ("GatewayFault", None, None, request_id),
        Error::Settings(_) => ("other", None, None, None),
    };
    let retry_after = retry_after.map(|time| time.as_secs());
    json!({"id": id, "error": kind, "shown": shown, "code": code, "retry_after": retry_after, "request_id": request_id})
}

#[tokio::main]
async fn main() {
    let clock = Clock {
        began: Instant::now(),
        state: Mutex::new((Duration::ZERO, 0.5, Vec::new())),
    };
    let faults = Arc::new(Faults {
        clock: Arc::new(clock),
        objects: Mutex::default(),
        runtime: Mutex::default(),
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let call: Value = serde_json::from_str(&line).unwrap();
        let faults = Arc::clone(&faults);
        tokio::spawn(
            async move { println!("{}", answer(&call["id"], faults.handle(&call).await)) },
        );
    }
}
