//! What of the suite of the API depends on the IAM, through the Keycloak adapter, with a new mock for each test.

use std::sync::Arc;

use test_support::suite::{self, IamFixture};

use super::RunningMock;
use super::administrator::administrator;

fn fixture() -> IamFixture {
    IamFixture::new(|clock| Arc::new(administrator(&Arc::new(RunningMock::new(clock)), None)))
}

macro_rules! over_the_wire {
    ($($module:ident::$test:ident,)*) => {$(
        #[tokio::test]
        async fn $test() {
            suite::$module::$test(&fixture()).await;
        }
    )*};
}

suite::for_each_test!(over_the_wire);
