//! What an experiment on a grid tells its daemon, without the grid.

use super::{Client, Daemon, LONG};
use arborcast_planner::Network;
use arborcast_proto::message::{Answer, Ask, Finding, Reason, Rival, Times, TrialRecord};
use arborcast_proto::segment::Broadcast;
use arborcast_proto::{
    DeliveryReport, Group, Lateness, LinkMatrix, NodeLateness, NodeName, Plan, SizeClass, Stripe,
    StripeDelivery, Striping, Target, Tree,
};
use std::num::NonZeroU64;

/// A grid's group, and its experiment's first rank.
pub struct Grid {
    pub group: Group,
    experiment: Client,
    published: u32,
}

impl Grid {
    /// Nodes named by their sites, four to each: a0 to a3, b0, ….
    pub fn of_mesh(daemon: &Daemon, network: &Network) -> Self {
        let site = |node: usize| char::from(b'a' + network.site_of(node) as u8);
        let name = |node: usize| format!("{}{}", site(node), node % 4);
        Self::new(daemon, (0..network.len()).map(name).collect())
    }

    pub fn new(daemon: &Daemon, names: Vec<String>) -> Self {
        let names = names.into_iter().map(|name| NodeName::new(name).unwrap());
        let group = Group::new(names.collect()).unwrap();
        Grid { group, experiment: Client::experiment(daemon, 7), published: 0 }
    }

    /// With its links measured: 44 sites of 20 nodes, about as many as the daemon keeps the links of. Gives
    /// the number of sites too.
    pub fn large(daemon: &Daemon) -> (Self, usize) {
        let (sites, per_site) = (44, 20);
        let n = sites * per_site;
        let name = |node: usize| format!("s{:02}n{:02}", node / per_site, node % per_site);
        let mut grid = Self::new(daemon, (0..n).map(name).collect());
        let is_near = |cell: usize| cell / n / per_site == cell % n / per_site;
        let latency =
            |cell: usize| if is_near(cell) { 5e-5 } else { 0.01 + 1e-5 * (cell % 97) as f64 };
        let rate = |cell: usize| if is_near(cell) { 1.2e9 } else { 1e6 * (1 + cell % 89) as f64 };
        let latencies = (0..n * n).map(latency).collect();
        let links = LinkMatrix::new(n, latencies, (0..n * n).map(rate).collect()).unwrap();
        grid.say(&Ask::Links(grid.group.clone(), links));
        (grid, sites)
    }

    pub fn say(&mut self, ask: &Ask) {
        assert_eq!(self.experiment.connection.ask(ask).unwrap(), Answer::Done);
    }

    pub fn measure(&mut self, network: &Network) {
        self.say(&Ask::Links(self.group.clone(), network.to_links()));
    }

    /// Measured again, with this part of the rate between the sites of a and b (nodes 0 to 7).
    pub fn measure_fallen(&mut self, network: &Network, part: f64) {
        let (links, n) = (network.to_links(), self.group.len());
        let pairs = || (0..n * n).map(|cell| (cell / n, cell % n));
        let falls = |(from, to): (usize, usize)| from / 4 + to / 4 == 1;
        let rate = |pair: (usize, usize)| {
            let rate = links.rate(pair.0, pair.1);
            if falls(pair) { part * rate } else { rate }
        };
        let latencies = pairs().map(|(from, to)| links.latency_s(from, to)).collect();
        let fallen = LinkMatrix::new(n, latencies, pairs().map(rate).collect()).unwrap();
        self.say(&Ask::Links(self.group.clone(), fallen));
    }

    /// A program on the daemon's node, which knows the group and has been root of one broadcast natively and
    /// of two along trees.
    pub fn program(&self, daemon: &Daemon, bytes: u64) -> Client {
        let mut program = Client::application(daemon);
        let known = program.connection.ask(&Ask::Register(self.group.clone())).unwrap();
        assert_eq!(known, Answer::Done);
        let target = Target { group: self.group.hash(), root: 0, class: SizeClass::of(bytes) };
        for (seconds, native_s) in [(None, Some(4.5)), (Some(0.26), None), (None, None)] {
            let broadcast =
                Broadcast { target, bytes, seconds, pause_s: None, quiet_s: None, native_s };
            assert!(program.claim(LONG));
            program.slot.record(&broadcast, arborcast_proto::monotonic_ns());
        }
        program.connection.tell(&Ask::Ring).unwrap();
        program
    }

    /// What a program on node 5 tells of a broadcast that came along two trees, along one of them `late_s`
    /// after the other.
    pub fn delivery(&self, bytes: u64, late_s: f64) -> DeliveryReport {
        let second = 1_000_000_000;
        let stripe = |stripe, from, late_s: f64| StripeDelivery {
            stripe,
            from,
            bytes: bytes / 2,
            first_ns: second,
            last_ns: second + second / 10 + (late_s * 1e9) as u64,
        };
        DeliveryReport {
            target: Target { group: self.group.hash(), root: 0, class: SizeClass::of(bytes) },
            bytes,
            broadcast: 1,
            is_native: false,
            node: 5,
            listened_late: false,
            acknowledged: false,
            processor_wait_ns: 0,
            stripes: vec![stripe(0, 1, 0.0), stripe(1, 4, late_s)],
        }
    }

    /// What an experiment tells of a target's nodes, of which node 9 is the latest.
    pub fn lateness(&self, bytes: u64) -> Lateness {
        let target = Target { group: self.group.hash(), root: 0, class: SizeClass::of(bytes) };
        let node = |(node, took_s): (u16, f64)| NodeLateness {
            node,
            reports: 15,
            listened_late: node % 7,
            took_s,
            processor_wait_s: f64::from(node % 3) * 0.002,
        };
        let mut latest: Vec<_> = [(9, 0.31), (8, 0.214), (10, 0.2), (1, 0.09)].map(node).into();
        latest[0].processor_wait_s = 0.002;
        Lateness { target, nodes: 15, median_s: 0.1, latest }
    }

    /// Two paced trees over the nodes in their order, a chain of sites' first nodes and a binomial tree. Another
    /// plan after each that was published.
    pub fn plan(&self, root: usize) -> Plan {
        let n = self.group.len();
        let parent = |node: usize| match (node + n - root) % n {
            0 => None,
            place if place % 4 == 0 => Some((place - 4 + root) % n),
            place => Some((place - place % 4 + root) % n),
        };
        let chain = Tree::from_parents(&(0..n).map(parent).collect::<Vec<_>>()).unwrap();
        let mut paced = [Stripe::new(chain, 3), Stripe::new(Tree::binomial(n, root).unwrap(), 1)];
        paced[0].bytes_per_s = NonZeroU64::new(4_000_000);
        paced[1].bytes_per_s = NonZeroU64::new(1_100_000);
        Plan::Trees(Striping::new(paced.to_vec(), (16 << 10) + 256 * self.published).unwrap())
    }

    pub fn publish(&mut self, root: u16, bytes: u64, median_s: f64, is_measured: bool) {
        self.published += 1;
        let native = Times::of(&[4.4, 4.5, 4.6]).unwrap();
        let measured = Times::of(&[0.95 * median_s, median_s, 1.1 * median_s]).unwrap();
        self.say(&Ask::Publish(Box::new(Finding {
            group: self.group.clone(),
            root,
            bytes,
            plan: self.plan(root.into()),
            times: if is_measured { measured } else { Times::predicted(median_s) },
            native: Some(native),
            limit_s: Some(0.13),
            strategy: "guided".into(),
            trials: 12,
            search_s: 40.0,
            reason: Some(Reason {
                predicted_s: Some(0.9 * median_s),
                interval_s: (0.95 * median_s, 1.1 * median_s),
                against: Some(Rival { plan: Plan::Native, times: native, interval_s: (4.4, 4.6) }),
            }),
        })));
    }

    /// A search that comes down from 4 s.
    pub fn search(&mut self, root: u16, bytes: u64, trials: u32) {
        let (group, class) = (self.group.hash(), SizeClass::of(bytes));
        let mut best_s = f64::INFINITY;
        for number in 1..=trials {
            let scatter = 1.0 + f64::from(number * 7919 % 13) / 13.0;
            let median_s = 0.25 + 4.0 * scatter / f64::from(number);
            best_s = best_s.min(median_s);
            self.say(&Ask::Trial(Box::new(TrialRecord {
                target: Target { group, root, class },
                bytes,
                number,
                plan: self.plan(root.into()),
                times: Times::of(&[median_s]),
                predicted_s: Some(0.8 * median_s),
                best_s: Some(best_s),
                strategy: "guided".into(),
                search_s: 3.0 * f64::from(number),
                unix_s: 1.79e9 + 3.0 * f64::from(number),
            })));
        }
    }
}
