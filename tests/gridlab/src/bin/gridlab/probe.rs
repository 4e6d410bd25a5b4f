//! `gridlab ping` and `gridlab stream`: check a path of the lab from inside its nodes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use gridlab::probe::{self, PING_PACKET_BYTES, Stream};
use gridlab::units::{show_rate, show_time};
use gridlab::{Lab, enter, host};

use crate::Failure;

/// TCP needs this long to find the path's rate; it is left out of the figure.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct PingArgs {
    from: String,
    to: String,
    #[arg(short, long, default_value_t = 10)]
    count: usize,
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct StreamArgs {
    from: String,
    to: String,
    /// How long to measure, after a second of warming up
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    #[arg(long)]
    json: bool,
}

fn ends(lab: &Lab, from: &str, to: &str) -> Result<(usize, usize), Failure> {
    let node = |name: &str| {
        lab.topology().node(name).ok_or_else(|| {
            format!("lab {} has no node `{name}`: {}", lab.name(), lab.nodes().join(", "))
        })
    };
    Ok((node(from)?, node(to)?))
}

pub fn ping(lab_name: &str, args: &PingArgs) -> Result<ExitCode, Failure> {
    let lab = Lab::attach(lab_name)?;
    let (a, b) = ends(&lab, &args.from, &args.to)?;
    enter::enter(lab_name, &args.from)?;
    let ping = probe::ping(host::address(lab.topology(), b), args.count)?;
    if args.json {
        println!("{}", serde_json::to_string(&ping)?);
        return Ok(ExitCode::SUCCESS);
    }
    let topology = lab.topology();
    let expected = topology.packet_time(a, b, PING_PACKET_BYTES)
        + topology.packet_time(b, a, PING_PACKET_BYTES);
    match ping.median_s() {
        Some(median) => println!(
            "{} → {}: {} of {} came back, median {}; the topology says {}",
            args.from,
            args.to,
            ping.round_trips_s.len(),
            ping.sent,
            show_time(Duration::from_secs_f64(median)),
            show_time(expected)
        ),
        None => return Err(format!("none of {} echo requests came back", ping.sent).into()),
    }
    Ok(ExitCode::SUCCESS)
}

pub fn stream(lab_name: &str, args: &StreamArgs) -> Result<ExitCode, Failure> {
    let lab = Lab::attach(lab_name)?;
    let (a, b) = ends(&lab, &args.from, &args.to)?;
    let seconds = Duration::try_from_secs_f64(args.seconds)? + WARM_UP;
    let exe = std::env::current_exe()?;
    let mut receiver =
        lab.exec(&args.to, &exe)?.arg("stream-receive").stdout(Stdio::piped()).spawn()?;
    let stdout = receiver.stdout.take().ok_or("the receiver has no output")?;
    let mut stdout = BufReader::new(stdout);
    let mut port = String::new();
    stdout.read_line(&mut port)?;
    let mut sender: Command = lab.exec(&args.from, &exe)?;
    sender.arg("stream-send").arg(host::address(lab.topology(), b).to_string()).arg(port.trim());
    let sent = sender.arg(seconds.as_secs_f64().to_string()).status()?;
    let mut text = String::new();
    stdout.read_to_string(&mut text)?;
    receiver.wait()?;
    if !sent.success() {
        return Err("the sender failed".into());
    }
    if args.json {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let stream: Stream = serde_json::from_str(&text)?;
    println!(
        "{} → {}: {} of payload; the topology's path has {}",
        args.from,
        args.to,
        show_rate(stream.rate_after(WARM_UP)),
        show_rate(lab.topology().path_rate_bytes_per_s(a, b))
    );
    Ok(ExitCode::SUCCESS)
}

pub fn receive() -> Result<(), Failure> {
    let stream = probe::receive(|port| {
        println!("{port}");
        std::io::stdout().flush()
    })?;
    println!("{}", serde_json::to_string(&stream)?);
    Ok(())
}

pub fn send(to: Ipv4Addr, port: u16, seconds: f64) -> Result<(), Failure> {
    Ok(probe::send(to, port, Duration::try_from_secs_f64(seconds)?)?)
}
