//! Runs a scenario step by step and checks every result.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use test_support::keys::TestKeys;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{self, JoinHandle};

use super::case_counts::{Case, CaseCounts};
use super::fixture::ModelFixture;
use super::names::Names;
use super::oracle::{Exchange, Verdict, Violation, ensure, violation};
use super::recording_iam::Outage;
use super::replica::{Answer, Extent, Failure, Granted, Pair};
use super::scenario::{Delayed, ModelScenario, Password, REPLICAS, Step};
use super::sessions::{self, Login};
use super::state::User;

/// Runs the scenario until a rule is violated.
pub(super) fn run(
    scenario: &ModelScenario,
    extent: Extent,
    keys: &TestKeys,
) -> Result<CaseCounts, (usize, Violation)> {
    runtime(extent).block_on(async {
        let mut fixture = ModelFixture::new(scenario.setting, extent, keys).await;
        let mut counts = CaseCounts::default();
        for (number, step) in scenario.steps.iter().enumerate() {
            let verdict = fixture.perform(step, &mut counts).await;
            verdict.map_err(|violation| (number, violation))?;
        }
        Ok(counts)
    })
}

/// The operations never wait for real time, so no deadline expires.
fn runtime(extent: Extent) -> Runtime {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all();
    runtime.start_paused(extent == Extent::Operations);
    runtime.build().expect("a runtime")
}

impl ModelFixture {
    async fn perform(&mut self, step: &Step, counts: &mut CaseCounts) -> Verdict {
        self.learn_ends();
        match *step {
            Step::LogIn { at, user, password } => self.log_in(at, user, password).await,
            Step::LogInSlowly {
                at,
                user,
                notified,
                millis,
            } => self.log_in_slowly(at, user, notified, millis).await,
            Step::Exchange {
                at,
                session,
                requested,
            } => self.exchange(at, session, requested, counts).await,
            Step::MixPairs {
                at,
                id_of,
                token_of,
            } => self.mix_pairs(at, id_of, token_of).await,
            Step::ExchangeConcurrently {
                ref at,
                session,
                requested,
                held,
                ref meanwhile,
                millis,
            } => {
                let Some(session) = self.session(session) else {
                    return Ok(());
                };
                let exchanges = self.exchanges(at, session, requested);
                match self.extent {
                    Extent::Operations => {
                        self.exchange_concurrently(&exchanges, held, meanwhile, millis, counts)
                            .await
                    }
                    Extent::Service => self.exchange_at_once(&exchanges, counts).await,
                }
            }
            Step::FinishLogouts { at } => self.finish_logouts(Self::replica(at), counts).await,
            Step::Restart { at } => {
                self.restart(Self::replica(at)).await;
                Ok(())
            }
            ref other => self.happen(other).await,
        }
    }

    /// Steps that may also happen during an exchange.
    async fn happen(&mut self, step: &Step) -> Verdict {
        match *step {
            Step::LogOut { at, session } => return self.log_out(at, session).await,
            Step::SetPermissions { user, names } => {
                self.set_permissions(Self::user(user), Names::from_bits(names));
            }
            Step::SetEnabled { user, on } => self.set_enabled(Self::user(user), on),
            Step::EndSession { session, notified } => {
                if let Some(session) = self.session(session) {
                    self.end_session(session, notified.map(Self::replica));
                }
            }
            Step::EndSessionsOf { user, notified } => {
                self.end_sessions_of(Self::user(user), notified.map(Self::replica));
            }
            Step::RevokeSession { at, session } => {
                if let Some(session) = self.session(session) {
                    self.revoke_session(Self::replica(at), session).await;
                }
            }
            Step::RevokeSessionsOf { at, user } => {
                let user = user.map(Self::user);
                self.revoke_sessions_of(Self::replica(at), user).await;
            }
            Step::StartOutage { at, outage } => self.set_outages(at, Some(outage)),
            Step::EndOutage { at } => self.set_outages(at, None),
            Step::Disconnect { at } => self.stream.disconnect(Self::replica(at)),
            Step::Reconnect { at } => self.reconnect(Self::replica(at)),
            Step::Wait { millis } => self.advance(Duration::from_millis(millis)),
            Step::WaitFor {
                edge,
                at,
                session,
                millis,
            } => self.wait_for(edge, Self::replica(at), session, millis),
            Step::SetWallClock { at, ahead } => self.set_wall(Self::replica(at), ahead),
            Step::Suspend { at, millis } => {
                self.suspend(Self::replica(at), Duration::from_millis(millis));
            }
            ref other => return violation(format!("{other:?} cannot happen meanwhile")),
        }
        Ok(())
    }

    async fn log_in(&mut self, at: u8, user: u8, password: Password) -> Verdict {
        let (at, user) = (Self::replica(at), Self::user(user));
        let text = match password {
            Password::Right => User::PASSWORD,
            Password::Wrong => "wrong",
            Password::Empty => "",
        };
        let login = Login::new(self, at, user, password);
        let api = &self.replicas[at].api;
        let answer = api.log_in(&self.users[user].email, text).await;
        sessions::log_in(self, login, answer)
    }

    /// A normal login if the IAM may be down.
    async fn log_in_slowly(
        &mut self,
        at: u8,
        user: u8,
        notified: Option<u8>,
        millis: u64,
    ) -> Verdict {
        let (at, user) = (Self::replica(at), Self::user(user));
        let login = Login::new(self, at, user, Password::Right);
        let (api, email) = (
            self.replicas[at].api.clone(),
            self.users[user].email.clone(),
        );
        let sent = async move { api.log_in(&email, User::PASSWORD).await };
        if self.extent == Extent::Service || self.availability(at).may_be_down() {
            let answer = sent.await;
            return sessions::log_in(self, login, answer);
        }
        self.ensure(Some(Delayed::Responses));
        let sent = task::spawn(sent);
        settle().await;
        self.advance(Duration::from_millis(millis / 2));
        if let Some(notified) = notified {
            self.ended_all[user] = Some(self.now());
            self.end_sessions_of(user, Some(Self::replica(notified)));
        }
        self.advance(Duration::from_millis(millis / 2));
        self.ensure(None);
        let answer = sent.await.expect("no panic");
        sessions::log_in(self, login, answer)
    }

    async fn exchange(
        &mut self,
        at: u8,
        session: u8,
        requested: u8,
        counts: &mut CaseCounts,
    ) -> Verdict {
        let Some(session) = self.session(session) else {
            return Ok(());
        };
        for exchange in self.exchanges(&[at], session, requested) {
            let answer = self.send(exchange).await.expect("no panic");
            exchange.check(self, answer, counts)?;
        }
        Ok(())
    }

    async fn log_out(&mut self, at: u8, session: u8) -> Verdict {
        let (at, Some(session)) = (Self::replica(at), self.session(session)) else {
            return Ok(());
        };
        let pair = &self.session_states[session].pair;
        let answer = self.replicas[at].api.log_out(pair).await;
        sessions::log_out(self, at, session, answer)
    }

    async fn finish_logouts(&mut self, at: usize, counts: &mut CaseCounts) -> Verdict {
        const LONGEST_PAUSE: Duration = Duration::from_secs(30);
        let Some(gateway) = self.replicas[at].api.gateway().map(Arc::clone) else {
            return Ok(());
        };
        self.advance(LONGEST_PAUSE);
        for iam in gateway.iams.iter() {
            iam.upstream_logouts.finish_due().await;
        }
        self.learn_ends();
        sessions::finished(self, at, counts)
    }

    /// Later steps show that both sessions are unaffected.
    async fn mix_pairs(&mut self, at: u8, id_of: u8, token_of: u8) -> Verdict {
        let (Some(one), Some(other)) = (self.session(id_of), self.session(token_of)) else {
            return Ok(());
        };
        if one == other {
            return Ok(());
        }
        let pair = Pair {
            id: self.session_states[one].pair.id.clone(),
            ..self.session_states[other].pair.clone()
        };
        let api = &self.replicas[Self::replica(at)].api;
        let exchanged = api.exchange(&pair, Names::ALL).await;
        let starting = self.is_starting(Self::replica(at));
        let refused = match &exchanged {
            Err(Failure::Refused) => !starting,
            Err(Failure::Fault(_)) => starting,
            Ok(_) | Err(Failure::Unexpected(_)) => false,
        };
        ensure(refused, || {
            format!("two halves are exchanged: {exchanged:?}")
        })?;
        let logged_out = api.log_out(&pair).await;
        ensure(logged_out == Err(Failure::Refused), || {
            format!("two halves are logged out: {logged_out:?}")
        })
    }

    fn exchanges(&self, at: &[u8], session: usize, requested: u8) -> Vec<Exchange> {
        let exchanges = at.iter().map(|at| Self::replica(*at)).map(|at| Exchange {
            at,
            session,
            requested: Names::from_bits(requested),
            began: self.now(),
            reports_before: self.replicas[at].iam.reports().len(),
            over_before: self.is_known_to_be_over(session, at),
        });
        exchanges.collect()
    }

    fn send(&self, exchange: Exchange) -> JoinHandle<Answer<Granted>> {
        let api = self.replicas[exchange.at].api.clone();
        let pair = self.session_states[exchange.session].pair.clone();
        task::spawn(async move { api.exchange(&pair, exchange.requested).await })
    }

    /// Results that arrive before the other steps are checked before them.
    async fn exchange_concurrently(
        &mut self,
        exchanges: &[Exchange],
        held: Delayed,
        meanwhile: &[Step],
        millis: u64,
        counts: &mut CaseCounts,
    ) -> Verdict {
        self.ensure(Some(held));
        let mut waiting = Vec::new();
        for (exchange, sent) in exchanges
            .iter()
            .map(|one| (one, self.send(*one)))
            .collect::<Vec<_>>()
        {
            settle().await;
            if sent.is_finished() {
                exchange.check(self, sent.await.expect("no panic"), counts)?;
            } else {
                waiting.push((exchange, sent));
            }
        }
        for step in meanwhile {
            self.happen(step).await?;
        }
        self.advance(Duration::from_millis(millis));
        self.ensure(None);
        for (exchange, sent) in waiting {
            let answer = sent.await.expect("no panic");
            exchange.check(self, answer, counts)?;
            counts.count(Case::Concurrent);
        }
        self.introspected_at_most_once(exchanges)
    }

    /// All at the same time, on separate connections.
    async fn exchange_at_once(
        &mut self,
        exchanges: &[Exchange],
        counts: &mut CaseCounts,
    ) -> Verdict {
        let sent = exchanges.iter().map(|exchange| self.send(*exchange));
        let answers = join_all(sent).await;
        for (exchange, answer) in exchanges.iter().zip(answers) {
            exchange.check(self, answer.expect("no panic"), counts)?;
            counts.count(Case::Concurrent);
        }
        self.introspected_at_most_once(exchanges)
    }

    /// Concurrent exchanges share one introspection, or two if the replica reconnected in between.
    fn introspected_at_most_once(&self, exchanges: &[Exchange]) -> Verdict {
        for exchange in exchanges {
            let reports = self.replicas[exchange.at].iam.reports().len();
            let calls = reports - exchange.reports_before;
            let reconnected_at = self.reconnected_at[exchange.at];
            let again =
                reconnected_at.is_some_and(|reconnected_at| reconnected_at >= exchange.began);
            ensure(calls <= 1 + usize::from(again), || {
                format!("the IAM was called {calls} times")
            })?;
        }
        Ok(())
    }

    fn ensure(&self, what: Option<Delayed>) {
        for replica in &self.replicas {
            replica.iam.ensure(what);
        }
    }

    /// Also waits until the replicas hold no fault of the outage before it.
    fn set_outages(&mut self, at: Option<u8>, outage: Option<Outage>) {
        for number in 0..REPLICAS {
            if at.is_none_or(|at| Self::replica(at) == number) {
                self.set_outage(number, outage);
            }
        }
        self.advance(Duration::from_secs(1));
    }
}

/// Runs all tasks until they wait.
async fn settle() {
    for _ in 0..32 {
        task::yield_now().await;
    }
}
