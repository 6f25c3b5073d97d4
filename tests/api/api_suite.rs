//! The suite of the API over the in-memory IAM, a new one for each test.

use test_support::suite::{self, IamFixture};

macro_rules! over_the_mock {
    ($($module:ident::$test:ident,)*) => {$(
        #[tokio::test]
        async fn $test() {
            suite::$module::$test(&IamFixture::in_memory()).await;
        }
    )*};
}

suite::for_each_test!(over_the_mock);
suite::for_each_test_of_any_iam!(over_the_mock);
