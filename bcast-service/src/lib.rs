//! The daemon of each node and the operator's command.
//!
//! `arborcastd` keeps the board, reads its clients' slots, arbitrates between applications and the experiment,
//! and remembers plans; `arborcast` asks it. What decides is free of I/O and clocks: [`arbiter`],
//! [`demand`], [`knowledge`], [`metrics`], [`events`].

pub mod arbiter;
pub mod command;
pub mod config;
pub mod daemon;
pub mod demand;
pub mod events;
pub mod explanation;
pub mod knowledge;
pub mod log;
pub mod metrics;
pub mod page;
