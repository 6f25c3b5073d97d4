//! The network between the replicas and Redis: delays, stalls and broken connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use auth_gateway_replication::Connecting;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::{sleep, timeout};

use crate::plan::Disturbance;
use crate::resp::take_command;
use crate::simulation::World;

/// More than the gateway ever sends at once.
const BUFFER: usize = 1 << 20;

/// That of the gateway, which its client of Redis applies.
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// A process of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    /// The replica.
    pub(crate) at: usize,
    /// The number of restarts before.
    pub(crate) start: u32,
}

/// A connection of a process to a server, by its number.
#[derive(Debug, Clone, Copy)]
struct Link {
    process: Process,
    server: usize,
}

/// Connects a process to the server that is the primary now.
pub(crate) fn connect(
    world: &Arc<World>,
    process: Process,
    client: Client,
    config: AsyncConnectionConfig,
) -> Connecting {
    let world = Arc::clone(world);
    Box::pin(async move {
        let opened = timeout(CONNECT_DEADLINE, open(&world, process, &client, config)).await;
        opened.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    })
}

async fn open(
    world: &Arc<World>,
    process: Process,
    client: &Client,
    config: AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    let server = world.state().servers.len() - 1;
    let link = Link { process, server };
    if !cross(world, link).await {
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    }
    let (near, far) = duplex(BUFFER);
    tokio::spawn(serve(Arc::clone(world), link, far));
    let user = client.get_connection_info().redis_settings();
    let (connection, driver) = MultiplexedConnection::new_with_config(user, near, config).await?;
    tokio::spawn(driver);
    Ok(connection)
}

/// Responds to commands until the connection ends.
async fn serve(world: Arc<World>, link: Link, mut stream: DuplexStream) {
    let mut bytes = Vec::new();
    loop {
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
        let commands: Vec<_> = std::iter::from_fn(|| take_command(&mut bytes)).collect();
        if commands.is_empty() {
            continue;
        }
        // What a process has sent may arrive after its end.
        let arrives = cross(&world, link).await || !world.is_running(link.process) && world.coin();
        if !arrives {
            return;
        }
        let mut replies = Vec::new();
        for command in &commands {
            world
                .state()
                .execute(link.server, link.process, command)
                .write(&mut replies);
        }
        if !cross(&world, link).await || stream.write_all(&replies).await.is_err() {
            return;
        }
        if commands.iter().any(|command| command[0] == b"TIME") {
            world.state().measured(link.process);
        }
    }
}

/// A message crosses the network. `false`: it is lost, and so is the connection.
async fn cross(world: &World, link: Link) -> bool {
    let sent = world.time.now();
    let delay = world.state().redis_delay(link.process.at);
    if !delay.is_zero() {
        sleep(delay).await;
    }
    loop {
        let now = world.time.now();
        let disturbed = world.state().disturbed[link.process.at];
        match disturbed.filter(|(_, until)| now < *until) {
            Some((Disturbance::Broken, _)) => return false,
            Some((Disturbance::Stalled, _)) => sleep(Duration::from_millis(10)).await,
            Some((Disturbance::Slow, _)) | None => break,
        }
    }
    let now = world.time.now();
    let mut state = world.state();
    state.longest_delay = state.longest_delay.max(now.saturating_sub(sent));
    state.is_running(link.process) && now < state.servers[link.server].ends_at
}
