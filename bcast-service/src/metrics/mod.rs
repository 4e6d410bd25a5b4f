//! What a daemon tells Prometheus, in its conventions: base units, counters that end in `_total`, times as
//! timestamps rather than ages. Without I/O or clock.
//!
//! The number of series is bounded whatever applications do: histograms by a few ranges of sizes, times
//! of targets for the most recent ones only.

mod exposition;
mod histogram;

use arborcast_proto::Spent;
use arborcast_proto::message::{ExperimentState, PROTOCOL_VERSION, Status, TargetStatus, Times};
use arborcast_proto::segment::LAYOUT_VERSION;
pub use exposition::{Exposition, Kind};
pub use histogram::Durations;

/// What a daemon knows at one moment.
pub struct Snapshot<'a> {
    pub status: Status,
    /// Clients that are ranks of an experiment job.
    pub experiments: usize,
    pub forgotten_holds: usize,
    /// How often an experiment did not stop in time.
    pub overdue_stops: u64,
    pub durations: &'a Durations,
    /// Most recent first, all that are to be told.
    pub targets: &'a [TargetStatus],
    /// All that are known.
    pub target_count: usize,
    /// Seconds since 1970.
    pub started_unix_s: f64,
    pub newest_plan_unix_s: Option<f64>,
    /// Changes of the knowledge that the wisdom file does not have.
    pub unsaved_changes: u64,
}

/// In the text format of Prometheus.
pub fn text(snapshot: &Snapshot<'_>) -> String {
    let mut out = Exposition::default();
    of_daemon(&mut out, snapshot);
    of_network_use(&mut out, snapshot);
    of_experiment(&mut out, snapshot);
    snapshot.durations.tell(&mut out);
    of_targets(&mut out, snapshot.targets);
    out.finish()
}

fn of_daemon(out: &mut Exposition, snapshot: &Snapshot<'_>) {
    let status = &snapshot.status;
    out.family("arborcast_build_info", Kind::Gauge, "1; the versions of the daemon that runs.");
    let (layout, protocol) = (LAYOUT_VERSION.to_string(), PROTOCOL_VERSION.to_string());
    out.sample(&[("version", &status.version), ("layout", &layout), ("protocol", &protocol)], 1.0);
    out.family("arborcast_node_info", Kind::Gauge, "1; the node's names in trees.");
    out.sample(&[("node", status.node.as_str()), ("site", status.site.as_str())], 1.0);
    out.single(
        "arborcast_start_timestamp_seconds",
        Kind::Gauge,
        "When the daemon was started.",
        snapshot.started_unix_s,
    );
    out.single(
        "arborcast_wisdom_unsaved_changes",
        Kind::Gauge,
        "Changes of what is known that are not in the wisdom file yet.",
        snapshot.unsaved_changes as f64,
    );
}

fn of_network_use(out: &mut Exposition, snapshot: &Snapshot<'_>) {
    let status = &snapshot.status;
    out.family("arborcast_clients", Kind::Gauge, "Processes that are connected, by what they are.");
    out.sample(&[("role", "application")], status.applications.into());
    out.sample(&[("role", "experiment")], snapshot.experiments as f64);
    for (name, help, value) in [
        (
            "arborcast_broadcasts_total",
            "Broadcasts that roots on this node told of: along trees, and native ones that asked for a plan.",
            status.broadcasts,
        ),
        (
            "arborcast_hold_timeouts_total",
            "Broadcasts that went ahead although an experiment had not stopped in time.",
            status.hold_timeouts,
        ),
        (
            "arborcast_overdue_stops_total",
            "Times that the experiment did not stop on this node in time.",
            snapshot.overdue_stops,
        ),
    ] {
        out.single(name, Kind::Counter, help, value as f64);
    }
    for (name, help, value) in [
        ("arborcast_holds", "Claims of the network that stand.", status.holds as usize),
        (
            "arborcast_forgotten_holds",
            "Claims that have stood for longer than hold_max and no longer count.",
            snapshot.forgotten_holds,
        ),
    ] {
        out.single(name, Kind::Gauge, help, value as f64);
    }
}

fn of_experiment(out: &mut Exposition, snapshot: &Snapshot<'_>) {
    let status = &snapshot.status;
    out.family("arborcast_experiment_state", Kind::Gauge, "1 for the state that it is in.");
    for (name, state) in [
        ("none", ExperimentState::None),
        ("waiting", ExperimentState::Waiting),
        ("running", ExperimentState::Running),
        ("stopping", ExperimentState::Stopping),
        ("paused", ExperimentState::Paused),
    ] {
        out.sample(&[("state", name)], f64::from(u8::from(status.experiment == state)));
    }
    let spent = status.spending.unwrap_or_default().kinds();
    for (name, help, value) in [
        (
            "arborcast_experiment_spent_seconds_total",
            "Seconds in which the experiment's job has used the network, by purpose.",
            (|spent| spent.seconds) as fn(Spent) -> f64,
        ),
        (
            "arborcast_experiment_spent_bytes_total",
            "What the experiment's job has sent over the network, all nodes together, by purpose.",
            |spent| spent.bytes as f64,
        ),
    ] {
        out.family(name, Kind::Counter, help);
        for (kind, of_kind) in spent {
            out.sample(&[("for", kind)], value(of_kind));
        }
    }
    out.single(
        "arborcast_trials_total",
        Kind::Counter,
        "Trials that are known, those of earlier daemons in the wisdom file included.",
        status.trials as f64,
    );
    for (name, help, value) in [
        ("arborcast_plans", "Plans that are known.", status.plans as usize),
        ("arborcast_targets", "Targets that are known.", snapshot.target_count),
    ] {
        out.single(name, Kind::Gauge, help, value as f64);
    }
    if let Some(unix_s) = snapshot.newest_plan_unix_s {
        out.single(
            "arborcast_newest_plan_timestamp_seconds",
            Kind::Gauge,
            "When a target got another plan last.",
            unix_s,
        );
    }
}

/// One of the times that are told of a target.
type TargetTime = (&'static str, &'static str, fn(&TargetStatus) -> Option<f64>);

const TARGET_TIMES: [TargetTime; 4] = [
    (
        "arborcast_target_native_seconds",
        "Median of native in the experiment, until the root has the ACKs of all leaves.",
        |status| Some(status.finding.as_ref()?.native?.median_s),
    ),
    (
        "arborcast_target_plan_seconds",
        "Median of the plan in use in the experiment, measured in the same way; none while it is only predicted.",
        |status| Some(status.finding.as_ref()?.measured()?.median_s),
    ),
    (
        "arborcast_target_in_use_seconds",
        "Median of the sampled broadcasts of applications since the plan is in use.",
        |status| status.in_use.map(|times: Times| times.median_s),
    ),
    (
        "arborcast_target_bound_seconds",
        "What no broadcast can beat, by the experiment's own measurement of the links.",
        |status| status.finding.as_ref()?.limit_s,
    ),
];

fn of_targets(out: &mut Exposition, targets: &[TargetStatus]) {
    for (name, help, time_s) in TARGET_TIMES {
        out.family(name, Kind::Gauge, help);
        for status in targets {
            let Some(seconds) = time_s(status) else { continue };
            let root = usize::from(status.target.root);
            let root = status.group.nodes().get(root).map_or("", |name| name.as_str());
            let (group, max_bytes) =
                (status.target.group.to_string(), status.target.class.max_bytes().to_string());
            out.sample(&[("group", &group), ("root", root), ("max_bytes", &max_bytes)], seconds);
        }
    }
}
