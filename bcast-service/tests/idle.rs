//! An idle daemon costs next to nothing: processor time of its process from /proc over 10 s.

mod harness;

use arborcast_proto::message::ExperimentState;
use harness::*;
use std::time::{Duration, Instant};

const OBSERVED: Duration = Duration::from_secs(10);
/// Of a core.
const ALLOWED: f64 = 0.01;

/// The share of a core that the daemon took.
fn observe(daemon: &Daemon) -> f64 {
    let (start, before) = (Instant::now(), processor_time(daemon.pid()));
    std::thread::sleep(OBSERVED);
    let used = processor_time(daemon.pid()) - before;
    used.as_secs_f64() / start.elapsed().as_secs_f64()
}

#[test]
fn an_idle_daemon_takes_less_than_a_hundredth_of_a_core() {
    let alone = Daemon::start(&[]);
    let waiting = Daemon::start(&[]);
    let _clients = [Client::application(&waiting), Client::application(&waiting)];
    let running = Daemon::start(&[]);
    let _application = Client::application(&running);
    let _experiment = Client::experiment(&running, 1);
    assert_eq!(running.status().experiment, ExperimentState::Running);

    let shares = std::thread::scope(|scope| {
        let threads = [&alone, &waiting, &running].map(|daemon| scope.spawn(|| observe(daemon)));
        threads.map(|thread| thread.join().unwrap())
    });
    for (name, share) in
        ["no client", "two applications", "a running experiment"].iter().zip(shares)
    {
        println!("idle with {name}: {:.4} % of a core", 100.0 * share);
        assert!(share < ALLOWED, "{name}: {share}");
    }
}
