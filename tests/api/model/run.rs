//! Carries a scenario out, step by step, and has every answer judged.

use std::time::Duration;

use futures_util::future::join_all;
use test_support::keys::TestKeys;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{self, JoinHandle};

use super::fixture::ModelFixture;
use super::judge::{Breach, Exchange, Verdict, broken, hold};
use super::line::Outage;
use super::names::Names;
use super::replica::{Answer, Extent, Granted, No, Pair};
use super::scenario::{Held, Password, REPLICAS, Scenario, Step};
use super::sessions::{self, Login};
use super::tally::{Case, Tally};
use super::truth::User;

/// Carries the scenario out, up to the first promise that is broken.
pub(super) fn run(
    scenario: &Scenario,
    extent: Extent,
    keys: &TestKeys,
) -> Result<Tally, (usize, Breach)> {
    runtime(extent).block_on(async {
        let mut fixture = ModelFixture::new(scenario.setting, extent, keys).await;
        let mut tally = Tally::default();
        for (number, step) in scenario.steps.iter().enumerate() {
            let verdict = fixture.perform(step, &mut tally).await;
            verdict.map_err(|breach| (number, breach))?;
        }
        Ok(tally)
    })
}

/// The operations alone wait for nobody, so no deadline runs while they are tried.
fn runtime(extent: Extent) -> Runtime {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all();
    runtime.start_paused(extent == Extent::Operations);
    runtime.build().expect("a runtime")
}

impl ModelFixture {
    async fn perform(&mut self, step: &Step, tally: &mut Tally) -> Verdict {
        match *step {
            Step::LogIn { at, user, password } => self.log_in(at, user, password).await,
            Step::LogInSlowly {
                at,
                user,
                told,
                millis,
            } => self.log_in_slowly(at, user, told, millis).await,
            Step::Exchange { at, session, asked } => self.exchange(at, session, asked, tally).await,
            Step::Mix {
                at,
                id_of,
                token_of,
            } => self.mix(at, id_of, token_of).await,
            Step::Storm {
                ref at,
                session,
                asked,
                held,
                ref meanwhile,
                millis,
            } => {
                let Some(session) = self.session(session) else {
                    return Ok(());
                };
                let exchanges = self.exchanges(at, session, asked);
                match self.extent {
                    Extent::Operations => {
                        self.storm(&exchanges, held, meanwhile, millis, tally).await
                    }
                    Extent::Service => self.rush(&exchanges, tally).await,
                }
            }
            Step::Restart { at } => {
                self.restart(Self::replica(at)).await;
                Ok(())
            }
            ref other => self.happen(other).await,
        }
    }

    /// What may also happen while an exchange is under way.
    async fn happen(&mut self, step: &Step) -> Verdict {
        match *step {
            Step::LogOut { at, session } => return self.log_out(at, session).await,
            Step::Permit { user, names } => self.permit(Self::user(user), Names::from_bits(names)),
            Step::Switch { user, on } => self.switch(Self::user(user), on),
            Step::EndSession { session, told } => {
                if let Some(session) = self.session(session) {
                    self.end_session(session, told.map(Self::replica));
                }
            }
            Step::EndSessionsOf { user, told } => {
                self.end_sessions_of(Self::user(user), told.map(Self::replica));
            }
            Step::Break { at, outage } => self.set_outages(at, Some(outage)),
            Step::Mend { at } => self.set_outages(at, None),
            Step::Cut { at } => self.bus.leave(Self::replica(at)),
            Step::Rejoin { at } => self.rejoin(Self::replica(at)),
            Step::Wait { millis } => self.advance(Duration::from_millis(millis)),
            Step::WaitFor {
                edge,
                at,
                session,
                millis,
            } => self.wait_for(edge, Self::replica(at), session, millis),
            Step::SetWall { at, ahead } => self.set_wall(Self::replica(at), ahead),
            Step::Suspend { at, millis } => {
                self.suspend(Self::replica(at), Duration::from_millis(millis));
            }
            ref other => return broken(format!("{other:?} cannot happen meanwhile")),
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
        let door = &self.replicas[at].door;
        let answer = door.log_in(&self.users[user].email, text).await;
        sessions::log_in(self, login, answer)
    }

    /// Where something else may be the matter, a login like any other.
    async fn log_in_slowly(&mut self, at: u8, user: u8, told: Option<u8>, millis: u64) -> Verdict {
        let (at, user) = (Self::replica(at), Self::user(user));
        let login = Login::new(self, at, user, Password::Right);
        let (door, email) = (
            self.replicas[at].door.clone(),
            self.users[user].email.clone(),
        );
        let sent = async move { door.log_in(&email, User::PASSWORD).await };
        if self.extent == Extent::Service || self.trouble(at).is_possible() {
            let answer = sent.await;
            return sessions::log_in(self, login, answer);
        }
        self.hold(Some(Held::Answers));
        let sent = task::spawn(sent);
        settle().await;
        self.advance(Duration::from_millis(millis / 2));
        if let Some(told) = told {
            self.ended_all[user] = Some(self.now());
            self.end_sessions_of(user, Some(Self::replica(told)));
        }
        self.advance(Duration::from_millis(millis / 2));
        self.hold(None);
        let answer = sent.await.expect("no panic");
        sessions::log_in(self, login, answer)
    }

    async fn exchange(&mut self, at: u8, session: u8, asked: u8, tally: &mut Tally) -> Verdict {
        let Some(session) = self.session(session) else {
            return Ok(());
        };
        for exchange in self.exchanges(&[at], session, asked) {
            let answer = self.send(exchange).await.expect("no panic");
            exchange.judge(self, answer, tally)?;
        }
        Ok(())
    }

    async fn log_out(&mut self, at: u8, session: u8) -> Verdict {
        let (at, Some(session)) = (Self::replica(at), self.session(session)) else {
            return Ok(());
        };
        let replica = &self.replicas[at];
        let ends_before = replica.line.ends();
        let answer = replica.door.log_out(&self.lives[session].pair).await;
        sessions::log_out(self, at, session, ends_before, answer)
    }

    /// Neither session is any the worse for it, which later steps show.
    async fn mix(&mut self, at: u8, id_of: u8, token_of: u8) -> Verdict {
        let (Some(one), Some(other)) = (self.session(id_of), self.session(token_of)) else {
            return Ok(());
        };
        if one == other {
            return Ok(());
        }
        let pair = Pair {
            id: self.lives[one].pair.id.clone(),
            ..self.lives[other].pair.clone()
        };
        let door = &self.replicas[Self::replica(at)].door;
        let exchanged = door.exchange(&pair, Names::ALL).await;
        let starting = self.is_starting(Self::replica(at));
        let refused = match &exchanged {
            Err(No::Denied) => !starting,
            Err(No::Fault(_)) => starting,
            Ok(_) | Err(No::Strange(_)) => false,
        };
        hold(refused, || {
            format!("two halves are exchanged: {exchanged:?}")
        })?;
        let logged_out = door.log_out(&pair).await;
        hold(logged_out == Err(No::Denied), || {
            format!("two halves are logged out: {logged_out:?}")
        })
    }

    fn exchanges(&self, at: &[u8], session: usize, asked: u8) -> Vec<Exchange> {
        let exchanges = at.iter().map(|at| Self::replica(*at)).map(|at| Exchange {
            at,
            session,
            asked: Names::from_bits(asked),
            began: self.now(),
            words_before: self.replicas[at].line.words().len(),
            over_before: self.is_known_to_be_over(session, at),
        });
        exchanges.collect()
    }

    fn send(&self, exchange: Exchange) -> JoinHandle<Answer<Granted>> {
        let door = self.replicas[exchange.at].door.clone();
        let pair = self.lives[exchange.session].pair.clone();
        task::spawn(async move { door.exchange(&pair, exchange.asked).await })
    }

    /// What was answered before anything happened is judged before it.
    async fn storm(
        &mut self,
        exchanges: &[Exchange],
        held: Held,
        meanwhile: &[Step],
        millis: u64,
        tally: &mut Tally,
    ) -> Verdict {
        self.hold(Some(held));
        let mut waiting = Vec::new();
        for (exchange, sent) in exchanges
            .iter()
            .map(|one| (one, self.send(*one)))
            .collect::<Vec<_>>()
        {
            settle().await;
            if sent.is_finished() {
                exchange.judge(self, sent.await.expect("no panic"), tally)?;
            } else {
                waiting.push((exchange, sent));
            }
        }
        for step in meanwhile {
            self.happen(step).await?;
        }
        self.advance(Duration::from_millis(millis));
        self.hold(None);
        for (exchange, sent) in waiting {
            let answer = sent.await.expect("no panic");
            exchange.judge(self, answer, tally)?;
            tally.count(Case::Crossed);
        }
        self.asked_at_most_once(exchanges)
    }

    /// All at once, over as many connections.
    async fn rush(&mut self, exchanges: &[Exchange], tally: &mut Tally) -> Verdict {
        let sent = exchanges.iter().map(|exchange| self.send(*exchange));
        let answers = join_all(sent).await;
        for (exchange, answer) in exchanges.iter().zip(answers) {
            exchange.judge(self, answer.expect("no panic"), tally)?;
            tally.count(Case::Crossed);
        }
        self.asked_at_most_once(exchanges)
    }

    /// Those who ask at once share one question, where it is answered; and one more where the
    /// replica came back to the others meanwhile.
    fn asked_at_most_once(&self, exchanges: &[Exchange]) -> Verdict {
        for exchange in exchanges {
            let words = self.replicas[exchange.at].line.words().len();
            let asked = words - exchange.words_before;
            let rejoined = self.rejoined[exchange.at];
            let again = rejoined.is_some_and(|rejoined| rejoined >= exchange.began);
            hold(asked <= 1 + usize::from(again), || {
                format!("the IAM was asked {asked} times")
            })?;
        }
        Ok(())
    }

    fn hold(&self, what: Option<Held>) {
        for replica in &self.replicas {
            replica.line.hold(what);
        }
    }

    fn set_outages(&mut self, at: Option<u8>, outage: Option<Outage>) {
        for number in 0..REPLICAS {
            if at.is_none_or(|at| Self::replica(at) == number) {
                self.set_outage(number, outage);
            }
        }
    }
}

/// Lets everybody go on until they wait for somebody.
async fn settle() {
    for _ in 0..32 {
        task::yield_now().await;
    }
}
