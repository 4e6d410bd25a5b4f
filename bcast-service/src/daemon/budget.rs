//! What clients may take of the daemon: connections, and memory for messages under way. Without I/O.
//!
//! A user may have as many connections as are still free, so one user gets half of them, and however
//! many users take all they can, the next one still finds some. The daemon's own user and root are not
//! limited, but counted: they could end the daemon anyway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections at a time, where the limit on descriptors allows them. An MPI process has one only once
/// it was the root of a broadcast.
pub const MAX_CONNECTIONS: usize = 16_384;
/// Bytes of messages under way, of all users and of one.
const MAX_BYTES: usize = 128 << 20;
const MAX_USER_BYTES: usize = 32 << 20;

/// Why something is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    #[error("the user has {0} connections; more would leave too few for others")]
    Connections(usize),
    #[error("the user's messages under way have {0} bytes already")]
    UserBytes(usize),
    #[error("all messages under way have {0} bytes already")]
    Bytes(usize),
}

/// Who a client is, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    /// The daemon's own user, or root.
    pub trusted: bool,
}

#[derive(Debug, Default)]
struct Used {
    connections: usize,
    bytes: usize,
}

#[derive(Debug)]
struct State {
    max_connections: usize,
    connections: usize,
    bytes: usize,
    /// None of them with nothing.
    users: HashMap<u32, Used>,
}

/// What has been given to whom.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Mutex<State>>);

/// A connection; given back when it is dropped.
#[derive(Debug)]
pub struct Seat {
    budget: Budget,
    user: User,
}

/// Memory of a message; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    uid: u32,
    bytes: usize,
}

impl Budget {
    pub fn new(max_connections: usize) -> Self {
        let users = HashMap::new();
        Budget(Arc::new(Mutex::new(State { max_connections, connections: 0, bytes: 0, users })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// `Connections` where a user has as many as are still free.
    pub fn seat(&self, user: User) -> Result<Seat, OverBudget> {
        let mut state = self.state();
        let free = state.max_connections.saturating_sub(state.connections);
        let taken = state.users.get(&user.uid).map_or(0, |used| used.connections);
        if !user.trusted && taken >= free {
            return Err(OverBudget::Connections(taken));
        }
        state.connections += 1;
        state.users.entry(user.uid).or_default().connections += 1;
        Ok(Seat { budget: self.clone(), user })
    }
}

impl State {
    fn give_back(&mut self, uid: u32, connections: usize, bytes: usize) {
        self.connections -= connections;
        self.bytes -= bytes;
        if let Some(used) = self.users.get_mut(&uid) {
            used.connections -= connections;
            used.bytes -= bytes;
            if (used.connections, used.bytes) == (0, 0) {
                self.users.remove(&uid);
            }
        }
    }
}

impl Seat {
    /// Memory for a message of this connection.
    ///
    /// # Errors
    /// Where the user's messages, or all together, would take up too much.
    pub fn share(&self, bytes: usize) -> Result<Share, OverBudget> {
        let User { uid, trusted } = self.user;
        let mut state = self.budget.state();
        let of_user = state.users.get(&uid).map_or(0, |used| used.bytes);
        if !trusted && of_user + bytes > MAX_USER_BYTES {
            return Err(OverBudget::UserBytes(of_user));
        }
        if !trusted && state.bytes + bytes > MAX_BYTES {
            return Err(OverBudget::Bytes(state.bytes));
        }
        state.bytes += bytes;
        state.users.entry(uid).or_default().bytes += bytes;
        Ok(Share { budget: self.budget.clone(), uid, bytes })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.budget.state().give_back(self.user.uid, 1, 0);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.state().give_back(self.uid, 0, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> User {
        User { uid, trusted: uid == 0 }
    }

    #[test]
    fn no_user_locks_others_out() {
        let budget = Budget::new(1000);
        let mut seats = Vec::new();
        for uid in 1..=5 {
            let before = seats.len();
            while let Ok(seat) = budget.seat(user(uid)) {
                seats.push(seat);
            }
            assert!(seats.len() > before, "user {uid} gets none");
        }
        assert!(seats.len() < 1000);
        assert!(budget.seat(user(0)).is_ok(), "the operator always gets in");
        drop(seats);
        assert_eq!(budget.state().connections, 0);
        assert!(budget.state().users.is_empty());
        assert!(budget.seat(user(1)).is_ok());
    }

    #[test]
    fn messages_under_way_are_bounded_for_a_user_and_for_all() {
        let budget = Budget::new(1000);
        let seats: Vec<Seat> = (1..=9).map(|uid| budget.seat(user(uid)).unwrap()).collect();
        let megabyte = 1 << 20;
        let mut shares = Vec::new();
        for seat in &seats {
            while let Ok(share) = seat.share(megabyte) {
                shares.push(share);
            }
        }
        assert_eq!(shares.len() * megabyte, MAX_BYTES);
        assert!(matches!(seats[0].share(1), Err(OverBudget::UserBytes(_))));
        assert!(matches!(seats[8].share(1), Err(OverBudget::Bytes(_))));
        assert!(budget.seat(user(0)).unwrap().share(16 * megabyte).is_ok());
        shares.pop();
        assert!(seats[8].share(megabyte).is_ok());
        drop(shares);
        assert_eq!(budget.state().bytes, 0);
    }
}
