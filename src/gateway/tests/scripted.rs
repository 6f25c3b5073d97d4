//! An IAM that does as it is told: it answers out of a small model, by a script, or when let go.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::resilient::Operation;
use iam_adapters::{
    Authenticated, Capabilities, ClientContext, Credentials, IamAdapter, IamError, Introspection,
    Permission, Permissions, Refusal, Subject, UpstreamSession,
};
use secrecy::ExposeSecret as _;
use test_support::LogoutSigner;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// What the IAM calls the gateway.
pub(in crate::gateway) const CLIENT: &str = "the-gateway";

/// What the IAM does with one call.
#[derive(Debug)]
pub(in crate::gateway) enum Reply {
    /// As the model has it when the reply is given.
    Model,
    /// Fails.
    Fault(IamError),
    /// Says so, whatever the model has.
    Say(Introspection),
    /// Panics.
    Panic,
}

/// A call that waits for its reply.
#[derive(Debug)]
pub(in crate::gateway) struct Call(oneshot::Sender<Reply>);

impl Call {
    pub(in crate::gateway) fn reply(self, reply: Reply) {
        self.0.send(reply).expect("the caller waits");
    }
}

/// The calls of an operation that is held, in the order in which they come.
#[derive(Debug)]
pub(in crate::gateway) struct Held(mpsc::UnboundedReceiver<Call>);

impl Held {
    /// The next call. Where none comes, the test fails instead of waiting for ever.
    pub(in crate::gateway) async fn next(&mut self) -> Call {
        let call = timeout(Duration::from_secs(30), self.0.recv()).await;
        call.expect("the IAM is asked").expect("the IAM lives")
    }
}

#[derive(Debug, Default)]
pub(in crate::gateway) struct Model {
    sessions: usize,
    permissions: HashMap<String, Vec<String>>,
    ended: HashSet<String>,
    calls: Vec<Operation>,
    script: HashMap<Operation, VecDeque<Reply>>,
    outage: Option<IamError>,
    held: HashMap<Operation, mpsc::UnboundedSender<Call>>,
    seen: Vec<(Credentials, ClientContext)>,
}

#[derive(Debug)]
pub(in crate::gateway) struct Scripted {
    pub(in crate::gateway) name: &'static str,
    pub(in crate::gateway) issuer: &'static str,
    /// Whether a login tells the permissions.
    pub(in crate::gateway) tells_permissions: bool,
    pub(in crate::gateway) expires_in: Option<Duration>,
    /// Appended to every upstream secret.
    pub(in crate::gateway) ballast: usize,
    /// Where it has none, it sends no logout tokens.
    pub(in crate::gateway) signer: Option<LogoutSigner>,
    pub(in crate::gateway) model: Mutex<Model>,
}

impl Default for Scripted {
    fn default() -> Self {
        Self {
            name: "scripted",
            issuer: "https://iam.test/realm",
            tells_permissions: true,
            expires_in: None,
            ballast: 0,
            signer: None,
            model: Mutex::default(),
        }
    }
}

impl Scripted {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    /// Sets what the subject may do, as a scope string.
    pub(in crate::gateway) fn permit(&self, subject: &str, names: &str) {
        let names = names.split_whitespace().map(str::to_owned).collect();
        self.model().permissions.insert(subject.to_owned(), names);
    }

    pub(in crate::gateway) fn end(&self, secret: &str) {
        self.model().ended.insert(secret.to_owned());
    }

    pub(in crate::gateway) fn has_ended(&self, secret: &str) -> bool {
        self.model().ended.contains(secret)
    }

    /// What the next call of an operation that is not held gets.
    pub(in crate::gateway) fn script(&self, operation: Operation, reply: Reply) {
        let mut model = self.model();
        model.script.entry(operation).or_default().push_back(reply);
    }

    /// What every call gets for which nothing else is said.
    pub(in crate::gateway) fn break_down(&self, outage: Option<IamError>) {
        self.model().outage = outage;
    }

    /// From now on, calls of an operation wait until they are replied to.
    pub(in crate::gateway) fn hold(&self, operation: Operation) -> Held {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.model().held.insert(operation, sender);
        Held(receiver)
    }

    pub(in crate::gateway) fn let_go(&self, operation: Operation) {
        self.model().held.remove(&operation);
    }

    /// How often the operation was called.
    pub(in crate::gateway) fn calls(&self, operation: Operation) -> usize {
        let model = self.model();
        model
            .calls
            .iter()
            .filter(|call| **call == operation)
            .count()
    }

    /// How often anything was called.
    pub(in crate::gateway) fn calls_in_all(&self) -> usize {
        self.model().calls.len()
    }

    /// The logins that were asked for.
    pub(in crate::gateway) fn seen(&self) -> Vec<(Credentials, ClientContext)> {
        self.model().seen.clone()
    }

    async fn obey(&self, operation: Operation) -> Result<Option<Introspection>, IamError> {
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
            Reply::Say(word) => Ok(Some(word)),
            Reply::Panic => panic!("as the script has it"),
        }
    }

    fn permissions_of(&self, subject: &str) -> Permissions {
        let model = self.model();
        let names = model.permissions.get(subject).into_iter().flatten();
        names.map(|name| Permission::parse(name).unwrap()).collect()
    }
}

#[async_trait]
impl IamAdapter for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn issuer(&self) -> &str {
        self.issuer
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            back_channel_logout: self.logout_audience().is_some(),
            ..Capabilities::FULL
        }
    }

    /// The subject is the local part of the address; the password `wrong` is wrong.
    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let seen = (credentials.clone(), client.clone());
        self.model().seen.push(seen);
        self.obey(Operation::Login).await?;
        if credentials.password().expose_secret() == "wrong" {
            return Err(IamError::Refused(Refusal::InvalidCredentials));
        }
        let subject = credentials.email().split('@').next().unwrap().to_owned();
        let number = {
            let mut model = self.model();
            model.sessions += 1;
            model.sessions
        };
        let permissions = self
            .tells_permissions
            .then(|| self.permissions_of(&subject));
        Ok(Authenticated {
            session: UpstreamSession {
                id: format!("upstream-{number}"),
                secret: format!("secret-{number}{}", "x".repeat(self.ballast)).into(),
                subject: Subject::new(subject).unwrap(),
            },
            expires_in: self.expires_in,
            permissions,
        })
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        if let Some(word) = self.obey(Operation::Introspection).await? {
            return Ok(word);
        }
        if self.has_ended(session.secret.expose_secret()) {
            return Ok(Introspection::Inactive);
        }
        Ok(Introspection::Active {
            subject: session.subject.clone(),
            permissions: self.permissions_of(session.subject.as_str()),
        })
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.obey(Operation::Logout).await?;
        self.end(session.secret.expose_secret());
        Ok(())
    }

    fn logout_audience(&self) -> Option<&str> {
        self.signer.as_ref().map(|_| CLIENT)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.obey(Operation::Keys).await?;
        let keys = self.signer.as_ref().and_then(LogoutSigner::key_set);
        let keys = keys.expect("an IAM that sends logout tokens").to_string();
        Ok(VerificationKeys::parse(keys.as_bytes()).expect("keys"))
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.obey(Operation::Probe).await.map(|_| ())
    }
}
