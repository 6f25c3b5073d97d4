use std::task::{Context, Poll, Waker};

use tokio::time::advance;

use super::*;

fn crowd(most: usize) -> Rc<Crowd> {
    Crowd::new(most, &Metrics::default())
}

fn leaves(place: &Place) -> bool {
    place.turn().is_leaving(Waker::noop())
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_once_its_connection_is_gone() {
    let crowd = crowd(2);
    let places = [crowd.join(), crowd.join()].map(|place| place.expect("a place"));
    for place in &places {
        place.turn().take();
    }
    assert!(crowd.join().is_none());
    drop(places);
    assert!(crowd.join().is_some());
    assert_eq!(crowd.shed.full.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_the_longest_leaves_first_and_those_without_an_answer_before_the_others() {
    let crowd = crowd(5);
    let join = async || {
        advance(Duration::from_secs(1)).await;
        crowd.join().expect("a place")
    };
    let (served, busy, silent, owing) = (join().await, join().await, join().await, join().await);
    served.turn().pass(Instant::now());
    busy.turn().take();
    owing.turn().take();
    owing.turn().lend(Instant::now());
    let leaving = || [&served, &busy, &silent, &owing].map(leaves);
    assert_eq!(leaving(), [false; 4]);
    for expected in [
        [false, false, true, false],
        [false, false, true, true],
        [true, false, true, true],
        [true, false, true, true],
    ] {
        // Newcomers whose requests are there at once.
        let newcomer = crowd.join();
        if let Some(newcomer) = &newcomer {
            newcomer.turn().take();
        }
        assert_eq!(leaving(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_came_meanwhile_keeps_its_place() {
    let crowd = crowd(2);
    let first = crowd.join().expect("a place");
    let second = crowd.join().expect("a place");
    second.turn().take();
    assert!(leaves(&first));
    first.turn().take();
    first.turn().pass(Instant::now());
    assert!(!leaves(&first));
}

#[tokio::test(start_paused = true)]
async fn many_are_asked_at_once_and_as_many_as_came() {
    let crowd = crowd(800);
    let mut places: Vec<_> = (0..100).map_while(|_| crowd.join()).collect();
    advance(Duration::from_secs(1)).await;
    places.extend((0..600).map_while(|_| crowd.join()));
    let leaving = |places: &[Place]| places.iter().filter(|place| leaves(place)).count();
    assert_eq!((places.len(), leaving(&places)), (700, 0));
    places.extend((0..24).map_while(|_| crowd.join()));
    assert_eq!(leaving(&places), 0, "a few do not matter");
    places.extend((0..76).map_while(|_| crowd.join()));
    assert_eq!((places.len(), leaving(&places)), (800, 100));
    assert!(places[..100].iter().all(leaves), "not the first of them");
}

#[tokio::test]
async fn a_request_is_late_while_the_marker_from_before_it_is_still_in_the_queue() {
    const KEEPS_UP: Duration = Duration::from_millis(5);
    let crowd = crowd(2);
    let place = crowd.join().expect("a place");
    let late = || place.turn().waited_longer_than(KEEPS_UP);
    let mut measuring = Box::pin(Crowd::measure(Rc::downgrade(&crowd), KEEPS_UP));
    let mut cx = Context::from_waker(Waker::noop());
    let mut measure = || measuring.as_mut().poll(&mut cx);

    assert_eq!(measure(), Poll::Pending);
    assert!(!late(), "nothing is known yet");
    // The thread holds its breath; the timer can ring only once the runtime has looked at it.
    std::thread::sleep(10 * KEEPS_UP);
    tokio::time::sleep(KEEPS_UP).await;
    assert_eq!(measure(), Poll::Pending);
    assert!(!late(), "the marker has only just been put there");
    std::thread::sleep(2 * KEEPS_UP);
    assert!(late());
    // It comes out late as well, so another takes its place; that one comes out at once.
    assert_eq!(measure(), Poll::Pending);
    assert!(!late());
    drop(crowd);
}
