//! The gateway with a real OpenLDAP. Each test starts its own server.

mod directory;
mod logins;
mod sessions;

use directory::Directory;
use test_support::suite::{self, IamFixture};

#[tokio::test]
#[ignore = "needs a real OpenLDAP: tests/run installs it"]
async fn adapter_passes_the_conformance_suite() {
    iam_conformance::all(&Directory::start().await).await;
}

macro_rules! over_openldap {
    ($($module:ident::$test:ident,)*) => {
        mod api_suite {
            use super::*;

            $(
                #[tokio::test]
                #[ignore = "needs a real OpenLDAP: tests/run installs it"]
                async fn $test() {
                    let directory = std::sync::Arc::new(Directory::start().await);
                    suite::$module::$test(&IamFixture::new(|_| directory)).await;
                }
            )*
        }
    };
}

suite::for_each_test!(over_openldap);
