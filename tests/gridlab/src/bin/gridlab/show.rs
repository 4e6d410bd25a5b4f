//! What `status`, `list` and `check` print, for people and as JSON.

use std::time::Duration;

use gridlab::state::Trace;
use gridlab::units::{show_rate, show_time};
use gridlab::{Limits, Status, Topology, Verdict};

use crate::Failure;

pub fn status(status: &Status, json: bool) -> Result<(), Failure> {
    if json {
        let mut value = serde_json::to_value(status)?;
        // Only of use to programs that subtract snapshots, which use the library.
        if let Some(late) = value["lateness"].as_object_mut() {
            late.remove("histogram");
        }
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    let real_time = match &status.real_time_refused {
        None => "real-time priority".to_owned(),
        Some(reason) => format!("NO real-time priority ({reason})"),
    };
    println!(
        "{}: up {:.0} s, TCP with {}, forwarder {} with {real_time}",
        status.name, status.up_s, status.tcp, status.pid
    );
    let late = &status.lateness;
    println!(
        "late: p50 {:.0} µs, p99 {:.0} µs, max {:.0} µs over {} packets; longest turn {:.0} µs",
        late.p50_us, late.p99_us, late.max_us, late.packets, late.longest_turn_us
    );
    let quality = gridlab::Quality {
        packets: late.packets,
        late_p50_us: late.p50_us,
        late_p99_us: late.p99_us,
        late_max_us: late.max_us,
        dropped: 0,
        undeliverable: status.undeliverable,
        real_time: status.real_time_refused.is_none(),
        stolen_share: 0.0,
    };
    if let Verdict::Rejected(why) = quality.verdict(&Limits::default()) {
        println!("at some time {why}");
    }
    println!(
        "\n{:<16} {:<14} {:>14} {:>14} {:>8}",
        "node", "address", "sent", "received", "dropped"
    );
    for n in &status.nodes {
        println!(
            "{:<16} {:<14} {:>14} {:>14} {:>8}",
            n.name, n.address, n.sent_bytes, n.received_bytes, n.dropped
        );
    }
    println!(
        "\n{:<24} {:>9} {:>14} {:>14} {:>8} {:>6}",
        "link", "latency", "rate", "bytes", "dropped", "lost"
    );
    for l in &status.links {
        println!(
            "{:<24} {:>9} {:>14} {:>14} {:>8} {:>6}",
            format!("{} → {}", l.from, l.to),
            show_time(Duration::from_secs_f64(l.latency_s)),
            show_rate(l.rate_bytes_per_s),
            l.bytes,
            l.dropped,
            l.lost
        );
    }
    Ok(())
}

pub fn list(traces: &[Trace], json: bool) -> Result<(), Failure> {
    if json {
        println!("{}", serde_json::to_string_pretty(traces)?);
        return Ok(());
    }
    if traces.is_empty() {
        println!("no labs, and nothing left behind by any");
    }
    for trace in traces {
        let state = if trace.up { "up" } else { "left behind" };
        let tcp = trace.tcp.as_ref().map_or(String::new(), |tcp| format!(", TCP with {tcp}"));
        println!("{:<24} {state}{tcp}", trace.name);
        if let (false, Some(folder)) = (trace.up, &trace.folder) {
            println!("    folder {}", folder.display());
        }
        for process in &trace.processes {
            println!("    process {} {}", process.pid, process.command);
        }
    }
    if traces.iter().any(|t| !t.up) {
        println!("clear what is left behind with `gridlab down NAME` or `gridlab down --all`");
    }
    Ok(())
}

pub fn topology(topology: &Topology, json: bool) -> Result<(), Failure> {
    if json {
        println!("{}", serde_json::to_string_pretty(topology)?);
        return Ok(());
    }
    for (index, site) in topology.sites.iter().enumerate() {
        let nodes = topology.nodes_of(index);
        let uplink = site.uplink_bytes_per_s.map_or("none".to_owned(), show_rate);
        println!(
            "site {}: {} nodes, latency {}, shared uplink {uplink}",
            site.name,
            nodes.len(),
            show_time(site.latency)
        );
        for node in nodes.into_iter().map(|n| &topology.nodes[n]) {
            println!("    {} {}", node.name, show_rate(node.rate_bytes_per_s));
        }
    }
    for l in &topology.links {
        println!(
            "link {} → {}: {}, jitter {}, {}, loss {} %, queue {} bytes",
            topology.sites[l.from].name,
            topology.sites[l.to].name,
            show_time(l.latency),
            show_time(l.jitter),
            show_rate(l.rate_bytes_per_s),
            l.loss * 100.0,
            l.queue_bytes
        );
    }
    for t in &topology.cross_traffic {
        let when = match t.off.is_zero() {
            true => "always".to_owned(),
            false => format!("{} on, {} off", show_time(t.on), show_time(t.off)),
        };
        println!(
            "cross traffic {} → {}: {}, {when}",
            topology.sites[t.from].name,
            topology.sites[t.to].name,
            show_rate(t.rate_bytes_per_s),
        );
    }
    println!("{} timed changes", topology.events.len());
    Ok(())
}
