//! `arborcast-experiment`: the MPI job that searches for broadcast trees.
//!
//! One rank a node. Rank 0 leads ([`leader`]): the planner's [`arborcast_planner::job::coordinator`] carries out
//! what its schedule asks for. Every rank speaks with its own daemon ([`daemon_link`]) and does its part of
//! broadcasts and link measurements ([`worker`], [`groups`], [`broadcast`], [`link_transfers`]). Orders and news
//! ([`arborcast_planner::job::wire`]) go through [`mailbox`]es; between orders a rank sleeps.

mod broadcast;
mod daemon_link;
mod error;
mod groups;
mod job;
mod leader;
mod link_transfers;
mod mailbox;
mod member;
mod options;
mod worker;

pub use error::JobError;
pub use job::main;
pub use options::Options;
