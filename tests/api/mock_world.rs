//! The API suite over the bundled mock, a new one for each promise.

use std::sync::Arc;

use mock_iam::MockFixture;
use test_support::suite::{self, World};

/// The gateways before an empty mock, all by one clock.
pub(crate) fn mock_world() -> World {
    World::new(|clock| Arc::new(MockFixture::new(clock, |mock| mock)))
}

macro_rules! hold_over_the_mock {
    ($($room:ident::$promise:ident,)*) => {$(
        #[tokio::test]
        async fn $promise() {
            suite::$room::$promise(&mock_world()).await;
        }
    )*};
}

suite::for_every_promise!(hold_over_the_mock);
