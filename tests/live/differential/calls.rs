//! The calls, and which parts of their responses are compared.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};

use super::server::{Client, RealmServer, roles};
use super::{GATEWAY, compared};
use test_support::scripted_upstream::keycloak::PERMISSIONS_CLIENT;

pub(super) const PROTOCOL: &str = "/realms/shop/protocol/openid-connect";

/// All responses of one server, by name.
pub(super) struct RecordedResponses<'s> {
    pub(super) server: &'s dyn RealmServer,
    /// The host name by which the server is called.
    pub(super) host: &'static str,
    pub(super) all: Vec<(String, Value)>,
}

/// Members of a form.
pub(super) type Form<'a> = &'a [(&'a str, &'a str)];

impl<'s> RecordedResponses<'s> {
    pub(super) fn at(server: &'s dyn RealmServer) -> Self {
        Self {
            server,
            host: "localhost",
            all: Vec::new(),
        }
    }

    /// Posts a form as a client and records the response; returns the body.
    pub(super) async fn post(
        &mut self,
        name: &str,
        path: &str,
        client: Option<Client<'_>>,
        form: Form<'_>,
    ) -> Value {
        let mut request = self
            .server
            .request(Method::POST, self.host, path)
            .form(form);
        if let Some(Client(id, secret)) = client {
            request = request.basic_auth(id, Some(secret));
        }
        self.record(name, request).await
    }

    pub(super) async fn token(&mut self, name: &str, client: Client<'_>, form: Form<'_>) -> Value {
        let path = format!("{PROTOCOL}/token");
        self.post(&format!("token, {name}"), &path, Some(client), form)
            .await
    }

    pub(super) async fn introspect(&mut self, name: &str, client: Client<'_>, token: &str) {
        let form = [("token", token), ("token_type_hint", "refresh_token")];
        self.introspect_by(name, client, &form).await;
    }

    pub(super) async fn introspect_by(&mut self, name: &str, client: Client<'_>, form: Form<'_>) {
        let path = format!("{PROTOCOL}/token/introspect");
        self.post(&format!("introspection, {name}"), &path, Some(client), form)
            .await;
    }

    pub(super) async fn refresh(&mut self, name: &str, client: Client<'_>, token: &str) {
        let form = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.token(&format!("refresh, {name}"), client, &form).await;
    }

    pub(super) async fn log_out(&mut self, name: &str, client: Client<'_>, token: &str) {
        let path = format!("{PROTOCOL}/logout");
        let form = [("refresh_token", token)];
        self.post(&format!("logout, {name}"), &path, Some(client), &form)
            .await;
    }

    pub(super) async fn get(&mut self, name: &str, path: &str) -> Value {
        let request = self.server.request(Method::GET, self.host, path);
        self.record(name, request).await
    }

    /// The refresh token of a login that has to succeed.
    pub(super) async fn log_in(&mut self, name: &str, email: &str, password: &str) -> String {
        let body = self.token(name, GATEWAY, &login(email, password)).await;
        let token = body["refresh_token"].as_str();
        token.unwrap_or_else(|| panic!("{name}: {body}")).to_owned()
    }

    async fn record(&mut self, name: &str, request: reqwest::RequestBuilder) -> Value {
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let retry = answer.headers().contains_key("retry-after");
        let bytes = answer.bytes().await.expect("a whole answer");
        let mut recorded = compared(status, retry, &bytes);
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        recorded["read"] = Self::read_by_the_adapter(&body);
        // The issuer differs by design.
        let text = recorded.to_string();
        let port = self.server.url().rsplit(':').next().expect("a port");
        let text = text.replace(&format!(":{port}"), ":PORT");
        let recorded = serde_json::from_str(&text).expect("JSON");
        self.all.push((name.to_owned(), recorded));
        body
    }

    fn read_by_the_adapter(body: &Value) -> Value {
        let mut read = json!({"issuer": body["issuer"], "active": body["active"]});
        if body["active"] == true {
            read["azp"] = body["azp"].clone();
            read["client_id"] = body["client_id"].clone();
            read["iss"] = body["iss"].clone();
            read["typ"] = body["typ"].clone();
            read["token_type"] = body["token_type"].clone();
            read["kinds"] = json!([
                body["sub"].is_string(),
                body["sid"].is_string(),
                body["exp"].is_u64()
            ]);
            read["realm"] = json!(roles(&body["realm_access"]));
            let clients = &body["resource_access"];
            read["permissions"] = json!(roles(&clients[PERMISSIONS_CLIENT]));
            read["account"] = json!(roles(&clients["account"]));
        }
        if body["access_token"].is_string() {
            read["grant"] = Self::grant(body);
        }
        if let Some(keys) = body["keys"].as_array() {
            let signing = |key: &&Value| key["use"] == "sig" && key["alg"] == "RS256";
            let mut keys = keys.iter().filter(signing);
            let key = keys.next().expect("a key that signs");
            let named = key["kid"].is_string() && key["n"].is_string();
            read["key"] = json!([key["kty"], named, key["e"]]);
        }
        read
    }

    fn grant(body: &Value) -> Value {
        let part = |token: &Value, at: usize| {
            let text = token.as_str().and_then(|text| text.split('.').nth(at));
            let bytes = URL_SAFE_NO_PAD
                .decode(text.expect("a JWT"))
                .expect("base64url");
            serde_json::from_slice::<Value>(&bytes).expect("JSON")
        };
        let (header, refresh) = (
            part(&body["refresh_token"], 0),
            part(&body["refresh_token"], 1),
        );
        let lifetime = body["refresh_expires_in"].as_i64().expect("seconds");
        // A second may pass during the login.
        let near = |seconds: i64| (28_700..=28_800).contains(&seconds);
        let exp =
            refresh["exp"].as_i64().expect("seconds") - refresh["iat"].as_i64().expect("seconds");
        let short = body["expires_in"].as_i64().expect("seconds");
        json!({
            "token_type": body["token_type"],
            "not-before-policy": body["not-before-policy"].is_u64(),
            "lifetime": [near(lifetime), near(exp), (290..=300).contains(&short)],
            "sid": refresh["sid"] == body["session_state"] && refresh["sid"].is_string(),
            "sub": refresh["sub"].is_string(),
            "azp": refresh["azp"],
            "iss": refresh["iss"],
            "aud": refresh["aud"],
            "typ": refresh["typ"],
            "header": [header["alg"], header["typ"], header["kid"].is_string()],
        })
    }
}

/// The form of a login.
pub(super) fn login<'a>(email: &'a str, password: &'a str) -> [(&'a str, &'a str); 3] {
    [
        ("grant_type", "password"),
        ("username", email),
        ("password", password),
    ]
}
