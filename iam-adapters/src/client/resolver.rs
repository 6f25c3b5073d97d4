//! Name resolution in which connections that are opened at the same time share a look-up.
//!
//! The look-up of the operating system blocks, so each takes a thread. When an IAM returns after an outage, many connections
//! are opened at once. Each would start a thread, whose memory the process keeps, and ask the name server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

use crate::clock::Clock;
use crate::single_flight::{Flight, SingleFlight};

/// How long a look-up is joined. Later connections begin another one: a name server that lost the question may respond to the
/// next one, long before the operating system repeats it.
const JOINED_FOR: Duration = Duration::from_secs(1);

/// The addresses of a name, without a port.
type Addresses = Result<Vec<SocketAddr>, Arc<io::Error>>;

/// Looks names up with the operating system.
#[derive(derive_more::Debug)]
#[debug("SharedResolver {{ .. }}")]
pub(super) struct SharedResolver {
    look_up: fn(String) -> BoxFuture<'static, Addresses>,
    running: SingleFlight<String, Addresses>,
    clock: Arc<dyn Clock>,
}

impl SharedResolver {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            look_up: |name| system_look_up(name).boxed(),
            running: SingleFlight::default(),
            clock,
        }
    }

    /// The running look-up of this name, or else a new one.
    fn join_or_start(&self, name: &str) -> Flight<Addresses> {
        let now = self.clock.now();
        self.running.join_or_start(
            name.to_owned(),
            now,
            |began| now.since(began) < JOINED_FOR,
            || None,
            || (self.look_up)(name.to_owned()),
        )
    }
}

async fn system_look_up(name: String) -> Addresses {
    let addresses = lookup_host((name, 0)).await.map_err(Arc::new)?;
    Ok(addresses.collect())
}

impl Resolve for SharedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let look_up = self.join_or_start(name.as_str()).result;
        Box::pin(async move {
            let addresses = look_up.await??;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::clock::SystemClock;
    use crate::clock::tests::ManualClock;

    const ADDRESS: &str = "192.0.2.1:0";

    async fn slow_look_up(name: String) -> Addresses {
        sleep(Duration::from_secs(3)).await;
        if name == "iam.test" {
            return Ok(vec![ADDRESS.parse().expect("an address")]);
        }
        Err(Arc::new(io::Error::other("no such name")))
    }

    fn resolver() -> (SharedResolver, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let resolver = SharedResolver {
            look_up: |name| slow_look_up(name).boxed(),
            ..SharedResolver::new(Arc::<ManualClock>::clone(&clock))
        };
        (resolver, clock)
    }

    async fn resolved(resolver: &SharedResolver, name: &str) -> Result<Vec<String>, String> {
        let resolving = resolver.resolve(name.parse().expect("a name"));
        let addresses = resolving.await.map_err(|error| error.to_string())?;
        Ok(addresses.map(|address| address.to_string()).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn look_up_is_joined_while_it_runs_for_a_second() {
        let (resolver, clock) = resolver();
        let is_joined = |name: &str| resolver.join_or_start(name).is_joined;
        assert!(!is_joined("iam.test"));
        clock.advance(Duration::from_millis(999));
        assert!(is_joined("iam.test"));
        assert!(!is_joined("other.test"));
        clock.advance(Duration::from_millis(1));
        assert!(!is_joined("iam.test"));
        assert!(is_joined("iam.test"));
        resolved(&resolver, "iam.test").await.expect("addresses");
        assert!(!is_joined("iam.test"), "names change");
    }

    #[tokio::test(start_paused = true)]
    async fn all_that_join_a_look_up_get_its_result() {
        let (resolver, _) = resolver();
        let begun = Instant::now();
        for (name, expected) in [
            ("iam.test", Ok(vec![ADDRESS.to_owned()])),
            ("other.test", Err("no such name".to_owned())),
        ] {
            let [first, second] = [resolved(&resolver, name), resolved(&resolver, name)];
            let (first, second) = tokio::join!(first, second);
            assert_eq!(first, expected);
            assert_eq!(second, expected);
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(6));
    }

    #[tokio::test]
    async fn operating_system_is_asked() {
        let resolver = SharedResolver::new(Arc::new(SystemClock::default()));
        let addresses = resolved(&resolver, "localhost").await;
        let addresses = addresses.expect("addresses");
        let is_loopback = |address: &String| address == "127.0.0.1:0" || address == "[::1]:0";
        assert!(!addresses.is_empty() && addresses.iter().all(is_loopback));
    }
}
