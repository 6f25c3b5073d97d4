//! The API suite through the Keycloak adapter, before a mock of its own for each promise.

use std::sync::Arc;

use test_support::suite::{self, World};

use super::Standing;
use super::administrator::Administrator;

fn world() -> World {
    World::new(|clock| Arc::new(Administrator::of(Standing::new(clock), None)))
}

macro_rules! hold_over_the_wire {
    ($($room:ident::$promise:ident,)*) => {$(
        #[tokio::test]
        async fn $promise() {
            suite::$room::$promise(&world()).await;
        }
    )*};
}

suite::for_every_promise!(hold_over_the_wire);
