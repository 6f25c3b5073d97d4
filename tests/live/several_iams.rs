//! A company moves from a Keycloak to another server, by the steps of docs/several-iams.md, while
//! its users log in, exchange sessions and log out all the time. No request fails.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use reqwest::Method;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use test_support::client::{Client, Session};
use test_support::keys::TestKeys;
use test_support::metrics;
use test_support::wait::until;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::admin_api::AdminApi;
use crate::keycloak::Keycloak;
use crate::launched::Launched;
use crate::process::Process;

const REPLICAS: usize = 2;
const CLIENTS: usize = 4;
const OPERATOR_TOKEN: &str = "for-tests-only-9Xw2Lc6Tq8Rv4Hn1";

/// Both servers have these users, with these passwords and permissions.
const USERS: [(&str, &str, &str); 2] = [
    (
        "alice@example.test",
        "alice-pass",
        "urn:shop:orders:order:read urn:shop:orders:order:write",
    ),
    ("bob@example.test", "bob-pass", "urn:shop:catalog:item:read"),
];

/// The server to which the company moves.
#[derive(Debug, Deserialize)]
struct NewServer {
    issuer: String,
    clients: BTreeMap<String, NewServerClient>,
}

#[derive(Debug, Deserialize)]
struct NewServerClient {
    id: String,
    secret: Option<String>,
}

type Settings = Vec<(&'static str, String)>;

/// The settings of the two IAMs, without those that a step of the move changes.
fn sections(old: &Keycloak, new: &NewServer) -> [Settings; 2] {
    let of_old = old.settings().map(|(key, value)| (key, value.to_owned()));
    let domain = "example.test".to_owned();
    let client = &new.clients["basic"];
    let secret = client.secret.clone().expect("a client with a secret");
    let mut of_old = of_old.to_vec();
    of_old.push(("iam.keycloak.domains", domain.clone()));
    let of_new = vec![
        ("iam.new.type", "oauth2".to_owned()),
        ("iam.new.preset", "django-oauth-toolkit".to_owned()),
        ("iam.new.issuer", new.issuer.clone()),
        ("iam.new.client_id", client.id.clone()),
        ("iam.new.client_secret", secret),
        ("iam.new.domains", domain),
        ("iam.new.subject_prefix", "new-".to_owned()),
    ];
    [of_old, of_new]
}

fn no_logins(at: &'static str) -> Settings {
    vec![(at, "false".to_owned())]
}

/// A replica, and the client that all its requests use.
struct Replica {
    process: Process,
    client: Arc<Client>,
}

/// Replicas behind a load balancer.
struct Service {
    keys: TestKeys,
    /// The oldest one first.
    replicas: Mutex<Vec<Replica>>,
    requests: AtomicUsize,
}

impl Service {
    async fn start(settings: &[Settings]) -> Self {
        let service = Self {
            keys: TestKeys::new(),
            replicas: Mutex::default(),
            requests: AtomicUsize::new(0),
        };
        service.roll_out(settings).await;
        service
    }

    /// The replica for the next request: the other one than before.
    fn next(&self) -> Arc<Client> {
        let replicas = self.replicas.lock().expect("the replicas");
        let next = self.requests.fetch_add(1, Ordering::Relaxed) % replicas.len();
        Arc::clone(&replicas[next].client)
    }

    fn each<T>(&self, of_one: impl Fn(&Replica) -> T) -> Vec<T> {
        let replicas = self.replicas.lock().expect("the replicas");
        replicas.iter().map(of_one).collect()
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        self.each(|replica| Arc::clone(&replica.client))
    }

    /// Replaces the replicas one after the other. A new one gets requests when it is ready, and an old one
    /// stops when it has none.
    async fn roll_out(&self, settings: &[Settings]) {
        for _ in 0..REPLICAS {
            let new = self.replica(settings);
            new.client.wait_for_readiness("ready", &[]).await;
            let old = {
                let mut replicas = self.replicas.lock().expect("the replicas");
                replicas.push(new);
                (replicas.len() > REPLICAS).then(|| replicas.remove(0))
            };
            let Some(old) = old else { continue };
            until("the requests of a replica to end", async || {
                Arc::strong_count(&old.client) == 1
            })
            .await;
            let program = old.process.program;
            program.signal("TERM");
            let ended = spawn_blocking(|| program.wait()).await.expect("its end");
            assert_eq!(ended.code, Some(0), "{}", ended.everything());
        }
    }

    fn replica(&self, settings: &[Settings]) -> Replica {
        let common = [
            // As short as a busy machine allows, so that the IAMs are called often.
            ("upstream.introspection_deadline", "10s"),
            ("session.freshness", "10s"),
            ("permissions.ttl", "10s"),
            ("management.token", OPERATOR_TOKEN),
        ];
        let sections = settings.iter().flatten();
        let sections = sections.map(|(key, value)| (*key, value.as_str()));
        let settings: Vec<_> = common.into_iter().chain(self.keys.settings()).collect();
        let settings: Vec<_> = settings.into_iter().chain(sections).collect();
        let process = Process::start(&settings);
        let client = Arc::new(process.client.clone());
        Replica { process, client }
    }

    async fn log_in(&self, (email, password, _): (&str, &str, &str)) -> Session {
        let password = SecretString::from(password);
        let replica = self.next();
        replica.log_in(email, &password).await.session()
    }

    /// Exchanges a session once at each replica; returns `sub`, which must be the same.
    async fn sub(&self, session: &Session, scope: &str) -> String {
        let mut subs = Vec::new();
        for _ in 0..REPLICAS {
            let token = self.next().exchange(session, scope).await.token();
            assert_eq!(token.scope, scope);
            subs.push(token.claims()["sub"].as_str().expect("text").to_owned());
        }
        subs.dedup();
        let [sub] = &subs[..] else {
            panic!("one sub, not {subs:?}");
        };
        sub.clone()
    }

    /// Waits until a session is refused by every replica.
    async fn is_refused(&self, session: &Session) {
        for replica in self.clients() {
            until("the session to be refused", async || {
                let answer = replica.exchange(session, "").await;
                let refused = answer.status != 200;
                if refused {
                    answer.is_error(401, "invalid_grant");
                }
                refused
            })
            .await;
        }
    }

    /// The exchanges of sessions of the old IAM, at each replica.
    async fn exchanges_of_old_sessions(&self) -> Vec<u64> {
        let mut exchanges = Vec::new();
        for management in self.each(|replica| replica.process.management) {
            let (name, label) = ("exchanges_total", "iam=\"keycloak\"");
            exchanges.push(metrics::sum(management, name, label).await);
        }
        exchanges
    }
}

/// A session that has been used.
struct Used {
    login_at: Instant,
    sub: String,
}

/// The clients of the company's applications. They work until they are stopped, and each response must
/// be a success.
struct Clients {
    service: Arc<Service>,
    stopped: Arc<AtomicBool>,
    used: Arc<Mutex<Vec<Used>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(service: &Arc<Service>) -> Self {
        let mut clients = Self {
            service: Arc::clone(service),
            stopped: Arc::default(),
            used: Arc::default(),
            tasks: Vec::new(),
        };
        for user in USERS.into_iter().cycle().take(CLIENTS) {
            let used = Arc::clone(&clients.used);
            clients.repeat(move |service| {
                let used = Arc::clone(&used);
                async move {
                    let login_at = Instant::now();
                    let session = service.log_in(user).await;
                    let sub = service.sub(&session, user.2).await;
                    assert_eq!(service.sub(&session, user.2).await, sub);
                    let ended = service.next().log_out(&session).await;
                    assert_eq!(ended.status, 200, "{}", ended.text());
                    let session = Used { login_at, sub };
                    used.lock().expect("the sessions").push(session);
                }
            });
        }
        clients
    }

    /// Also exchanges this session, whose user has this `sub`.
    fn keep(&mut self, session: &Session, scope: &'static str, sub: &str) {
        let (session, sub) = (session.clone(), sub.to_owned());
        self.repeat(move |service| {
            let (session, sub) = (session.clone(), sub.clone());
            async move { assert_eq!(service.sub(&session, scope).await, sub) }
        });
    }

    /// Repeats some work until the clients are stopped.
    fn repeat<W: Future<Output = ()> + Send>(
        &mut self,
        work: impl Fn(Arc<Service>) -> W + Send + 'static,
    ) {
        let (service, stopped) = (Arc::clone(&self.service), Arc::clone(&self.stopped));
        self.tasks.push(tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                work(Arc::clone(&service)).await;
            }
        }));
    }

    /// Waits for sessions whose login begins from now on; returns their `sub`, each once.
    async fn subs_from_now_on(&self) -> Vec<String> {
        let now = Instant::now();
        let subs = || {
            let used = self.used.lock().expect("the sessions");
            let later = used.iter().filter(|used| used.login_at > now);
            later.map(|used| used.sub.clone()).collect::<Vec<_>>()
        };
        until("further sessions", async || {
            self.tasks.iter().any(JoinHandle::is_finished) || subs().len() >= 4 * CLIENTS
        })
        .await;
        let mut subs = subs();
        subs.sort();
        subs.dedup();
        subs
    }

    async fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("no request fails");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Keycloak and django-oauth-toolkit: tests/run starts them"]
async fn company_moves_to_another_iam_and_no_request_of_its_users_fails() {
    let keycloak = Keycloak::shared();
    let launcher = "DJANGO_OAUTH_LAUNCHER";
    let (_running, new_server) = Launched::start::<NewServer>(launcher, Vec::new()).await;
    let [old, new] = sections(&keycloak, &new_server);
    let service = Arc::new(Service::start(std::slice::from_ref(&old)).await);
    let mut clients = Clients::start(&service);
    let [alice, _] = USERS;
    let (kept, ended, revoked, logged_out) = (
        service.log_in(alice).await,
        service.log_in(alice).await,
        service.log_in(alice).await,
        service.log_in(alice).await,
    );
    let old_sub = service.sub(&kept, alice.2).await;
    clients.keep(&kept, alice.2, &old_sub);
    let old_subs = clients.subs_from_now_on().await;
    assert_eq!(old_subs.len(), USERS.len());
    assert!(old_subs.contains(&old_sub));

    // Every replica knows the new IAM before the first session begins there.
    let known = [&new[..], &no_logins("iam.new.login")].concat();
    service.roll_out(&[old.clone(), known]).await;
    assert_eq!(clients.subs_from_now_on().await, old_subs);

    let closed = [&old[..], &no_logins("iam.keycloak.login")].concat();
    service.roll_out(&[closed, new.clone()]).await;
    let new_subs = USERS.map(|(email, ..)| format!("new-{email}"));
    assert_eq!(clients.subs_from_now_on().await, new_subs);

    // Sessions of the old IAM end there.
    for session in [&ended, &revoked, &logged_out] {
        assert_eq!(service.sub(session, alice.2).await, old_sub);
    }
    let response = service.next().log_out(&logged_out).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let upstream = service.keys.unsealed(&logged_out);
    let introspection = keycloak.introspect(&upstream.secret).await;
    assert_eq!(introspection["active"], false);
    service.is_refused(&logged_out).await;
    let upstream = service.keys.unsealed(&ended);
    let api = AdminApi::new(keycloak.clone());
    let path = ["sessions", upstream.id.as_str()];
    api.done(Method::DELETE, &path, None).await;
    service.is_refused(&ended).await;
    let exchanges = service.exchanges_of_old_sessions().await;
    assert!(exchanges.iter().all(|count| *count > 0), "{exchanges:?}");
    assert_eq!(service.sub(&kept, alice.2).await, old_sub);

    // The clients of the remaining sessions are stopped first.
    clients.stop().await;
    let clients = Clients::start(&service);
    for replica in service.clients() {
        let path = "/admin/v1/sessions/revoke";
        let body = json!({ "iam": "keycloak" }).to_string();
        let done = replica.operate(path, Some(OPERATOR_TOKEN), &body);
        assert_eq!(done.await.status, 200);
    }
    let exchanges = service.exchanges_of_old_sessions().await;
    for session in [&kept, &revoked] {
        service.is_refused(session).await;
    }
    assert_eq!(clients.subs_from_now_on().await, new_subs);
    assert_eq!(service.exchanges_of_old_sessions().await, exchanges);
    service.roll_out(&[new]).await;
    assert_eq!(clients.subs_from_now_on().await, new_subs);
    service.is_refused(&kept).await;
    clients.stop().await;
}
