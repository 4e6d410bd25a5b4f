//! The page of the root's daemon, at an address of this host: the daemon listens inside its node, where no
//! browser is.
//!
//! A socket belongs to the network in which it was made. This program makes one here and hands it, as the
//! standard input, to itself inside the node; there each connection is joined with one to the daemon.

use super::DemoError;
use arborcast_tests::{Grid, GridError};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Where the daemon listens inside its node.
pub const INSIDE: &str = "127.0.0.1:8430";
/// The flag that makes this program what is inside the node.
pub const JOIN: &str = "--join";

/// Serves as long as this value lives.
pub struct Served {
    child: Child,
    pub address: SocketAddr,
}

impl Served {
    /// On loopback only: whoever reaches this address needs no token.
    pub fn start(grid: &Grid, node: &str, port: u16) -> Result<Self, DemoError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let io = |source| DemoError::Io { what: format!("the page at {address}"), source };
        let listener = TcpListener::bind(address).map_err(io)?;
        let address = listener.local_addr().map_err(io)?;
        let program = std::env::current_exe().map_err(io)?;
        let mut command: Command = grid.lab().exec(node, program).map_err(GridError::from)?;
        command.arg(JOIN).stdin(Stdio::from(OwnedFd::from(listener)));
        gridlab::die_with_parent(&mut command);
        Ok(Served { child: command.spawn().map_err(io)?, address })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is inside the node; ends with its parent.
pub fn join_standard_input() -> io::Result<()> {
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let to = INSIDE.parse().map_err(io::Error::other)?;
    join(&listener, to)
}

fn join(listener: &TcpListener, to: SocketAddr) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((browser, _)) => drop(thread::spawn(move || join_one(browser, to))),
            // Out of descriptors, most likely: not to be tried again at once.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn join_one(mut browser: TcpStream, to: SocketAddr) -> io::Result<()> {
    let mut page = TcpStream::connect(to)?;
    let (mut from_browser, mut to_page) = (browser.try_clone()?, page.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_browser, &mut to_page);
        to_page.shutdown(Shutdown::Write)
    });
    let _ = io::copy(&mut page, &mut browser);
    browser.shutdown(Shutdown::Both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn what_a_browser_says_is_answered_and_both_ends_are_told() {
        let page = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (to, at) = (page.local_addr().unwrap(), outside.local_addr().unwrap());
        thread::spawn(move || join(&outside, to));
        for number in 0..3 {
            let mut browser = TcpStream::connect(at).unwrap();
            write!(browser, "question {number}").unwrap();
            browser.shutdown(Shutdown::Write).unwrap();
            let (mut asked, _) = page.accept().unwrap();
            let (mut question, mut answer) = (String::new(), String::new());
            asked.read_to_string(&mut question).unwrap();
            write!(asked, "answer to {question}").unwrap();
            drop(asked);
            browser.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, format!("answer to question {number}"));
        }
    }
}
