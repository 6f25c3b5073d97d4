//! The listening sockets that a service manager passes to the process (socket activation,
//! `sd_listen_fds(3)`).

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

/// The sockets that the service manager has opened for this process. It keeps them open while the
/// process restarts, so that no connection is refused.
#[derive(Debug, Default)]
pub struct PassedSockets(Vec<(String, SocketAddr, TcpListener)>);

/// Why the passed sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PassedSocketError {
    /// It is for none of the listeners.
    #[error("the service manager passes a socket named {name:?}; possible names: {possible}")]
    Unknown {
        /// Its name.
        name: String,
        /// The names of the listeners.
        possible: String,
    },
    /// A listener has one socket.
    #[error("the service manager passes several sockets named {0:?}; only one is possible")]
    Several(String),
    /// It is, for example, a Unix or a UDP socket.
    #[error("the service manager passes a socket named {name:?} that is no TCP socket")]
    NotTcp {
        /// Its name.
        name: String,
        /// The cause.
        source: io::Error,
    },
}

impl PassedSockets {
    /// Takes the sockets that were passed to this process, if any. `names` are those of the
    /// listeners, and `passed_names` is the variable `LISTEN_FDNAMES`. Call it before other threads
    /// run: it removes variables of the environment.
    ///
    /// # Errors
    ///
    /// A socket is not for one of the listeners.
    pub fn take(names: &[&str], passed_names: Option<&str>) -> Result<Self, PassedSocketError> {
        let mut passed = ListenFd::from_env();
        let mut passed_names = passed_names.unwrap_or_default().split(':');
        let mut sockets: Vec<(String, SocketAddr, TcpListener)> = Vec::new();
        let with_address = |socket: TcpListener| Ok((socket.local_addr()?, socket));
        for index in 0..passed.len() {
            let name = passed_names.next().unwrap_or_default().to_owned();
            if !names.contains(&name.as_str()) {
                let possible = names.join(", ");
                return Err(PassedSocketError::Unknown { name, possible });
            }
            if sockets.iter().any(|(other, ..)| *other == name) {
                return Err(PassedSocketError::Several(name));
            }
            let taken = passed.take_tcp_listener(index);
            match taken.and_then(|socket| socket.map(with_address).transpose()) {
                Ok(socket) => {
                    sockets.extend(socket.map(|(address, socket)| (name, address, socket)));
                }
                Err(source) => return Err(PassedSocketError::NotTcp { name, source }),
            }
        }
        Ok(Self(sockets))
    }

    /// The socket of a listener, ready for a runtime; `None`: the listener binds its address.
    ///
    /// # Errors
    ///
    /// The system refuses another descriptor of the socket.
    pub fn get(&self, name: &str) -> io::Result<Option<TcpListener>> {
        let socket = self.0.iter().find(|(other, ..)| other == name);
        let socket = socket.map(|(.., socket)| socket.try_clone()).transpose()?;
        if let Some(socket) = &socket {
            socket.set_nonblocking(true)?;
        }
        Ok(socket)
    }

    /// The address of that socket; `None`: the listener binds its own.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<SocketAddr> {
        let socket = self.0.iter().find(|(other, ..)| other == name);
        socket.map(|(_, address, _)| *address)
    }
}
