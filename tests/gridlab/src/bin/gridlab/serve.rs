//! The forwarding process: reads its order from a line of standard input, says `up` or what is wrong on
//! standard output, and serves until it is told to end, or until standard input does.

use std::fs::File;

use gridlab::forwarder::{self, Order};

use crate::Failure;

pub fn run() -> Result<(), Failure> {
    let mut order = String::new();
    std::io::stdin().read_line(&mut order)?;
    let order: Order = serde_json::from_str(&order)?;
    let mut told = false;
    let ended = forwarder::run(order, || {
        println!("up");
        told = true;
        // The starter must see the end of its pipe.
        if let Ok(null) = File::options().write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdout(&null);
        }
    });
    if let (Err(error), false) = (&ended, told) {
        println!("{error}");
    }
    Ok(ended?)
}
