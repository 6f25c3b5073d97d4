//! A sequence of calls about two accounts, and what a server responds.

use std::time::Duration;

use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use test_support::rng::Rng;
use test_support::totp;

use super::calls::{PROTOCOL, login};
use super::observed::{Names, jwt_part, now};
use super::server::{Client, Login, RealmServer, State};
use super::{GATEWAY, OTHER};

/// The parts of a sequence. The time of the servers advances between them.
pub(super) const PHASES: usize = 3;
/// The most calls in one part.
const CALLS_MAX: usize = 10;
const USERS: usize = 2;
const PERMISSIONS: [&str; 3] = [
    "urn:shop:orders:order:read",
    "urn:shop:orders:order:write",
    "urn:shop:catalog:item:read",
];

/// One call. A session is that of the n-th login that succeeded, counted around.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    LogIn(usize, Password, Otp, By),
    Introspect(usize, Token, By),
    Refresh(usize, Token, By),
    LogOut(usize, Token, By),
    Revoke(usize, Token, By),
    SetState(usize, State),
    Permit(usize, usize, bool),
    ChangePassword(usize),
    EndSession(usize),
    EndSessionsOf(usize),
    Delete(usize),
    Create(usize, bool),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Password {
    Right,
    Wrong,
    Empty,
}

/// A one-time password: of the 30 s in which the part began, of the next ones, or an incorrect one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Otp {
    Current,
    Next,
    Wrong,
    Absent,
}

/// The client of a call: that of the session, another one, or that with a wrong secret.
#[derive(Debug, Clone, Copy)]
pub(super) enum By {
    Own,
    Another,
    WrongSecret,
}

/// A token of a session: the refresh token of the login or of the last refresh, an altered one, or the access token.
#[derive(Debug, Clone, Copy)]
pub(super) enum Token {
    First,
    Newest,
    Altered,
    Access,
}

/// The calls of each part.
pub(super) type Sequence = [Vec<Step>; PHASES];

/// A random sequence.
pub(super) fn random(rng: &mut Rng) -> Sequence {
    std::array::from_fn(|_| {
        let count = 3 + rng.index(CALLS_MAX - 2);
        (0..count).map(|_| step(rng)).collect()
    })
}

fn step(rng: &mut Rng) -> Step {
    // The second account is there to see that a change of the first one does not affect it.
    let user = rng.weighted(&[(4, 0), (1, 1)]);
    let session = rng.index(6);
    let token = rng.weighted(&[
        (6, Token::First),
        (4, Token::Newest),
        (1, Token::Altered),
        (1, Token::Access),
    ]);
    let by = rng.weighted(&[(12, By::Own), (2, By::Another), (1, By::WrongSecret)]);
    match rng.weighted(&[
        (30, 0),
        (20, 1),
        (8, 2),
        (6, 3),
        (3, 4),
        (7, 5),
        (7, 6),
        (2, 7),
        (4, 8),
        (3, 9),
        (2, 10),
        (3, 11),
    ]) {
        0 => Step::LogIn(
            user,
            rng.weighted(&[
                (6, Password::Right),
                (3, Password::Wrong),
                (1, Password::Empty),
            ]),
            rng.weighted(&[
                (5, Otp::Current),
                (3, Otp::Next),
                (1, Otp::Wrong),
                (1, Otp::Absent),
            ]),
            by,
        ),
        1 => Step::Introspect(session, token, by),
        2 => Step::Refresh(session, token, by),
        3 => Step::LogOut(session, token, by),
        4 => Step::Revoke(session, token, by),
        5 => Step::SetState(
            user,
            rng.weighted(&[
                (5, State::Active),
                (3, State::Disabled),
                (1, State::Incomplete),
            ]),
        ),
        6 => Step::Permit(user, rng.index(PERMISSIONS.len()), rng.one_in(2)),
        7 => Step::ChangePassword(user),
        8 => Step::EndSession(session),
        9 => Step::EndSessionsOf(user),
        10 => Step::Delete(user),
        _ => Step::Create(user, rng.one_in(3)),
    }
}

struct Account {
    email: String,
    password: String,
    exists: bool,
}

struct Session {
    id: String,
    client: Client<'static>,
    first: String,
    newest: String,
    access: String,
}

/// A sequence in progress at one server.
pub(super) struct Run<'s> {
    server: &'s dyn RealmServer,
    accounts: [Account; USERS],
    sessions: Vec<Session>,
    names: Names,
    /// How far the time of the server is ahead, and the time at which the part began.
    ahead: Duration,
    began: Duration,
    /// The logout tokens that were read.
    read: usize,
    /// Everything that was observed, in its order.
    pub(super) observed: Vec<(String, Value)>,
}

impl<'s> Run<'s> {
    /// A run with accounts of this name.
    pub(super) async fn new(server: &'s dyn RealmServer, name: &str) -> Self {
        let accounts = std::array::from_fn(|number| Account {
            email: format!("{name}-{number}@example.test"),
            password: "password-1".to_owned(),
            exists: true,
        });
        for (
            number,
            Account {
                email, password, ..
            },
        ) in accounts.iter().enumerate()
        {
            server.create(email, password, number == 1).await;
        }
        Self {
            server,
            accounts,
            sessions: Vec::new(),
            names: Names::default(),
            ahead: Duration::ZERO,
            began: Duration::ZERO,
            read: server.inbox().count(),
            observed: Vec::new(),
        }
    }

    /// Makes the calls of one part.
    pub(super) async fn phase(&mut self, steps: &[Step], ahead: Duration, began: Duration) {
        (self.ahead, self.began) = (ahead, began);
        for step in steps {
            self.step(*step).await;
            self.logout_tokens(*step);
        }
    }

    /// The state of every session.
    pub(super) async fn end(&mut self) {
        for session in 0..self.sessions.len() {
            self.step(Step::Introspect(session, Token::First, By::Own))
                .await;
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::LogIn(user, password, otp, by) => {
                self.log_in(step, user, password, otp, by).await;
            }
            Step::Introspect(session, token, by) => {
                let hint = ("token_type_hint", "refresh_token");
                self.about_session(
                    step,
                    session,
                    token,
                    by,
                    "token/introspect",
                    "token",
                    &[hint],
                )
                .await;
            }
            Step::Refresh(session, token, by) => {
                let grant = ("grant_type", "refresh_token");
                let body = self
                    .about_session(step, session, token, by, "token", "refresh_token", &[grant])
                    .await;
                if let Some(token) = body["refresh_token"].as_str() {
                    let at = session % self.sessions.len();
                    token.clone_into(&mut self.sessions[at].newest);
                }
            }
            Step::LogOut(session, token, by) => {
                self.about_session(step, session, token, by, "logout", "refresh_token", &[])
                    .await;
            }
            Step::Revoke(session, token, by) => {
                self.about_session(step, session, token, by, "revoke", "token", &[])
                    .await;
            }
            Step::EndSession(session) => {
                if !self.sessions.is_empty() {
                    let id = &self.sessions[session % self.sessions.len()].id;
                    self.server.end_session(id).await;
                }
            }
            Step::Create(user, otp) => {
                let account = &mut self.accounts[user];
                if !account.exists {
                    self.server
                        .create(&account.email, &account.password, otp)
                        .await;
                    account.exists = true;
                }
            }
            Step::SetState(user, ..)
            | Step::Permit(user, ..)
            | Step::ChangePassword(user)
            | Step::EndSessionsOf(user)
            | Step::Delete(user) => {
                if self.accounts[user].exists {
                    self.administer(step, user).await;
                }
            }
        }
    }

    async fn administer(&mut self, step: Step, user: usize) {
        let account = &mut self.accounts[user];
        match step {
            Step::SetState(_, state) => self.server.set_state(&account.email, state).await,
            Step::Permit(_, at, held) => {
                self.server
                    .permit(&account.email, PERMISSIONS[at], held)
                    .await;
            }
            Step::ChangePassword(_) => {
                account.password.push('1');
                self.server
                    .set_password(&account.email, &account.password)
                    .await;
            }
            Step::EndSessionsOf(_) => self.server.end_sessions_of(&account.email).await,
            _ => {
                self.server.delete(&account.email).await;
                account.exists = false;
            }
        }
    }

    async fn log_in(&mut self, step: Step, user: usize, password: Password, otp: Otp, by: By) {
        let account = &self.accounts[user];
        let password = match password {
            Password::Right => account.password.as_str(),
            Password::Wrong => "wrong",
            Password::Empty => "",
        };
        let at = |time| totp::otp_at(time).expose_secret().to_owned();
        let otp = match otp {
            Otp::Current => Some(at(self.began)),
            Otp::Next => Some(at(self.began + Duration::from_secs(30))),
            Otp::Wrong => Some("x".to_owned()),
            Otp::Absent => None,
        };
        let otp = otp.as_deref().map(|otp| ("otp", otp));
        let (email, password) = (account.email.clone(), password.to_owned());
        let form = [&login(&email, &password)[..], otp.as_slice()].concat();
        let client = client(GATEWAY, by);
        let body = self.post("token", client, &form).await;
        let login = match body["error_description"].as_str() {
            Some("Invalid user credentials") => Login::InvalidCredentials,
            Some(_) => Login::OtherwiseRefused,
            None => Login::Succeeded,
        };
        if self.accounts[user].exists {
            self.server.login_counted(&email, login).await;
        }
        if let (Some(id), Some(access)) = (
            body["session_state"].as_str(),
            body["access_token"].as_str(),
        ) {
            let refresh = body["refresh_token"].as_str().expect("a refresh token");
            self.names.session(id, client.0);
            self.names
                .subject(jwt_part(access, 1)["sub"].as_str().expect("a subject"));
            self.sessions.push(Session {
                id: id.to_owned(),
                client,
                first: refresh.to_owned(),
                newest: refresh.to_owned(),
                access: access.to_owned(),
            });
        }
        self.observe(step);
        self.fill(&body);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    async fn about_session(
        &mut self,
        step: Step,
        session: usize,
        token: Token,
        by: By,
        endpoint: &str,
        member: &str,
        more: &[(&str, &str)],
    ) -> Value {
        if self.sessions.is_empty() {
            return Value::Null;
        }
        let session = &self.sessions[session % self.sessions.len()];
        let token = match token {
            Token::First => session.first.clone(),
            Token::Newest => session.newest.clone(),
            Token::Altered => format!("{}AAAAAAAAA", &session.first[..session.first.len() - 9]),
            Token::Access => session.access.clone(),
        };
        let client = client(session.client, by);
        let form = [&[(member, token.as_str())], more].concat();
        let body = self.post(endpoint, client, &form).await;
        self.observe(step);
        self.fill(&body);
        body
    }

    async fn post(&mut self, endpoint: &str, client: Client<'_>, form: &[(&str, &str)]) -> Value {
        let path = format!("{PROTOCOL}/{endpoint}");
        let request = self.server.request(Method::POST, "localhost", &path);
        let request = request.basic_auth(client.0, Some(client.1)).form(form);
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.bytes().await.expect("a whole answer");
        self.observed
            .push((endpoint.to_owned(), json!({ "status": status })));
        serde_json::from_slice(&body).unwrap_or(Value::Null)
    }

    /// Names what was observed last.
    fn observe(&mut self, step: Step) {
        let (name, _) = self.observed.last_mut().expect("an observation");
        *name = format!("{name}: {step:?}");
    }

    /// Adds the body to what was observed last.
    fn fill(&mut self, body: &Value) {
        let body = self.names.normalized(body, self.port(), self.ahead);
        let (_, value) = self.observed.last_mut().expect("an observation");
        value["body"] = body;
    }

    fn port(&self) -> &'s str {
        self.server.url().rsplit(':').next().expect("a port")
    }

    /// The logout tokens for the sessions of this run that have arrived since the last time.
    fn logout_tokens(&mut self, step: Step) {
        let mut received = serde_json::Map::new();
        let tokens = self.server.inbox().tokens_since(self.read);
        self.read += tokens.len();
        for token in tokens {
            let claims = jwt_part(&token, 1);
            let id = claims["sid"].as_str().unwrap_or_default();
            if let Some(session) = self.names.of(id) {
                let token = self.names.jwt(&token, self.port(), self.ahead);
                received.insert(session.to_owned(), token);
            }
        }
        let received = Value::Object(received);
        self.observed
            .push((format!("logout tokens: {step:?}"), received));
    }
}

fn client(own: Client<'static>, by: By) -> Client<'static> {
    match by {
        By::Own => own,
        By::Another if own.0 == GATEWAY.0 => OTHER,
        By::Another => GATEWAY,
        By::WrongSecret => Client(own.0, "not the secret"),
    }
}

/// How long until the next 30 s of one-time passwords begin at the servers, in whole seconds.
pub(super) fn until_next_otp(ahead: Duration) -> Duration {
    let now = now(ahead).as_secs();
    Duration::from_secs(30 - now % 30)
}
