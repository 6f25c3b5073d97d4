//! `POST …/logout` with a refresh token: the session ends, for every client that shares it.

use std::sync::Arc;

use actix_web::web::{Bytes, Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::clock::ShiftedClock;
use iam_adapters::resilient::Operation;

use super::backchannel::RealmVoice;
use super::realm::Realms;
use super::told::{No, Told};
use super::unknown_realm;
use super::visit::Visit;
use crate::iam::journal::Outcome;

/// A session is to end.
pub(super) async fn log_out(
    realms: Data<Realms>,
    name: Path<String>,
    request: HttpRequest,
    body: Bytes,
) -> HttpResponse {
    let Some(realm) = realms.find(&name) else {
        return unknown_realm();
    };
    let visit = Visit::of(&realms, &realm, &request, &body);
    let asked = visit.asked_about(Operation::Logout, visit.form.value("refresh_token"));
    let truth = async || visit.ended().await.unwrap_or_else(Told::from);
    visit.answer(asked, truth).await
}

impl Visit<'_> {
    /// Whoever listens is told before the answer is given, as Keycloak does. A realm that is
    /// switched off lets people go.
    async fn ended(&self) -> Result<Told, No> {
        self.check_tls()?;
        if self.form.value("refresh_token").is_none() {
            // Then it is a browser's.
            return Ok(Told::page(Outcome::Ok));
        }
        let client = self.client()?;
        let claims = self.refresh_token(&client)?;
        if self.realm.mock().directory().end_session_by_id(&claims.sid) {
            let voice = RealmVoice {
                backchannel: self.realms.backchannel.clone(),
                keys: Arc::clone(&self.realms.keys),
                issuer: claims.iss.clone(),
                audience: client,
                clock: Arc::<ShiftedClock>::clone(&self.realm.world.clock),
            };
            voice.tell(&claims.sub, &claims.sid).await;
        }
        Ok(Told::done())
    }
}
