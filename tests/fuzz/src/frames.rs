//! What goes over the socket, in both directions, and what the daemon makes of it: whoever said it, what is
//! known afterwards makes sense and fits into its file and onto the board.

use crate::assert_can_be_sent_on;
use arborcast_planner::Network;
use arborcast_proto::codec;
use arborcast_proto::message::{
    Answer, Ask, FRAME_HEADER_BYTES, PROTOCOL_VERSION, body_bytes, from_body,
};
use arborcast_proto::wisdom::Wisdom;
use arborcast_service::knowledge::Knowledge;

/// As long as an application may send, so that inputs stay small.
const MAX_BYTES: usize = 1 << 20;

/// Frames one after the other, as from a client; their version is put right.
pub fn run(mut bytes: &[u8]) {
    let mut knowledge = Knowledge::default();
    while let Some((&header, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() {
        let mut right = header;
        [right[4], right[5]] = PROTOCOL_VERSION.to_le_bytes();
        let _ = body_bytes(header);
        let Ok(len) = body_bytes(right) else { break };
        let (body, rest) = rest.split_at(len.min(rest.len()).min(MAX_BYTES));
        bytes = rest;
        if let Ok(answer) = from_body::<Answer>(body) {
            assert_can_be_sent_on(&answer);
        }
        if let Ok(ask) = from_body::<Ask>(body) {
            assert_can_be_sent_on(&ask);
            do_as_asked(&mut knowledge, ask);
        }
    }
    let wisdom = knowledge.to_wisdom();
    let again = Wisdom::from_bytes(&wisdom.to_bytes().expect("it fits"));
    let (_, refused) = Knowledge::from_wisdom(again.expect("its own file can be read"));
    assert_eq!(refused, 0, "what is known makes sense");
    for (target, entry) in knowledge.book() {
        let nodes = knowledge.group(target.group).expect("the group of a plan").len();
        assert!(usize::from(target.root) < nodes);
        assert!(entry.median_s > 0.0 && entry.median_s.is_finite());
        let Some(striping) = entry.plan.striping() else { continue };
        assert_eq!((striping.len(), striping.root()), (nodes, target.root.into()));
    }
}

/// As the daemon does for its own user.
fn do_as_asked(knowledge: &mut Knowledge, ask: Ask) {
    match ask {
        Ask::Register(group) => {
            let _ = knowledge.register(&group, group.len() % 2 == 0);
        }
        Ask::Publish(finding) => {
            let epoch = Some(finding.trials.into());
            let _ = knowledge.publish(*finding, epoch);
        }
        Ask::Trial(trial) => {
            let _ = knowledge.add_trial(*trial);
        }
        Ask::Links(group, matrix) => {
            let _ = knowledge.set_links(group, matrix.into(), 1);
        }
        Ask::Network(_, network) => {
            if let Ok(network) = codec::decode::<Network>(&network) {
                assert!(network.nodes().iter().all(|node| node.site < network.sites().len()));
            }
        }
        Ask::Forget(target) => {
            let _ = knowledge.forget(target);
        }
        Ask::Import(file) => {
            if let Ok(file) = Wisdom::from_bytes(&file) {
                let _ = knowledge.import(file);
            }
        }
        Ask::Delivered(report) if report.makes_sense() => {
            assert!(report.stripes.iter().all(|stripe| stripe.seconds() >= 0.0));
        }
        _ => {}
    }
}
