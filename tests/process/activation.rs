//! Sockets that the service manager passes (socket activation): their use, restarts and mistakes.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use test_support::endpoints::LOGIN;
use test_support::gateway::scripted_keycloak_settings;
use test_support::program::Program;
use test_support::wire::{ALICE, Connection, fetch, get, post};

use crate::GATEWAY;

/// Sets `LISTEN_PID` as a service manager does, and passes standard input as the first sockets.
const SCRIPT: &str = r#"export LISTEN_PID=$$; exec "$0" 3<&0 4<&0 0</dev/null"#;

/// Starts a gateway with a socket under these names, as `LISTEN_FDNAMES` has them.
fn serve_with(socket: io::Result<OwnedFd>, names: &str, settings: &[(&str, &str)]) -> Program {
    let gateway = GATEWAY.command(&[], settings);
    let mut command = Command::new("/bin/sh");
    let count = names.split(':').count().to_string();
    command
        .args(["-c", SCRIPT, GATEWAY.path])
        .env_clear()
        .envs(
            gateway
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .envs([("LISTEN_FDS", count.as_str()), ("LISTEN_FDNAMES", names)])
        .stdin(Stdio::from(socket.expect("a socket")));
    Program::start(command)
}

/// Starts a gateway with the socket of its public listener.
fn serve(socket: &TcpListener) -> Program {
    let settings = [
        ("http.listen", "127.0.0.1:1"),
        ("management.listen", "127.0.0.1:0"),
    ];
    serve_with(socket.try_clone().map(OwnedFd::from), "http", &settings)
}

fn listen() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

#[test]
fn passed_socket_replaces_the_address_of_the_settings_and_the_other_listener_is_bound() {
    let (socket, address) = listen();
    let mut program = serve(&socket);
    let (public, management) = program.addresses();
    assert_eq!(public, address);
    let answer = fetch(public, post(LOGIN, ALICE));
    assert_eq!(answer.status, 200);
    let live = fetch(management, get("/health/live"));
    assert_eq!(live.status, 200);
}

#[test]
fn management_listener_can_have_a_passed_socket() {
    let (socket, address) = listen();
    let unused = [("http.listen", "127.0.0.1:0")];
    let mut program = serve_with(Ok(OwnedFd::from(socket)), "management", &unused);
    let (public, management) = program.addresses();
    assert_eq!(management, address);
    assert_ne!(public, address);
    let live = fetch(management, get("/health/live"));
    assert_eq!(live.status, 200);
}

#[test]
fn connections_during_a_restart_wait_for_the_next_process() {
    let (socket, address) = listen();
    let mut first = Connection::to(address);
    first.send(post(LOGIN, ALICE));
    let mut program = serve(&socket);
    assert_eq!(first.answer().status, 200);
    program.signal("TERM");
    program.logged("stopped");
    assert_eq!(program.wait().code, Some(0));

    let mut waiting = Connection::to(address);
    waiting.send(post(LOGIN, ALICE));
    let _next = serve(&socket);
    assert_eq!(waiting.answer().status, 200);
}

#[test]
fn connection_that_is_accepted_during_the_stop_gets_its_response() {
    let (socket, address) = listen();
    let mut program = serve(&socket);
    program.addresses();
    // It finds the connection and the signal at the same time.
    program.signal("STOP");
    let mut accepted = Connection::to(address);
    accepted.send(post(LOGIN, ALICE));
    program.signal("TERM");
    program.signal("CONT");
    assert_eq!(accepted.answer().status, 200);
    assert_eq!(program.wait().code, Some(0));
}

#[test]
fn passed_socket_that_other_machines_can_reach_needs_what_such_an_address_needs() {
    let keycloak = scripted_keycloak_settings("http://127.0.0.1:1");
    for (name, settings, missing) in [
        ("http", &[][..], ""),
        ("http", &keycloak, ""),
        ("management", &[], ", iam.mock.users_file"),
    ] {
        let socket = TcpListener::bind("0.0.0.0:0").expect("a port");
        let address = socket.local_addr().expect("an address");
        let ended = serve_with(Ok(OwnedFd::from(socket)), name, settings).wait();
        assert_eq!(ended.code, Some(64), "{ended:?}");
        let message = format!(
            "the passed socket {name:?}: {address} can be reached from other machines; for that also set \
             keys.signing_dir, keys.sealing_dir{missing}"
        );
        assert!(ended.err.contains(&message), "{ended:?}");
        assert!(!ended.out.contains("listening"), "{ended:?}");
    }
}

#[test]
fn passed_socket_that_no_listener_can_use_prevents_the_start() {
    let tcp = || listen().0.try_clone().map(OwnedFd::from);
    let udp = UdpSocket::bind("127.0.0.1:0").map(OwnedFd::from);
    for (socket, names, message) in [
        (
            tcp(),
            "web",
            r#"a socket named "web"; possible names: http, management"#,
        ),
        (
            tcp(),
            "",
            r#"a socket named ""; possible names: http, management"#,
        ),
        (
            tcp(),
            "http:http",
            r#"several sockets named "http"; only one is possible"#,
        ),
        (
            udp,
            "http",
            r#"a socket named "http" that is no TCP socket"#,
        ),
    ] {
        let ended = serve_with(socket, names, &[]).wait();
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.err.contains(message), "{ended:?}");
        assert!(!ended.out.contains("listening"), "{ended:?}");
    }
}
