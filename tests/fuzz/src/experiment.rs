//! What the coordinator and the ranks of an experiment say to each other.

use crate::assert_can_be_sent_on;
use arborcast_planner::job::wire;
use arborcast_proto::{Spending, codec};
use serde::{Serialize, de::DeserializeOwned};

/// The first byte: in which direction.
pub fn run(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, message)) => read::<wire::Order>(message),
        Some((_, message)) => read::<wire::News>(message),
        None => {}
    }
}

fn read<T: Serialize + DeserializeOwned>(message: &[u8]) {
    if let Ok(read) = codec::decode::<T>(message) {
        assert_can_be_sent_on(&read);
    }
}

/// One of each kind of message.
pub fn seeds() -> Vec<Vec<u8>> {
    use crate::seeds::{delivery, finding, group, lateness, links, plan, target, trial};
    use arborcast_planner::Network;
    use arborcast_planner::measurement::Transfer;
    use arborcast_planner::search::InUse;
    use wire::{BroadcastWork, News, Order, StepResult, Work};
    let broadcast = BroadcastWork {
        group: 0,
        root: 1,
        bytes: 1 << 20,
        plan: Some(plan()),
        native: false,
        start_after_s: 0.1,
        give_up_after_s: Some(2.0),
    };
    let transfers = Work::Transfers {
        group: 0,
        transfers: vec![Transfer::new((0, 1), 1 << 20, 3)],
        start_after_s: 0.1,
        in_passing: false,
    };
    let orders = [
        Order::Prepare { step: 1 },
        Order::Go { step: 1, work: Work::Form { group: 0, members: vec![0, 1] } },
        Order::Go { step: 1, work: Work::Broadcast(broadcast) },
        Order::Go { step: 1, work: transfers },
        Order::Publish(Box::new(finding())),
        Order::Record(Box::new(trial())),
        Order::Network(group(), Box::new(Network::from_links(&links()))),
        Order::Lateness(vec![lateness()]),
        Order::Spending(Spending::default()),
    ];
    let result = StepResult { transfers: vec![(0, 0.5)], ..StepResult::default() };
    let news = [
        News::Ready { step: 1, result },
        News::Demand { news: Vec::new(), gone: vec![target()] },
        News::InUse(vec![(target(), InUse { plan: plan(), is_measured: false })]),
        News::Deliveries(vec![delivery()]),
        News::Failed("no memory".into()),
    ];
    let encoded = |direction: u8, bytes: Result<Vec<u8>, codec::CodecError>| {
        [vec![direction], bytes.unwrap_or_default()].concat()
    };
    let orders = orders.iter().map(|order| encoded(0, codec::encode(order)));
    let news = news.iter().map(|news| encoded(1, codec::encode(news)));
    orders.chain(news).collect()
}
