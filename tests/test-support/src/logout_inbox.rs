//! A receiver of the logout tokens of a realm.

use reqwest::Url;

use crate::scripted_upstream::{Answer, ScriptedUpstream};

const PATH: &str = "/logout-tokens";

/// A server that accepts every logout token.
#[derive(Debug)]
pub struct LogoutInbox(ScriptedUpstream);

impl LogoutInbox {
    /// Starts the server.
    pub async fn open() -> Self {
        let server = ScriptedUpstream::start().await;
        server.on(PATH, Answer::empty(200));
        Self(server)
    }

    /// The address for the realm's settings.
    pub fn url(&self) -> String {
        format!("{}{PATH}", self.0.url())
    }

    /// All tokens so far. Keycloak waits for the response, so the tokens of a session are here once
    /// its end has returned.
    pub fn tokens(&self) -> Vec<String> {
        self.tokens_since(0)
    }

    /// The number of tokens so far.
    pub fn count(&self) -> usize {
        self.0.request_count()
    }

    /// The tokens after the first `count`.
    pub fn tokens_since(&self, count: usize) -> Vec<String> {
        let requests = self.0.requests_since(count);
        requests
            .iter()
            .map(|request| token(&request.text()))
            .collect()
    }
}

fn token(form: &str) -> String {
    let url = Url::parse(&format!("http://form.test/?{form}")).expect("a form");
    let mut pairs = url.query_pairs();
    let found = pairs.find(|(name, _)| name == "logout_token");
    found.expect("a logout token").1.into_owned()
}
