use std::sync::Arc;

use super::*;

fn call(operation: Operation, user: &str, outcome: Outcome) -> Call {
    Call {
        operation,
        user: Some(user.to_owned()),
        subject: None,
        session: None,
        request_id: Some(format!("r-{user}")),
        client_address: None,
        outcome,
        fault: None,
        took: Duration::ZERO,
    }
}

fn written() -> Journal {
    let journal = Journal::default();
    for (operation, user, outcome) in [
        (Operation::Login, "alice@x", Outcome::Ok),
        (Operation::Login, "bob@x", Outcome::Refused(Refusal::Locked)),
        (Operation::Introspection, "alice@x", Outcome::Inactive),
        (Operation::Logout, "alice@x", Outcome::Fault("timed_out")),
    ] {
        journal.record(Duration::ZERO, call(operation, user, outcome));
    }
    journal
}

fn numbers(journal: &Journal, filter: &Filter) -> Vec<u64> {
    let found = journal.select(filter, usize::MAX);
    found.entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn filter_members_are_combined_with_and() {
    let journal = written();
    let text = |text: &str| Some(text.to_owned());
    let with = |change: &dyn Fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        filter
    };
    for (filter, found) in [
        (with(&|_| {}), &[1, 2, 3, 4][..]),
        (with(&|f| f.operation = Some(Operation::Login)), &[1, 2]),
        (with(&|f| f.user = text("ALICE@x")), &[1, 3, 4]),
        (with(&|f| (f.user, f.after) = (text("alice@x"), 1)), &[3, 4]),
        (with(&|f| f.outcome = text("refused")), &[2]),
        (with(&|f| f.outcome = text("timed_out")), &[4]),
        (with(&|f| f.request_id = text("r-bob@x")), &[2]),
        (with(&|f| f.user = text("carol@x")), &[]),
        (with(&|f| f.after = 4), &[]),
    ] {
        assert_eq!(numbers(&journal, &filter), found, "{filter:?}");
        assert_eq!(journal.select(&filter, 0).count, found.len(), "{filter:?}");
    }
    let newest = journal.select(&Filter::default(), 2);
    assert_eq!(
        (newest.count, newest.last, newest.entries[0].number),
        (4, 4, 3)
    );
}

#[test]
fn oldest_entries_are_dropped_and_counted() {
    let journal = Journal::default();
    for _ in 0..KEPT + 3 {
        journal.record(Duration::ZERO, call(Operation::Login, "a@x", Outcome::Ok));
    }
    let found = journal.select(&Filter::default(), 1);
    assert_eq!((found.count, found.forgotten), (KEPT, 3));
    assert_eq!(journal.calls(), KEPT as u64 + 3);
    journal.clear();
    assert_eq!(journal.calls(), 0);
    journal.record(Duration::ZERO, call(Operation::Login, "a@x", Outcome::Ok));
    assert_eq!(numbers(&journal, &Filter::default()), [KEPT as u64 + 4]);
}

#[tokio::test(start_paused = true)]
async fn wait_ends_with_the_missing_call() {
    let journal = Arc::new(written());
    let logins = Filter {
        operation: Some(Operation::Login),
        ..Filter::default()
    };
    let minute = Duration::from_secs(60);
    let (reached, found) = journal.wait(&logins, 2, 10, minute).await;
    assert_eq!((reached, found.count), (true, 2));

    let waiting = tokio::spawn({
        let (journal, logins) = (Arc::clone(&journal), logins.clone());
        async move { journal.wait(&logins, 4, 10, minute).await }
    });
    for _ in 0..2 {
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        journal.record(Duration::ZERO, call(Operation::Logout, "a@x", Outcome::Ok));
        journal.record(Duration::ZERO, call(Operation::Login, "a@x", Outcome::Ok));
    }
    let (reached, found) = waiting.await.expect("ends");
    assert_eq!((reached, found.count), (true, 4));
}

#[tokio::test(start_paused = true)]
async fn wait_that_times_out_returns_the_entries_so_far() {
    let journal = written();
    let (reached, found) = journal
        .wait(&Filter::default(), 5, 10, Duration::from_secs(5))
        .await;
    assert_eq!((reached, found.count), (false, 4));
}
