//! What the host's TCP could do better on long links: advice, never a fault.
//!
//! A connection has at most a window of bytes under way, so it needs one of rate × round trip, and the
//! kernel keeps about twice that in buffers. Where the links have been measured, they say what is needed;
//! a link that its windows limit was measured at what they let through, so that a window is taken to be
//! too small already where it is little more than that.

use super::Finding;
use super::daemon::Answers;
use arborcast_draw::units;
use std::path::Path;

const CHECK: &str = "TCP";
/// Where nothing was measured: 1 Gbit/s over 100 ms there and back.
const ASSUMED_WINDOW_BYTES: f64 = 125e6 * 0.1;
/// Of a receive buffer that much is window (tcp_adv_win_scale = 1), the rest the kernel's bookkeeping.
const WINDOW_PART: f64 = 0.5;
/// A window that is not wider than this much of what was measured may have limited that.
const MARGIN: f64 = 1.25;
/// Below this round trip, connections begin and recover fast enough whatever they are set to.
const LONG_ROUND_TRIP_S: f64 = 1e-3;
const ETHERNET_MTU: u32 = 1500;
const JUMBO_MTU: u32 = 9000;
/// From here on, packets of 1500 bytes cost processors more than the network.
const FAST_MBIT: u32 = 10_000;

/// What the measured links ask of a connection.
struct Paths {
    /// `None` where nothing was measured.
    longest_round_trip_s: Option<f64>,
    window_bytes: f64,
    origin: String,
}

impl Paths {
    fn of(daemon: Option<&Answers>) -> Self {
        let mut longest: Option<f64> = None;
        let mut window_bytes: f64 = 0.0;
        for (_, links) in daemon.into_iter().flat_map(|daemon| &daemon.matrices) {
            let nodes = 0..links.nodes();
            for (a, b) in nodes.clone().flat_map(|a| nodes.clone().map(move |b| (a, b))) {
                if a != b {
                    let round_trip_s = links.latency_s(a, b) + links.latency_s(b, a);
                    longest = longest.into_iter().chain([round_trip_s]).reduce(f64::max);
                    let product = links.rate(a, b) * round_trip_s;
                    window_bytes =
                        window_bytes.max(if product.is_finite() { product } else { 0.0 });
                }
            }
        }
        match longest {
            Some(_) => Paths {
                longest_round_trip_s: longest,
                window_bytes: MARGIN * window_bytes,
                origin: "the measured links".into(),
            },
            None => Paths {
                longest_round_trip_s: None,
                window_bytes: ASSUMED_WINDOW_BYTES,
                origin: "1 Gbit/s over 100 ms (no links are measured yet)".into(),
            },
        }
    }

    fn are_short(&self) -> bool {
        self.longest_round_trip_s.is_some_and(|seconds| seconds < LONG_ROUND_TRIP_S)
    }
}

pub fn examine(root: &Path, daemon: Option<&Answers>) -> Vec<Finding> {
    let paths = Paths::of(daemon);
    let mut findings = Vec::new();
    if paths.are_short() {
        findings.push(Finding::ok(CHECK, "all measured links are short: nothing is to be tuned"));
    } else {
        findings.push(congestion_control(root));
        findings.push(after_idle(root));
        findings.push(window(root, "tcp_rmem", &paths));
        findings.push(window(root, "tcp_wmem", &paths));
    }
    findings.extend(packets(root));
    findings
}

/// A setting below net.ipv4.
fn ipv4(root: &Path, name: &str) -> Option<String> {
    let path = root.join("proc/sys/net/ipv4").join(name);
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn unknown(name: &str) -> Finding {
    Finding::advice(
        CHECK,
        format!("net.ipv4.{name} cannot be read here"),
        "ask on the node itself, outside a container",
    )
}

fn set(name: &str, value: &str) -> String {
    format!("sysctl -w net.ipv4.{name}={value}, and the same in /etc/sysctl.d")
}

fn congestion_control(root: &Path) -> Finding {
    const NAME: &str = "tcp_congestion_control";
    match ipv4(root, NAME).as_deref() {
        None => unknown(NAME),
        Some("bbr") => Finding::ok(CHECK, "congestion control is bbr"),
        Some(other) => Finding::advice(
            CHECK,
            format!("congestion control is {other}, which takes a lost packet for a full link"),
            format!("modprobe tcp_bbr; {}", set(NAME, "bbr")),
        ),
    }
}

fn after_idle(root: &Path) -> Finding {
    const NAME: &str = "tcp_slow_start_after_idle";
    match ipv4(root, NAME).as_deref() {
        None => unknown(NAME),
        Some("0") => Finding::ok(CHECK, "connections keep their windows over a pause"),
        Some(_) => Finding::advice(
            CHECK,
            "connections begin anew with ten packets after a pause: messages of 1 MiB and more take longer",
            set(NAME, "0"),
        ),
    }
}

/// The last of the three numbers is the most that a connection's buffer grows to.
fn window(root: &Path, name: &str, paths: &Paths) -> Finding {
    let text = ipv4(root, name);
    let numbers: Option<Vec<u64>> = text
        .as_deref()
        .map(|text| text.split_whitespace().filter_map(|n| n.parse().ok()).collect());
    let Some([least, usual, most]) = numbers.as_deref() else { return unknown(name) };
    let window_bytes = *most as f64 * WINDOW_PART;
    let (has, needs) = (units::count(window_bytes, "B"), units::count(paths.window_bytes, "B"));
    match window_bytes >= paths.window_bytes {
        true => Finding::ok(
            CHECK,
            format!("{name} allows windows of {has}; {} need {needs}", paths.origin),
        ),
        false => {
            let wanted = (paths.window_bytes / WINDOW_PART) as u64;
            Finding::advice(
                CHECK,
                format!("{name} allows windows of {has}, and {} need {needs}", paths.origin),
                set(name, &format!("\"{least} {usual} {}\"", wanted.next_power_of_two())),
            )
        }
    }
}

/// One finding for each interface whose packets could be larger.
fn packets(root: &Path) -> Vec<Finding> {
    let folder = root.join("sys/class/net");
    let read = |name: &str, file: &str| {
        std::fs::read_to_string(folder.join(name).join(file)).unwrap_or_default()
    };
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name != "lo" && read(name, "operstate").trim() != "down");
    names.sort();
    let mtus = names.iter().filter_map(|name| Some((name, read(name, "mtu").trim().parse().ok()?)));
    let mtus: Vec<(&String, u32)> = mtus.collect();
    let mut findings = Vec::new();
    for &(name, mtu) in &mtus {
        let mbit: u32 = read(name, "speed").trim().parse().unwrap_or(0);
        if mtu < ETHERNET_MTU {
            findings.push(Finding::advice(
                CHECK,
                format!("packets of {name} have {mtu} bytes: a tunnel, or a mistake"),
                format!("ip link set {name} mtu {ETHERNET_MTU}, where its path carries that"),
            ));
        } else if mbit >= FAST_MBIT && mtu < JUMBO_MTU {
            findings.push(Finding::advice(
                CHECK,
                format!("packets of {name} have {mtu} bytes at {mbit} Mbit/s, which keeps processors busy"),
                format!("ip link set {name} mtu {JUMBO_MTU}, on all hosts and switches of the site alike"),
            ));
        }
    }
    let is_jumbo = mtus.iter().any(|&(_, mtu)| mtu > ETHERNET_MTU);
    if is_jumbo && ipv4(root, "tcp_mtu_probing").as_deref() == Some("0") {
        findings.push(Finding::advice(
            CHECK,
            "packets are larger than 1500 bytes, and a path that does not carry them is not noticed where ICMP is filtered: connections hang",
            set("tcp_mtu_probing", "1"),
        ));
    }
    if findings.is_empty() {
        let listed: Vec<String> = mtus.iter().map(|(name, mtu)| format!("{name} {mtu}")).collect();
        findings.push(Finding::ok(CHECK, format!("packets in bytes: {}", listed.join(", "))));
    }
    findings
}
