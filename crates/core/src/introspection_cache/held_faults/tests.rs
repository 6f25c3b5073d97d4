use super::super::tests::at;
use super::*;
use crate::session_id::SessionId;

fn session(content: u64) -> SessionKey {
    SessionKey {
        id: SessionId::DUMMY,
        content,
    }
}

fn fault() -> IamError {
    IamError::Failed("500".to_owned())
}

#[test]
fn faults_that_are_over_are_removed_when_another_session_is_looked_up() {
    let held = HeldFaults::default();
    let count = || held.0.lock().by_session.len();
    held.hold(session(0), at(0), fault());
    held.hold(session(1), at(999), fault());
    assert_eq!(count(), 2);
    assert_eq!(held.get(&session(2), at(1_000)), None);
    assert_eq!(count(), 1);
    assert_eq!(held.get(&session(1), at(1_998)), Some(fault()));
    // The last removal was less than a second ago.
    assert_eq!(held.get(&session(1), at(1_999)), None);
    assert_eq!(count(), 1);
    assert_eq!(held.get(&session(2), at(2_000)), None);
    assert_eq!(count(), 0);
    assert_eq!(held.0.lock().by_session.capacity(), 0);
}

#[test]
fn faults_without_room_are_not_held() {
    let (held, capacity) = (HeldFaults::default(), u64::try_from(CAPACITY).unwrap());
    for content in 0..=capacity {
        held.hold(session(content), at(0), fault());
    }
    assert_eq!(held.get(&session(capacity - 1), at(0)), Some(fault()));
    assert_eq!(held.get(&session(capacity), at(0)), None);
    held.hold(session(capacity), at(1_000), fault());
    assert_eq!(held.get(&session(capacity), at(1_000)), Some(fault()));
}
