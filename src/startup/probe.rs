//! Asks the IAM from time to time, so that readiness does not wait for a user to find out. What
//! comes of it the guard's observer hears.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use iam_adapters::{Guarded, IamAdapter as _};

use crate::mock::Namespaces;

/// Whom to ask.
pub(super) enum Probed {
    /// The one IAM.
    One(Arc<Guarded>),
    /// That of each namespace.
    Each(Arc<Namespaces>),
}

impl Probed {
    /// Asks, and asks again after so long, without end.
    pub(super) async fn run(self, interval: Duration) {
        loop {
            match &self {
                Self::One(iam) => {
                    let _ = iam.probe().await;
                }
                Self::Each(namespaces) => {
                    join_all(namespaces.all().iter().map(async |world| {
                        if let Some(house) = &world.house {
                            let _ = house.iam.probe().await;
                        }
                    }))
                    .await;
                }
            }
            tokio::time::sleep(interval).await;
        }
    }
}
