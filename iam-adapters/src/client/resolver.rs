//! Name resolution in which connections that are opened at the same time share a look-up.
//!
//! The look-up of the operating system blocks, so each takes a thread. When an IAM returns after an outage, many connections
//! are opened at once. Each would start a thread, whose memory the process keeps, and ask the name server.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;
use tokio::time::Instant;

/// How long a look-up is joined. Later connections begin another one: a name server that lost the question may respond to the
/// next one, long before the operating system repeats it.
const JOINED_FOR: Duration = Duration::from_secs(1);

/// The addresses of a name, without a port.
type LookUp = BoxFuture<'static, Result<Vec<SocketAddr>, Arc<io::Error>>>;

/// Looks names up with the operating system.
#[derive(derive_more::Debug)]
#[debug("SharedResolver {{ .. }}")]
pub(super) struct SharedResolver {
    look_up: fn(String) -> LookUp,
    /// The latest look-up of each name, and when it began.
    running: Mutex<HashMap<String, (Instant, WeakShared<LookUp>)>>,
}

impl SharedResolver {
    pub(super) fn new() -> Self {
        Self::with(|name| {
            async {
                let addresses = lookup_host((name, 0)).await.map_err(Arc::new)?;
                Ok(addresses.collect())
            }
            .boxed()
        })
    }

    fn with(look_up: fn(String) -> LookUp) -> Self {
        Self {
            look_up,
            running: Mutex::default(),
        }
    }

    /// The running look-up of this name, or else a new one.
    fn joined(&self, name: &str) -> Shared<LookUp> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((begun, look_up)) = running.get(name)
            && begun.elapsed() < JOINED_FOR
            && let Some(look_up) = look_up.upgrade()
        {
            return look_up;
        }
        let look_up = (self.look_up)(name.to_owned()).shared();
        if let Some(joinable) = look_up.downgrade() {
            running.insert(name.to_owned(), (Instant::now(), joinable));
        }
        look_up
    }
}

impl Resolve for SharedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let look_up = self.joined(name.as_str());
        Box::pin(async move {
            let addresses = look_up.await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    const ADDRESS: &str = "192.0.2.1:0";

    /// Takes three seconds.
    fn slow(name: String) -> LookUp {
        async move {
            sleep(Duration::from_secs(3)).await;
            if name == "iam.test" {
                return Ok(vec![ADDRESS.parse().expect("an address")]);
            }
            Err(Arc::new(io::Error::other("no such name")))
        }
        .boxed()
    }

    async fn resolved(resolver: &SharedResolver, name: &str) -> Result<Vec<String>, String> {
        let resolving = resolver.resolve(name.parse().expect("a name"));
        let addresses = resolving.await.map_err(|error| error.to_string())?;
        Ok(addresses.map(|address| address.to_string()).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn look_up_is_joined_while_it_runs_for_a_second() {
        let resolver = SharedResolver::with(slow);
        let first = resolver.joined("iam.test");
        advance(Duration::from_millis(999)).await;
        assert!(first.ptr_eq(&resolver.joined("iam.test")));
        assert!(!first.ptr_eq(&resolver.joined("other.test")));
        advance(Duration::from_millis(1)).await;
        let second = resolver.joined("iam.test");
        assert!(!first.ptr_eq(&second));
        assert!(second.ptr_eq(&resolver.joined("iam.test")));
        drop((first, second));
        assert!(resolver.joined("iam.test").peek().is_none(), "a new one");
    }

    #[tokio::test(start_paused = true)]
    async fn all_that_join_a_look_up_get_its_result() {
        let resolver = SharedResolver::with(slow);
        let begun = Instant::now();
        let (first, second) = tokio::join!(
            resolved(&resolver, "iam.test"),
            resolved(&resolver, "iam.test")
        );
        assert_eq!(first.expect("addresses"), [ADDRESS]);
        assert_eq!(second.expect("addresses"), [ADDRESS]);
        let unknown = resolved(&resolver, "other.test").await;
        assert_eq!(unknown.expect_err("no address"), "no such name");
        assert_eq!(begun.elapsed(), Duration::from_secs(6));
        // The next one is another look-up: names change.
        resolved(&resolver, "iam.test").await.expect("addresses");
        assert_eq!(begun.elapsed(), Duration::from_secs(9));
    }

    #[tokio::test]
    async fn operating_system_is_asked() {
        let addresses = resolved(&SharedResolver::new(), "localhost").await;
        let addresses = addresses.expect("addresses");
        let is_loopback = |address: &String| address == "127.0.0.1:0" || address == "[::1]:0";
        assert!(!addresses.is_empty() && addresses.iter().all(is_loopback));
    }
}
