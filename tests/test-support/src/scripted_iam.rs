//! An IAM that responds from a simple model or from a script, and whose calls can be held.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::resilient::Operation;
use iam_adapters::{
    Authenticated, Capabilities, Claims, ClientContext, Credentials, IamAdapter, IamError,
    Introspection, Permission, PermissionAge, Permissions, Refusal, Subject, UpstreamSession,
};
use secrecy::ExposeSecret as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::LogoutSigner;

/// The client id of the gateway.
pub const CLIENT: &str = "the-gateway";

/// The result of one call.
#[derive(Debug)]
pub enum Reply {
    /// The state of the model at the time of the reply.
    Model,
    /// A fault.
    Fault(IamError),
    /// This introspection, independent of the model.
    Introspection(Introspection),
    /// A panic.
    Panic,
}

/// A held call.
#[derive(Debug)]
pub struct Call(oneshot::Sender<Reply>);

impl Call {
    /// Ends the call with this result.
    pub fn reply(self, reply: Reply) {
        self.0.send(reply).expect("the caller waits");
    }
}

/// The held calls of an operation, in their order.
#[derive(Debug)]
pub struct HeldCalls(mpsc::UnboundedReceiver<Call>);

impl HeldCalls {
    /// The next call. Panics if there is none within 30 s.
    pub async fn next(&mut self) -> Call {
        let call = timeout(Duration::from_secs(30), self.0.recv()).await;
        call.expect("a call").expect("the IAM is not dropped")
    }
}

/// The sessions, permissions, script and calls.
#[derive(Debug, Default)]
pub struct Model {
    sessions: usize,
    permissions: HashMap<String, Vec<String>>,
    ended: HashSet<String>,
    calls: Vec<Operation>,
    script: HashMap<Operation, VecDeque<Reply>>,
    outage: Option<IamError>,
    outages_of: HashMap<String, IamError>,
    held: HashMap<Operation, mpsc::UnboundedSender<Call>>,
    logins: Vec<(Credentials, ClientContext)>,
}

/// An IAM whose results a test decides. Without a script it is a simple model of sessions and permissions.
#[derive(Debug)]
pub struct ScriptedIam {
    /// The name of the adapter.
    pub name: &'static str,
    /// The issuer of the IAM.
    pub issuer: &'static str,
    /// Whether a login returns the permissions.
    pub returns_permissions: bool,
    /// How old the permissions of an introspection are stated to be. The model always has the current ones.
    pub permission_age: PermissionAge,
    /// The lifetime of the sessions that logins begin; `None`: unknown.
    pub expires_in: Option<Duration>,
    /// The session that every login begins; `None`: a new one, of the subject in the address.
    pub session: Option<UpstreamSession>,
    /// The claims of every user.
    pub claims: Claims,
    /// The number of bytes appended to every upstream secret.
    pub secret_padding: usize,
    /// `None`: the IAM sends no logout tokens.
    pub signer: Option<LogoutSigner>,
    /// Whether logins can have a one-time password. It is not checked.
    pub takes_otp: bool,
    /// What changes while the test runs.
    pub model: Mutex<Model>,
}

impl Default for ScriptedIam {
    fn default() -> Self {
        Self {
            name: "scripted",
            issuer: "https://iam.test/realm",
            returns_permissions: true,
            permission_age: PermissionAge::Current,
            expires_in: None,
            session: None,
            claims: Claims::NONE,
            secret_padding: 0,
            signer: None,
            takes_otp: true,
            model: Mutex::default(),
        }
    }
}

impl ScriptedIam {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model
            .lock()
            .expect("no test panics while it holds the lock")
    }

    /// Sets the permissions of a subject, as a scope string.
    pub fn permit(&self, subject: &str, names: &str) {
        let names = names.split_whitespace().map(str::to_owned).collect();
        self.model().permissions.insert(subject.to_owned(), names);
    }

    /// Ends the session with this upstream secret.
    pub fn end(&self, secret: &str) {
        self.model().ended.insert(secret.to_owned());
    }

    /// Whether the session with this upstream secret has ended.
    pub fn has_ended(&self, secret: &str) -> bool {
        self.model().ended.contains(secret)
    }

    /// Adds the result of one call of an operation that is not held.
    pub fn script(&self, operation: Operation, reply: Reply) {
        let mut model = self.model();
        model.script.entry(operation).or_default().push_back(reply);
    }

    /// Sets the fault of all calls without a scripted result.
    pub fn set_outage(&self, outage: Option<IamError>) {
        self.model().outage = outage;
    }

    /// Sets the fault of all logins and introspections of one subject.
    pub fn fail_for(&self, subject: &str, fault: IamError) {
        self.model().outages_of.insert(subject.to_owned(), fault);
    }

    fn outage_of(&self, subject: &str) -> Result<(), IamError> {
        self.model()
            .outages_of
            .get(subject)
            .cloned()
            .map_or(Ok(()), Err)
    }

    /// Holds the further calls of an operation until the test replies.
    pub fn hold(&self, operation: Operation) -> HeldCalls {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.model().held.insert(operation, sender);
        HeldCalls(receiver)
    }

    /// Holds no further calls of an operation.
    pub fn release(&self, operation: Operation) {
        self.model().held.remove(&operation);
    }

    /// The number of calls of an operation.
    pub fn calls(&self, operation: Operation) -> usize {
        let model = self.model();
        model
            .calls
            .iter()
            .filter(|call| **call == operation)
            .count()
    }

    /// The number of all calls.
    pub fn total_calls(&self) -> usize {
        self.model().calls.len()
    }

    /// The arguments of all logins.
    pub fn logins(&self) -> Vec<(Credentials, ClientContext)> {
        self.model().logins.clone()
    }

    async fn reply_to(&self, operation: Operation) -> Result<Option<Introspection>, IamError> {
        let (held, scripted) = {
            let mut model = self.model();
            model.calls.push(operation);
            let scripted = model
                .script
                .get_mut(&operation)
                .and_then(VecDeque::pop_front);
            (model.held.get(&operation).cloned(), scripted)
        };
        let reply = if let Some(held) = held {
            let (sender, receiver) = oneshot::channel();
            held.send(Call(sender)).expect("the test waits for calls");
            receiver.await.expect("the test replies")
        } else {
            scripted.unwrap_or(Reply::Model)
        };
        match reply {
            Reply::Model => self.model().outage.clone().map_or(Ok(None), Err),
            Reply::Fault(fault) => Err(fault),
            Reply::Introspection(introspection) => Ok(Some(introspection)),
            Reply::Panic => panic!("scripted"),
        }
    }

    fn permissions_of(&self, subject: &str) -> Permissions {
        let model = self.model();
        let names = model.permissions.get(subject).into_iter().flatten();
        names
            .map(|name| Permission::parse(name).expect("a permission"))
            .collect()
    }
}

#[async_trait]
impl IamAdapter for ScriptedIam {
    fn name(&self) -> &'static str {
        self.name
    }

    fn issuer(&self) -> &str {
        self.issuer
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            back_channel_logout: self.logout_audience().is_some(),
            one_time_password: self.takes_otp,
            permissions: self.permission_age,
            ..Capabilities::FULL
        }
    }

    /// The subject is the local part of the address. The password `wrong` and the empty one are wrong.
    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let login = (credentials.clone(), client.clone());
        self.model().logins.push(login);
        self.reply_to(Operation::Login).await?;
        let subject = credentials.email().split('@').next().unwrap_or_default();
        self.outage_of(subject)?;
        if ["wrong", ""].contains(&credentials.password().expose_secret()) {
            return Err(IamError::Refused(Refusal::InvalidCredentials));
        }
        let session = self.session.clone().unwrap_or_else(|| {
            let mut model = self.model();
            model.sessions += 1;
            let number = model.sessions;
            UpstreamSession {
                id: format!("upstream-{number}"),
                secret: format!("secret-{number}{}", "x".repeat(self.secret_padding)).into(),
                subject: Subject::new(subject).expect("a subject"),
            }
        });
        let permissions = self
            .returns_permissions
            .then(|| self.permissions_of(session.subject.as_str()));
        Ok(Authenticated {
            session,
            expires_in: self.expires_in,
            permissions,
            groups: None,
            claims: self.claims.clone(),
        })
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        if let Some(introspection) = self.reply_to(Operation::Introspection).await? {
            return Ok(introspection);
        }
        self.outage_of(session.subject.as_str())?;
        if self.has_ended(session.secret.expose_secret()) {
            return Ok(Introspection::Inactive);
        }
        Ok(Introspection::Active {
            subject: session.subject.clone(),
            permissions: self.permissions_of(session.subject.as_str()),
            groups: None,
            claims: self.claims.clone(),
        })
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.reply_to(Operation::Logout).await?;
        self.end(session.secret.expose_secret());
        Ok(())
    }

    fn logout_audience(&self) -> Option<&str> {
        self.signer.as_ref().map(|_| CLIENT)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.reply_to(Operation::Keys).await?;
        let keys = self.signer.as_ref().and_then(LogoutSigner::key_set);
        let keys = keys.expect("an IAM that sends logout tokens").to_string();
        Ok(VerificationKeys::parse(keys.as_bytes()).expect("keys"))
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.reply_to(Operation::Probe).await.map(|_| ())
    }
}
