use std::collections::HashSet;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;

use super::super::keys::CLOCK_SKEW;
use super::super::session::{FORMAT, SealedSession, SessionId};
use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn at(seconds: u64) -> Moment {
    Moment {
        unix: Duration::from_secs(seconds),
        monotonic: Duration::from_secs(seconds),
    }
}

fn id() -> SessionId {
    SessionId::generate(&SystemRandom::new()).unwrap()
}

fn key() -> RevocationKey {
    RevocationKey::derive(&[7; 32]).unwrap()
}

/// Alice's, verified at this second.
fn sealed(verified_at: u64) -> SealedSession<'static> {
    SealedSession {
        v: FORMAT,
        sid: "".into(),
        iam: "keycloak".into(),
        iss: "https://iam.test".into(),
        sub: "alice".into(),
        usid: "upstream".into(),
        secret: "".into(),
        iat: verified_at,
        exp: 1_000,
    }
}

fn end_of(revocations: &Revocations, id: SessionId, verified_at: u64) -> Option<End> {
    let (key, session) = (key(), sealed(verified_at));
    revocations.end_of(&mut SessionNames::new(&key, id, &session))
}

fn logged_out(id: SessionId, expires_at: u64) -> Revocation {
    Revocation::of_session(key().session(id), End::LoggedOut, expires_at)
}

#[test]
fn an_end_is_remembered_and_the_word_of_the_iam_is_the_last() {
    let (revocations, ended) = (Revocations::default(), id());
    assert_eq!(end_of(&revocations, ended, 0), None);
    revocations.record(&logged_out(ended, 100), at(0));
    assert_eq!(end_of(&revocations, ended, 0), Some(End::LoggedOut));
    let over = Revocation::of_session(key().session(ended), End::Upstream, 100);
    revocations.record(&over, at(0));
    revocations.record(&logged_out(ended, 100), at(0));
    assert_eq!(end_of(&revocations, ended, 0), Some(End::Upstream));
    assert_eq!(end_of(&revocations, id(), 0), None);
}

#[test]
fn a_session_of_the_iams_that_is_over_takes_every_session_of_ours_with_it() {
    let revocations = Revocations::default();
    let name = |id| key().upstream_session("keycloak", "https://iam.test", id);
    revocations.record(
        &Revocation::of_upstream_session(name("other"), at(0), DAY),
        at(0),
    );
    assert_eq!(end_of(&revocations, id(), 0), None);
    revocations.record(
        &Revocation::of_upstream_session(name("upstream"), at(0), DAY),
        at(0),
    );
    for session in [id(), id()] {
        assert_eq!(end_of(&revocations, session, 0), Some(End::Upstream));
        revocations.record(&logged_out(session, 100), at(0));
        assert_eq!(end_of(&revocations, session, 0), Some(End::Upstream));
    }
}

#[test]
fn all_sessions_of_a_subject_up_to_a_moment_are_over_and_none_that_came_after() {
    let revocations = Revocations::default();
    let until = |moment| {
        let name = key().subject("keycloak", "https://iam.test", "alice");
        Revocation::of_subject(name, moment, at(500), DAY)
    };
    revocations.record(&until(500), at(500));
    // An older notice that arrives late takes nothing back.
    revocations.record(&until(400), at(500));
    assert_eq!(end_of(&revocations, id(), 499), Some(End::Inactive));
    assert_eq!(end_of(&revocations, id(), 500), Some(End::Inactive));
    assert_eq!(end_of(&revocations, id(), 501), None);
    revocations.record(&until(600), at(500));
    assert_eq!(end_of(&revocations, id(), 501), Some(End::Inactive));
}

#[test]
fn a_second_look_sees_what_was_recorded_since_the_first_whatever_kind_it_is_of() {
    let name = key().upstream_session("keycloak", "https://iam.test", "upstream");
    let subject = key().subject("keycloak", "https://iam.test", "alice");
    let session = id();
    for revocation in [
        logged_out(session, 1_000),
        Revocation::of_upstream_session(name, at(0), DAY),
        Revocation::of_subject(subject, 0, at(0), DAY),
    ] {
        let revocations = Revocations::default();
        let (key, content) = (key(), sealed(0));
        let mut names = SessionNames::new(&key, session, &content);
        for _ in 0..2 {
            assert_eq!(revocations.end_of(&mut names), None);
            revocations.record(&logged_out(id(), 1_000), at(0));
        }
        assert_eq!(revocations.end_of(&mut names), None);
        revocations.record(&revocation, at(0));
        for _ in 0..2 {
            assert_eq!(revocations.end_of(&mut names), Some(revocation.end));
        }
    }
}

#[test]
fn names_differ_by_kind_by_key_and_by_every_part() {
    let (one, other) = (key(), RevocationKey::derive(&[8; 32]).unwrap());
    let session = id();
    let mut names = HashSet::new();
    for key in [&one, &other] {
        assert!(names.insert(key.session(session)));
        for parts in [
            ["a", "b", "c"],
            ["", "ab", "c"],
            ["ab", "", "c"],
            ["a", "bc", ""],
            ["a", "", "bc"],
        ] {
            let [adapter, issuer, last] = parts;
            assert!(
                names.insert(key.upstream_session(adapter, issuer, last)),
                "{parts:?}"
            );
            assert!(
                names.insert(key.subject(adapter, issuer, last)),
                "{parts:?}"
            );
        }
    }
    assert_eq!(key().session(session), one.session(session));
}

#[test]
fn a_clock_set_back_by_a_minute_finds_every_end_of_a_living_session() {
    let (revocations, ended) = (Revocations::default(), id());
    revocations.record(&logged_out(ended, 1_000), at(900));
    for _ in 0..2 * SWEEP_MIN {
        revocations.record(&logged_out(id(), 2_000), at(1_059));
    }
    assert_eq!(end_of(&revocations, ended, 0), Some(End::LoggedOut));
}

#[test]
fn only_what_would_have_expired_is_forgotten() {
    let (revocations, living) = (Revocations::default(), id());
    revocations.record(&logged_out(living, 1_000), at(0));
    for _ in 0..10 * SWEEP_MIN {
        revocations.record(&logged_out(id(), 10), at(70));
    }
    assert_eq!(end_of(&revocations, living, 0), Some(End::LoggedOut));
    let count = revocations.count();
    assert!(count < 2 * SWEEP_MIN, "{count}");
    let counted = revocations.of(Kind::Session).load(Ordering::Relaxed);
    assert_eq!(counted, count);
}

#[test]
fn what_the_iam_told_is_kept_as_long_as_the_youngest_session_may_live() {
    let name = key().upstream_session("keycloak", "https://iam.test", "upstream");
    let told = Revocation::of_upstream_session(name, at(1_000), DAY);
    // A replica ahead by the skew made a session just now, and we are set back by as much.
    let youngest = 1_000 + CLOCK_SKEW.as_secs() + DAY.as_secs();
    assert_eq!(told.forget_at, youngest + CLOCK_SKEW.as_secs());
}

#[test]
fn debug_shows_no_name() {
    let shown = format!("{:?} {:?}", logged_out(id(), 0), key());
    assert!(shown.contains("Name([REDACTED])") && shown.contains("RevocationKey([REDACTED])"));
}

#[test]
fn what_another_replica_tells_counts_as_what_was_recorded_here() {
    let (here, elsewhere) = (Revocations::default(), Revocations::default());
    let (one, other) = (id(), id());
    here.record(&logged_out(one, 100), at(0));
    assert_eq!(elsewhere.learn(&logged_out(one, 100), at(0)), Learned::New);
    assert_eq!(
        elsewhere.learn(&logged_out(one, 100), at(0)),
        Learned::Known
    );
    assert_eq!(end_of(&elsewhere, one, 0), Some(End::LoggedOut));
    assert_eq!(end_of(&elsewhere, other, 0), None);
}

#[test]
fn nothing_that_is_told_makes_an_end_less() {
    let revocations = Revocations::default();
    let (session, name) = (id(), key().subject("keycloak", "https://iam.test", "alice"));
    let over = Revocation::of_session(key().session(session), End::Upstream, 1_000);
    let subject = Revocation::of_subject(name, 500, at(500), DAY);
    for strong in [over, subject] {
        revocations.record(&strong, at(500));
        let weak = Revocation {
            end: End::LoggedOut,
            begun_until: strong.begun_until.min(400),
            forget_at: 501,
            ..strong
        };
        assert_eq!(revocations.learn(&weak, at(500)), Learned::Known);
    }
    for _ in 0..2 * SWEEP_MIN {
        revocations.record(&logged_out(id(), 2_000), at(600));
    }
    assert_eq!(end_of(&revocations, session, 600), Some(End::Upstream));
    assert_eq!(end_of(&revocations, id(), 500), Some(End::Inactive));
}

#[test]
fn what_is_past_or_reaches_too_far_is_not_learned() {
    let revocations = Revocations::default();
    let now = at(1_000);
    let told = |begun_until, forget_at| {
        let name = key().subject("keycloak", "https://iam.test", "alice");
        let made = Revocation::of_subject(name, begun_until, now, DAY);
        revocations.learn(&Revocation { forget_at, ..made }, now)
    };
    let year = 366 * 86_400;
    assert_eq!(told(1_000, 1_000), Learned::Past);
    assert_eq!(told(1_000, 1_000 + year + 121), Learned::Implausible);
    assert_eq!(told(1_000, u64::MAX), Learned::Implausible);
    assert_eq!(told(1_061, 2_000), Learned::Implausible);
    assert_eq!(told(u64::MAX, 2_000), Learned::Implausible);
    assert_eq!(revocations.count(), 0);
    assert_eq!(told(1_060, 1_000 + year + 120), Learned::New);
}

#[test]
fn a_flood_from_elsewhere_fills_its_own_room_and_pushes_nothing_out() {
    let revocations = Revocations::with_room(3);
    let (here, told) = (id(), id());
    revocations.record(&logged_out(here, 1_000), at(0));
    assert_eq!(
        revocations.learn(&logged_out(told, 1_000), at(0)),
        Learned::New
    );
    for _ in 0..2 {
        assert_eq!(
            revocations.learn(&logged_out(id(), 10), at(0)),
            Learned::New
        );
    }
    for _ in 0..100 {
        assert_eq!(
            revocations.learn(&logged_out(id(), 1_000), at(0)),
            Learned::Full
        );
    }
    let late = id();
    revocations.record(&logged_out(late, 1_000), at(0));
    for session in [here, told, late] {
        assert_eq!(end_of(&revocations, session, 0), Some(End::LoggedOut));
    }
    // What has expired makes room.
    let later = at(10 + CLOCK_SKEW.as_secs());
    assert_eq!(
        revocations.learn(&logged_out(id(), 1_000), later),
        Learned::New
    );
}
