//! Inputs that are accepted, for the targets whose form is binary: where a search begins. They are made by
//! the programs' own types, so that they are right when a form changes.

use crate::experiment::seeds as of_experiment;
use arborcast_planner::Network;
use arborcast_proto::message::{
    Answer, Ask, Finding, Imported, Reason, Refusal, Rival, Role, Times, TrialRecord, to_frame,
};
use arborcast_proto::segment::BookEntry;
use arborcast_proto::wisdom::{Learned, MeasuredLinks, Wisdom};
use arborcast_proto::{
    DeliveryReport, Group, Lateness, LinkMatrix, NodeLateness, NodeName, Plan, Spending, Stripe,
    StripeDelivery, Striping, Target, Tree, codec,
};
use arborcast_shim::header::{Decision, Header};

/// The accepted inputs of a target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "board" => board(),
        "experiment" => of_experiment(),
        "frames" => frames(),
        "header" => header(),
        "slot" => vec![vec![0; 256], [1, 2].repeat(2000)],
        "wisdom" => vec![wisdom().to_bytes().unwrap_or_default()],
        _ => Vec::new(),
    }
}

pub fn group() -> Group {
    let names = ["a0", "a1", "b0", "b1"].map(|name| NodeName::new(name).expect("a name"));
    Group::new(names.to_vec()).expect("a group")
}

fn flat() -> Tree {
    Tree::flat(4, 0).expect("a tree")
}

pub fn plan() -> Plan {
    let chain = Tree::from_parents(&[None, Some(0), Some(1), Some(2)]).expect("a tree");
    let paced = Stripe { bytes_per_s: std::num::NonZeroU64::new(1 << 20), ..Stripe::new(chain, 2) };
    Plan::Trees(Striping::new(vec![Stripe::new(flat(), 1), paced], 4096).expect("a plan"))
}

fn times(median_s: f64) -> Times {
    Times::of(&[median_s, median_s, median_s * 2.0]).expect("samples")
}

pub fn finding() -> Finding {
    let against = Rival { plan: Plan::Native, times: times(0.5), interval_s: (0.5, 1.0) };
    let reason = Reason { predicted_s: Some(0.1), interval_s: (0.2, 0.4), against: Some(against) };
    Finding {
        group: group(),
        root: 0,
        bytes: 1 << 20,
        plan: plan(),
        times: times(0.2),
        native: Some(times(0.5)),
        limit_s: Some(0.05),
        strategy: "guided".into(),
        trials: 3,
        search_s: 1.5,
        reason: Some(reason),
    }
}

pub fn target() -> Target {
    finding().target()
}

pub fn trial() -> TrialRecord {
    TrialRecord {
        target: target(),
        bytes: 1 << 20,
        number: 1,
        plan: plan(),
        times: Some(times(0.2)),
        predicted_s: Some(0.1),
        best_s: Some(0.2),
        strategy: "guided".into(),
        search_s: 1.0,
        unix_s: 1e9,
    }
}

pub fn links() -> LinkMatrix {
    LinkMatrix::new(4, vec![0.01; 16], vec![1e6; 16]).expect("a matrix")
}

pub fn delivery() -> DeliveryReport {
    let stripe = StripeDelivery { stripe: 0, from: 0, bytes: 1 << 19, first_ns: 5, last_ns: 9 };
    DeliveryReport {
        target: target(),
        bytes: 1 << 20,
        broadcast: 7,
        is_native: false,
        node: 1,
        listened_late: false,
        acknowledged: false,
        processor_wait_ns: 0,
        stripes: vec![stripe],
    }
}

pub fn lateness() -> Lateness {
    let node = NodeLateness {
        node: 1,
        reports: 15,
        listened_late: 2,
        took_s: 0.2,
        processor_wait_s: 0.01,
    };
    Lateness { target: target(), nodes: 1, median_s: 0.2, latest: vec![node] }
}

pub fn wisdom() -> Wisdom {
    Wisdom {
        groups: vec![group()],
        plans: vec![Learned { finding: finding().into(), epoch: 7 }],
        trials: vec![trial().into()],
        matrices: vec![MeasuredLinks { group: group(), matrix: links().into(), epoch: 7 }],
    }
}

fn board() -> Vec<Vec<u8>> {
    let entry = BookEntry { plan: plan(), median_s: 0.2, is_measured: true, native_s: Some(0.5) };
    let mut words = vec![0; 1 + 152];
    words[1 + 8] = b'n';
    words[1 + 8 + 64] = b's';
    words.extend(codec::encode(&entry).unwrap_or_default());
    vec![words]
}

fn frames() -> Vec<Vec<u8>> {
    let asks = [
        Ask::Hello(Role::Experiment { epoch: 1 }),
        Ask::Register(group()),
        Ask::Delivered(delivery()),
        Ask::Publish(Box::new(finding())),
        Ask::Trial(Box::new(trial())),
        Ask::Links(group(), links()),
        Ask::Network(group(), codec::encode(&Network::from_links(&links())).unwrap_or_default()),
        Ask::Plan(target(), 1 << 20),
        Ask::Lateness(vec![lateness()]),
        Ask::Spending(Spending::default()),
        Ask::History(target()),
        Ask::Forget(None),
        Ask::Import(wisdom().to_bytes().unwrap_or_default()),
    ];
    let answers = [
        Answer::Deliveries(vec![delivery()]),
        Answer::History(vec![trial()]),
        Answer::Matrices(vec![(group(), links())]),
        Answer::Refused(Refusal::Invalid("no".into())),
        Answer::Imported(Imported::default()),
    ];
    let asks = asks.iter().map(|ask| to_frame(ask).unwrap_or_default());
    let answers = answers.iter().map(|answer| to_frame(answer).unwrap_or_default());
    let each: Vec<Vec<u8>> = asks.chain(answers).collect();
    [vec![each.concat()], each].concat()
}

fn header() -> Vec<Vec<u8>> {
    let along_trees = Header {
        decision: Decision::Trees,
        leaf_acks: true,
        is_tcp_paced: true,
        is_paced: false,
        report: 7,
        stripe: 1,
        stripes: 2,
        root: 0,
        sequence: 77,
        segment_bytes: 4096,
        total_bytes: 10,
        start: 5,
        len: 5,
    };
    let natively =
        Header { decision: Decision::Native { broadcasts: 16 }, report: 0, ..along_trees };
    let long = Header { total_bytes: 1 << 30, start: 0, len: 1 << 30, ..along_trees };
    let write = |header: Header, inline: &[u8]| {
        let mut bytes = Vec::new();
        header.write(flat().as_subtree(), &mut bytes);
        [bytes, inline.to_vec()].concat()
    };
    vec![write(along_trees, b"hello"), write(natively, b""), write(long, b"")]
}
