use std::collections::HashSet;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use test_support::log::capture;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::super::timeline::DIFFERENCE_MAX;
use super::*;
use crate::sealed_session::{FORMAT, SealedSession};
use crate::session_id::SessionId;

impl Revocations {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::new(false)
        }
    }
}

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
    key_of(7)
}

/// The key that is derived from a secret of this byte.
fn key_of(byte: u8) -> RevocationKey {
    RevocationKey::derive(&DerivationKey::new(
        &[byte; 32],
        "k1",
        jiff::Timestamp::UNIX_EPOCH,
    ))
}

/// A session of Alice, verified at this second.
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

fn cause_of(revocations: &Revocations, id: SessionId, verified_at: u64) -> Option<Cause> {
    let (key, session) = (key(), sealed(verified_at));
    revocations.cause_of(&SessionRevocationIds::new(&key, id, &session))
}

fn logged_out(id: SessionId, expires_at: u64) -> Revocation {
    Revocation::of_session(key().session(id), Cause::LoggedOut, expires_at)
}

#[test]
fn revocation_is_kept_and_inactive_from_the_iam_is_final() {
    let (revocations, ended) = (Revocations::new(false), id());
    assert_eq!(cause_of(&revocations, ended, 0), None);
    revocations.record(&logged_out(ended, 100), at(0));
    assert_eq!(cause_of(&revocations, ended, 0), Some(Cause::LoggedOut));
    let inactive = Revocation::of_session(key().session(ended), Cause::Upstream, 100);
    revocations.record(&inactive, at(0));
    revocations.record(&logged_out(ended, 100), at(0));
    assert_eq!(cause_of(&revocations, ended, 0), Some(Cause::Upstream));
    assert_eq!(cause_of(&revocations, id(), 0), None);
}

#[test]
fn end_of_an_upstream_session_ends_every_session_based_on_it() {
    let revocations = Revocations::new(false);
    let revocation_id = |id| key().upstream_session("keycloak", "https://iam.test", id);
    revocations.record(
        &Revocation::of(revocation_id("other"), u64::MAX, at(0), DAY),
        at(0),
    );
    assert_eq!(cause_of(&revocations, id(), 0), None);
    revocations.record(
        &Revocation::of(revocation_id("upstream"), u64::MAX, at(0), DAY),
        at(0),
    );
    for session in [id(), id()] {
        assert_eq!(cause_of(&revocations, session, 0), Some(Cause::Upstream));
        revocations.record(&logged_out(session, 100), at(0));
        assert_eq!(cause_of(&revocations, session, 0), Some(Cause::Upstream));
    }
}

#[test]
fn revocation_of_a_subject_ends_its_sessions_up_to_its_time_and_no_later_one() {
    let revocations = Revocations::new(false);
    let until = |moment| {
        let revocation_id = key().subject("keycloak", "https://iam.test", "alice");
        Revocation::of(revocation_id, moment, at(500), DAY)
    };
    revocations.record(&until(500), at(500));
    // A late older revocation does not weaken it.
    revocations.record(&until(400), at(500));
    assert_eq!(cause_of(&revocations, id(), 499), Some(Cause::Inactive));
    assert_eq!(cause_of(&revocations, id(), 500), Some(Cause::Inactive));
    assert_eq!(cause_of(&revocations, id(), 501), None);
    revocations.record(&until(600), at(500));
    assert_eq!(cause_of(&revocations, id(), 501), Some(Cause::Inactive));
}

#[test]
fn revocation_of_an_iam_ends_the_sessions_of_all_its_subjects_up_to_its_time() {
    let revocations = Revocations::new(false);
    let until = |issuer, moment| {
        let revocation_id = key().iam("keycloak", issuer);
        Revocation::of(revocation_id, moment, at(500), DAY)
    };
    revocations.record(&until("https://another.test", 500), at(500));
    assert_eq!(cause_of(&revocations, id(), 0), None);
    revocations.record(&until("https://iam.test", 500), at(500));
    // A later revocation with an earlier time does not weaken it.
    revocations.record(&until("https://iam.test", 400), at(500));
    for (began, cause) in [
        (499, Some(Cause::LoggedOut)),
        (500, Some(Cause::LoggedOut)),
        (501, None),
    ] {
        assert_eq!(cause_of(&revocations, id(), began), cause, "{began}");
    }
    let bob = SealedSession {
        sub: "bob".into(),
        usid: "of bob".into(),
        ..sealed(500)
    };
    let key = key();
    let ids = SessionRevocationIds::new(&key, id(), &bob);
    assert_eq!(revocations.cause_of(&ids), Some(Cause::LoggedOut));
}

#[test]
fn revocation_by_session_id_is_kept_for_the_longest_possible_session() {
    let (revocations, session) = (Revocations::new(false), id());
    let revoked = Revocation::of(
        (RevocationKind::Session, key().session(session)),
        u64::MAX,
        at(1_000),
        DAY,
    );
    let youngest = 1_000 + DIFFERENCE_MAX.as_secs() + DAY.as_secs();
    assert_eq!(revoked.forget_at, youngest + DIFFERENCE_MAX.as_secs());
    revocations.record(&revoked, at(1_000));
    // A logout has the expiry, and does not shorten it.
    revocations.record(&logged_out(session, 1_001), at(1_000));
    revocations.record(&logged_out(id(), youngest + 60), at(youngest));
    let found = cause_of(&revocations, session, 1_000);
    assert_eq!(found, Some(Cause::LoggedOut));
}

#[test]
fn second_look_up_finds_revocations_of_every_kind_recorded_since_the_first() {
    let revocation_id = key().upstream_session("keycloak", "https://iam.test", "upstream");
    let subject = key().subject("keycloak", "https://iam.test", "alice");
    let session = id();
    for revocation in [
        logged_out(session, 1_000),
        Revocation::of(revocation_id, u64::MAX, at(0), DAY),
        Revocation::of(subject, 0, at(0), DAY),
        Revocation::of(
            (RevocationKind::Session, key().session(session)),
            u64::MAX,
            at(0),
            DAY,
        ),
        Revocation::of(key().iam("keycloak", "https://iam.test"), 0, at(0), DAY),
    ] {
        let revocations = Revocations::new(false);
        let (key, content) = (key(), sealed(0));
        let ids = SessionRevocationIds::new(&key, session, &content);
        for _ in 0..2 {
            assert_eq!(revocations.cause_of(&ids), None);
            revocations.record(&logged_out(id(), 1_000), at(0));
        }
        assert_eq!(revocations.cause_of(&ids), None);
        revocations.record(&revocation, at(0));
        for _ in 0..2 {
            assert_eq!(revocations.cause_of(&ids), Some(revocation.cause));
        }
    }
}

#[test]
fn second_look_up_finds_a_revocation_extended_since_the_first() {
    let revocations = Revocations::new(false);
    let until = |moment| {
        let revocation_id = key().subject("keycloak", "https://iam.test", "alice");
        Revocation::of(revocation_id, moment, at(500), DAY)
    };
    let (key, content) = (key(), sealed(501));
    let ids = SessionRevocationIds::new(&key, id(), &content);
    revocations.record(&until(500), at(500));
    assert_eq!(revocations.cause_of(&ids), None);
    assert!(revocations.apply_remote(&until(600), at(600)));
    assert_eq!(revocations.cause_of(&ids), Some(Cause::Inactive));
}

#[test]
fn names_differ_by_kind_key_and_every_part() {
    let (one, other) = (key(), key_of(8));
    let session = id();
    let mut ids = HashSet::new();
    for key in [&one, &other] {
        assert!(ids.insert(key.session(session)));
        for [adapter, issuer] in [["a", "b"], ["", "ab"], ["ab", ""], ["b", "a"]] {
            assert!(ids.insert(key.iam(adapter, issuer).1), "{adapter} {issuer}");
        }
        for parts in [
            ["a", "b", "c"],
            ["", "ab", "c"],
            ["ab", "", "c"],
            ["a", "bc", ""],
            ["a", "", "bc"],
        ] {
            let [adapter, issuer, last] = parts;
            assert!(
                ids.insert(key.upstream_session(adapter, issuer, last).1),
                "{parts:?}"
            );
            assert!(
                ids.insert(key.subject(adapter, issuer, last).1),
                "{parts:?}"
            );
        }
    }
    assert_eq!(key().session(session), one.session(session));
}

#[test]
fn number_of_a_kind_stands_for_that_kind_only() {
    let kinds = [1, 2, 3, 4].map(RevocationKind::from_repr);
    assert_eq!(kinds, RevocationKind::ALL.map(Some));
    assert_eq!([0, 5].map(RevocationKind::from_repr), [None; 2]);
}

#[test]
fn clock_set_back_by_twenty_minutes_loses_no_revocation_of_a_valid_session() {
    let (revocations, ended) = (Revocations::new(false), id());
    revocations.record(&logged_out(ended, 1_000), at(900));
    revocations.record(&logged_out(id(), 2_000), at(2_199));
    assert_eq!(cause_of(&revocations, ended, 0), Some(Cause::LoggedOut));
}

#[test]
fn only_revocations_of_expired_sessions_are_removed() {
    let (revocations, valid) = (Revocations::new(false), id());
    revocations.record(&logged_out(valid, 1_000), at(0));
    let later = at(10 + 2 * DIFFERENCE_MAX.as_secs());
    for _ in 0..10 {
        revocations.record(&logged_out(id(), 10), at(0));
    }
    revocations.record(&logged_out(id(), 10), later);
    assert_eq!(cause_of(&revocations, valid, 0), Some(Cause::LoggedOut));
    assert_eq!(revocations.count(), 1);
    let counted = revocations
        .of(RevocationKind::Session)
        .load(Ordering::Relaxed);
    assert_eq!(counted, 1);
}

#[test]
fn debug_output_contains_no_name() {
    let shown = format!("{:?} {:?}", logged_out(id(), 0), key());
    assert!(
        shown.contains("RevocationId([REDACTED])") && shown.contains("RevocationKey([REDACTED])")
    );
}

#[test]
fn revocation_of_another_replica_counts_like_one_of_this_replica() {
    let (here, there) = (Revocations::new(false), Revocations::new(false));
    let (one, other) = (id(), id());
    here.record(&logged_out(one, 100), at(0));
    assert!(there.apply_remote(&logged_out(one, 100), at(0)));
    assert!(!there.apply_remote(&logged_out(one, 100), at(0)));
    assert_eq!(cause_of(&there, one, 0), Some(Cause::LoggedOut));
    assert_eq!(cause_of(&there, other, 0), None);
}

#[test]
fn received_revocation_cannot_weaken_a_recorded_one() {
    let revocations = Revocations::new(false);
    let (session, revocation_id) = (id(), key().subject("keycloak", "https://iam.test", "alice"));
    let inactive = Revocation::of_session(key().session(session), Cause::Upstream, 1_000);
    let subject = Revocation::of(revocation_id, 500, at(500), DAY);
    for strong in [inactive, subject] {
        revocations.record(&strong, at(500));
        let weak = Revocation {
            cause: Cause::LoggedOut,
            begun_until: strong.begun_until.min(400),
            forget_at: 501,
            ..strong
        };
        assert!(!revocations.apply_remote(&weak, at(500)));
    }
    revocations.record(&logged_out(id(), 2_000), at(600));
    assert_eq!(cause_of(&revocations, session, 600), Some(Cause::Upstream));
    assert_eq!(cause_of(&revocations, id(), 500), Some(Cause::Inactive));
}

#[test]
fn revocation_is_learned_until_it_has_expired_however_far_in_the_future_its_times_are() {
    let revocations = Revocations::new(false);
    let now = at(1_000);
    let subject = key().subject("keycloak", "https://iam.test", "alice");
    let iam = key().iam("keycloak", "https://iam.test");
    for made in [
        Revocation::of(subject, 0, now, DAY),
        Revocation::of(iam, 0, now, DAY),
    ] {
        let apply = |begun_until, forget_at| {
            let received = Revocation {
                begun_until,
                forget_at,
                ..made
            };
            revocations.apply_remote(&received, now)
        };
        assert!(!apply(1_000, 1_000));
        assert!(apply(1_000, 1_001));
        // The clock of this replica is 300 s behind.
        assert!(apply(1_300_000, 2_000));
        assert!(apply(u64::MAX, u64::MAX));
    }
}

/// The table keeps the times in fewer bytes.
#[test]
fn table_keeps_each_millisecond_and_what_does_not_fit_is_the_latest_time() {
    let revocation_id = key().iam("keycloak", "https://iam.test");
    for (until, kept) in [
        (0, 0),
        (1_800_000_000_123, 1_800_000_000_123),
        ((1 << 48) - 2, (1 << 48) - 2),
        ((1 << 48) - 1, u64::MAX),
        (1 << 48, u64::MAX),
        (u64::MAX, u64::MAX),
    ] {
        let revocations = Revocations::new(false);
        let recorded = Revocation::of(revocation_id, until, at(0), DAY);
        revocations.record(&recorded, at(0));
        let found = revocations.get(&recorded.index()).unwrap();
        assert_eq!(found.begun_until, kept);
    }
}

const SMALL: usize = 5;

#[test]
fn full_table_drops_no_revocation_and_has_no_room_for_new_sessions() {
    let revocations = Revocations::with_capacity(SMALL);
    assert_eq!(revocations.capacity(), SMALL);
    let now = at(0);
    let mut ended = Vec::new();
    for count in 1..=2 * SMALL {
        let session = id();
        if count % 2 == 0 {
            revocations.record(&logged_out(session, 1_000), now);
        } else {
            let learned = revocations.apply_remote(&logged_out(session, 1_000), now);
            assert!(learned);
        }
        ended.push(session);
        assert_eq!(revocations.has_room(now), count < SMALL, "{count}");
    }
    for session in ended {
        assert_eq!(cause_of(&revocations, session, 0), Some(Cause::LoggedOut));
    }
}

#[test]
fn iams_may_fill_a_half_of_the_table_with_what_they_report() {
    let revocations = Revocations::with_capacity(SMALL);
    let lifetime = Duration::from_secs(10);
    for number in 0..SMALL / 2 {
        assert!(revocations.has_room_for_reports(at(0)));
        let revocation_id =
            key().upstream_session("keycloak", "https://iam.test", &number.to_string());
        let reported = Revocation::of(revocation_id, u64::MAX, at(0), lifetime);
        // Also those of other replicas.
        assert!(revocations.apply_remote(&reported, at(0)));
    }
    assert!(!revocations.has_room_for_reports(at(0)));
    assert!(revocations.has_room(at(0)));
    let later = at(DAY.as_secs());
    assert!(revocations.has_room_for_reports(later));
}

#[test]
fn expired_revocations_make_room_within_a_minute() {
    let revocations = Revocations::with_capacity(SMALL);
    let forget_at = logged_out(id(), 10).forget_at;
    for _ in 0..SMALL {
        revocations.record(&logged_out(id(), 10), at(0));
    }
    for (now, has_room) in [
        (0, false),
        // Nothing has expired, so the next sweep is a minute later.
        (forget_at - 1, false),
        (forget_at + 58, false),
        (forget_at + 59, true),
    ] {
        assert_eq!(revocations.has_room(at(now)), has_room, "{now}");
    }
    assert_eq!(revocations.count(), 0);
}

/// The levels of the lines of the log.
#[derive(Clone, Default)]
struct Levels(Arc<Mutex<Vec<Level>>>);

impl<S: Subscriber> Layer<S> for Levels {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.lock().unwrap().push(*event.metadata().level());
    }
}

#[test]
fn full_table_is_logged_when_it_is_full_and_when_sessions_can_begin_again() {
    let levels = Levels::default();
    let _guard = capture(tracing_subscriber::registry().with(levels.clone()));
    let logged = || std::mem::take(&mut *levels.0.lock().unwrap());
    let revocations = Revocations::with_capacity(SMALL);
    for count in 1..=SMALL {
        revocations.record(&logged_out(id(), 10), at(0));
        let is_full = count == SMALL;
        assert_eq!(logged(), [Level::ERROR].repeat(is_full.into()), "{count}");
    }
    // Nothing has expired.
    assert!(!revocations.has_room(at(60)));
    revocations.record(&logged_out(id(), 10), at(60));
    assert_eq!(logged(), [Level::ERROR; 0]);
    let later = logged_out(id(), 10).forget_at;
    assert!(revocations.has_room(at(later)));
    assert_eq!(logged(), [Level::INFO]);
    // A sweep of a table that is not full.
    revocations.record(&logged_out(id(), 10), at(later + 60));
    assert_eq!(logged(), [Level::ERROR; 0]);
}

#[test]
fn expired_revocations_are_removed_once_a_minute() {
    let revocations = Revocations::new(false);
    let record = |expires_at, now| revocations.record(&logged_out(id(), expires_at), at(now));
    let start = 1_000_000;
    let forget_at = logged_out(id(), start).forget_at;
    for _ in 0..9 {
        record(start, start);
    }
    for (now, count) in [
        // One at a time is added, which has not expired.
        (forget_at - 1, 10),
        (forget_at, 11),
        (forget_at + 58, 12),
        (forget_at + 59, 4),
    ] {
        record(now, now);
        assert_eq!(revocations.count(), count, "{now}");
    }
}

/// Records so many revocations at each of these seconds, for 25 minutes each; returns for how many there was room at most, and
/// is at the end.
fn room_with(revocations: &Revocations, each_second: u128, seconds: Range<u64>) -> (usize, usize) {
    let room = || revocations.entries.read().by_index.capacity();
    let mut largest = 0;
    for second in seconds {
        for number in 0..each_second {
            let number = u128::from(second) * 1_000 + number;
            let ended = Revocation {
                id: RevocationId::from_bytes(number.to_be_bytes()),
                ..logged_out(SessionId::DUMMY, second + 300)
            };
            revocations.record(&ended, at(second));
        }
        largest = largest.max(room());
    }
    (largest, room())
}

#[test]
fn table_has_the_same_size_while_as_many_revocations_expire_as_are_recorded() {
    let revocations = Revocations::new(false);
    let (largest, _) = room_with(&revocations, 2, 0..2 * 3600);
    let count = revocations.count();
    assert!((3_000..3_200).contains(&count), "{count}");
    assert_eq!(largest, 3_584, "the smallest table for so many");
}

#[test]
fn table_is_smaller_after_a_peak() {
    let revocations = Revocations::new(false);
    let (largest, _) = room_with(&revocations, 30, 0..600);
    assert!(largest >= 18_000, "{largest}");
    let (_, last) = room_with(&revocations, 1, 600..3_600);
    assert!(last < 4_000, "{last}");
}

#[test]
fn expired_revocations_are_removed_after_the_clock_was_set_back() {
    let revocations = Revocations::new(false);
    let now = 1_000_000;
    revocations.record(&logged_out(id(), 10 * now), at(10 * now));
    let expired = Revocation {
        forget_at: now,
        ..logged_out(id(), now)
    };
    revocations.record(&expired, at(10 * now));
    revocations.record(&logged_out(id(), now), at(now));
    assert_eq!(revocations.count(), 2);
}

#[test]
fn revocation_is_sent_unless_the_others_have_it_in_this_form() {
    let (revocations, session) = (Revocations::new(false), id());
    for (expires_at, is_unpublished) in [(100, true), (100, false), (90, false), (101, true)] {
        let ended = logged_out(session, expires_at);
        assert_eq!(revocations.record_published(&ended, at(0)), is_unpublished);
        assert_eq!(revocations.is_latest(&ended), expires_at >= 100);
    }
    assert!(!revocations.is_latest(&logged_out(id(), 101)));
    // The confirmation of the IAM is not sent.
    let inactive = Revocation::of_session(key().session(session), Cause::Upstream, 101);
    revocations.record(&inactive, at(0));
    assert!(!revocations.record_published(&inactive, at(0)));
}

#[test]
fn revocation_known_only_here_is_sent_when_it_is_shared() {
    let (revocations, session) = (Revocations::new(false), id());
    let revocation_id = key().session(session);
    let inactive = Revocation::of_session(revocation_id, Cause::Inactive, 100);
    revocations.record(&inactive, at(0));
    assert_eq!(revocations.shared(at(0)), []);
    assert!(revocations.record_published(&logged_out(session, 100), at(0)));
    let last = logged_out(session, 100).forget_at - 1;
    assert_eq!(revocations.shared(at(last)).len(), 1);
    assert_eq!(revocations.shared(at(last + 1)), []);
    // Another replica sent an earlier expiry.
    let (revocations, session) = (Revocations::new(false), id());
    revocations.apply_remote(&logged_out(session, 50), at(0));
    revocations.record(&logged_out(session, 100), at(0));
    assert!(revocations.record_published(&logged_out(session, 100), at(0)));
    let (revocations, session) = (Revocations::new(false), id());
    revocations.record(&logged_out(session, 100), at(0));
    revocations.apply_remote(&logged_out(session, 50), at(0));
    assert!(revocations.record_published(&logged_out(session, 100), at(0)));
    // Another replica sent the same.
    let (revocations, session) = (Revocations::new(false), id());
    revocations.record(&logged_out(session, 100), at(0));
    revocations.apply_remote(&logged_out(session, 100), at(0));
    assert!(!revocations.record_published(&logged_out(session, 100), at(0)));
}

#[test]
fn tags_differ_by_key_and_text_and_keys_have_different_ids() {
    let (one, other) = (key(), key_of(8));
    let tag = |key: &RevocationKey, entry| key.entries().tag(entry);
    assert_eq!(tag(&one, b"entry"), tag(&key(), b"entry"));
    assert_ne!(tag(&one, b"entry"), tag(&other, b"entry"));
    assert_ne!(tag(&one, b"entry"), tag(&one, b"entrx"));
    let id = |key: &RevocationKey| key.entries().id();
    assert_eq!(id(&one), id(&key()));
    assert_ne!(id(&one), id(&other));
}

#[test]
fn times_after_2106_stand_for_every_later_time() {
    let (revocations, session) = (Revocations::new(false), id());
    let far = u64::from(u32::MAX) + 5;
    revocations.record(&logged_out(session, far), at(0));
    revocations.record(&logged_out(id(), 10), at(far));
    assert_eq!(cause_of(&revocations, session, far), Some(Cause::LoggedOut));
}

/// A measurement: `cargo test --lib memory_of_ -- --ignored --nocapture`. The expected bytes are the figures of
/// `docs/capacity.md`.
#[test]
#[ignore = "measures the memory of the whole process: run it alone"]
fn memory_of_the_table() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    };
    let (revocations, before) = (Revocations::new(false), resident());
    let mut number = 0_u128;
    for (count, documented) in [(1_000_000, 69_000_000), (CAPACITY, 132_000_000)] {
        while revocations.count() < count {
            number += 1;
            let ended = Revocation {
                id: RevocationId::from_bytes(number.to_be_bytes()),
                ..logged_out(SessionId::DUMMY, 1_000)
            };
            revocations.record(&ended, at(0));
        }
        let bytes = resident() - before;
        println!("{count} ends: {bytes} bytes, {} for each", bytes / count);
        let range = documented / 10 * 9..=documented / 10 * 11;
        assert!(range.contains(&bytes), "{count} ends: {bytes} bytes");
    }
}
