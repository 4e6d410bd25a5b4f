use super::*;
use crate::model::grids;
use crate::model::simulate::reports;
use crate::propose::propose;
use crate::propose::site_plan::USUAL_PACING;
use arborcast_proto::{GroupHash, Plan, SizeClass, Striping, Target};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cell::RefCell;
use std::rc::Rc;

const BYTES: u64 = 1 << 20;
const MBIT: f64 = 1e6 / 8.0;

/// A program that broadcasts along the model's plan, and the monitor that hears of it.
struct Program {
    known: Network,
    striping: Striping,
    monitor: Monitor,
    links: Rc<RefCell<Links>>,
    random: ChaCha8Rng,
    number: u32,
}

impl Program {
    fn new(known: Network) -> Self {
        Program::from_root(known, 0, Rc::default())
    }

    fn from_root(known: Network, root: usize, links: Rc<RefCell<Links>>) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(1 + root as u64);
        let plan = propose(&known, root, BYTES, USUAL_PACING, &mut random).remove(0).plan;
        let Plan::Trees(striping) = plan else { panic!("trees") };
        Program { known, striping, monitor: Monitor::default(), links, random, number: 0 }
    }

    /// A program of which six ranks broadcast in turns.
    fn from_roots(known: &Network) -> Vec<Self> {
        let links = Rc::default();
        let of_root = |root| Program::from_root(known.clone(), root, Rc::clone(&links));
        (0..6).map(of_root).collect()
    }

    /// Broadcasts on a network as it really is; each node's clock is its own, and each time off by up to
    /// a tenth. `also` may spoil what a node says.
    fn broadcast(
        &mut self,
        network: &Network,
        also: impl Fn(&mut DeliveryReport),
    ) -> Option<Change> {
        let reports = self.reports(network);
        self.hear(&reports, also)
    }

    fn reports(&self, network: &Network) -> Vec<DeliveryReport> {
        let root = self.striping.root() as u16;
        let target = Target { group: GroupHash(1), root, class: SizeClass::of(BYTES) };
        reports(network, &self.striping, target, BYTES)
    }

    fn hear(
        &mut self,
        reports: &[DeliveryReport],
        also: impl Fn(&mut DeliveryReport),
    ) -> Option<Change> {
        self.number += 1;
        let mut found = None;
        for report in reports {
            let mut report = report.clone();
            report.broadcast = self.number;
            let clock_ns = u64::from(report.node) * 1_000_000_000;
            for stripe in &mut report.stripes {
                let factor = 1.0 + 0.1 * self.random.random::<f64>();
                let took_ns = (stripe.last_ns - stripe.first_ns) as f64 * factor;
                stripe.first_ns += clock_ns;
                stripe.last_ns = stripe.first_ns + took_ns as u64;
            }
            also(&mut report);
            let mut links = self.links.borrow_mut();
            found = found.or(self.monitor.note(report, &mut links, &self.known));
        }
        found
    }

    /// After a while as usual: what is found on a changed network, and after how many broadcasts.
    fn finds(&mut self, changed: &Network) -> Option<(usize, Change)> {
        let usual = self.known.clone();
        for _ in 0..20 {
            assert_eq!(self.broadcast(&usual, |_| {}), None);
        }
        (1..=20).find_map(|count| Some((count, self.broadcast(changed, |_| {})?)))
    }
}

/// The sites between which the plan's first tree goes.
fn used_link(program: &Program) -> (usize, usize) {
    let sites = |node: usize| program.known.site_of(node);
    let tree = &program.striping.stripes()[0].tree;
    let parents = tree.parents();
    let edges = parents.iter().enumerate().filter_map(|(to, from)| Some(((*from)?, to)));
    edges.map(|(from, to)| (sites(from), sites(to))).find(|(from, to)| from != to).unwrap()
}

/// The rate of that link, and the network where it has fallen to one part of `parts`.
fn fallen_link(program: &Program, parts: f64) -> (Parameter, Network) {
    let (from, to) = used_link(program);
    let parameter = Parameter::LinkRate { from, to };
    let changed = parameter.set(&program.known, parameter.of(&program.known) / parts);
    (parameter, changed)
}

#[test]
fn a_link_that_falls_to_a_tenth_is_found_within_five_broadcasts() {
    let mut program = Program::new(grids::four_site_mesh());
    let (from, to) = used_link(&program);
    let parameter = Parameter::LinkRate { from, to };
    let tenth = parameter.of(&program.known) / 10.0;
    let changed = parameter.set(&program.known, tenth);
    let (count, change) = program.finds(&changed).expect("it shows");
    assert!(count <= 5, "{count}");
    assert_eq!(change.parameter, parameter);
    assert!((0.5..1.5).contains(&(change.value / tenth)), "{} Mbit/s", change.value / MBIT);
}

#[test]
fn a_link_that_falls_is_found_where_two_plans_are_used_in_turns() {
    let mut program = Program::new(grids::four_site_mesh());
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let plans = propose(&program.known, 0, BYTES, USUAL_PACING, &mut random).into_iter();
    let mut others = plans.filter_map(|proposal| proposal.plan.striping().cloned());
    let first_tree = |striping: &Striping| striping.stripes()[0].tree.clone();
    let is_other = |other: &Striping| first_tree(other) != first_tree(&program.striping);
    let other = others.find(is_other).expect("another plan");
    let (parameter, changed) = fallen_link(&program, 10.0);
    let usual = program.known.clone();
    let mut plans = [program.striping.clone(), other].into_iter().cycle();
    for network in std::iter::repeat_n(&usual, 20) {
        program.striping = plans.next().unwrap();
        assert_eq!(program.broadcast(network, |_| {}), None);
    }
    let found = (1..=20).find_map(|count| {
        program.striping = plans.next().unwrap();
        Some((count, program.broadcast(&changed, |_| {})?))
    });
    let (count, change) = found.expect("it shows");
    assert!(count <= 10, "{count}");
    assert_eq!(change.parameter, parameter);
}

#[test]
fn what_a_fallen_link_has_slowed_down_has_not_fallen_too() {
    let mut program = Program::new(grids::four_site_mesh());
    let (parameter, changed) = fallen_link(&program, 10.0);
    let usual = program.known.clone();
    for _ in 0..20 {
        assert_eq!(program.broadcast(&usual, |_| {}), None);
    }
    // What goes over another link waits for what goes over that one.
    let fallen = used_link(&program);
    let sites = |from: u16, to: u16| (usual.site_of(from.into()), usual.site_of(to.into()));
    let links = |report: &DeliveryReport| {
        let link = |stripe: &StripeDelivery| sites(stripe.from, report.node);
        report.stripes.iter().map(link).collect::<Vec<_>>()
    };
    let mut used = program.reports(&usual).into_iter().flat_map(|report| links(&report));
    let is_other = |&(from, to): &(usize, usize)| from != to && from != fallen.0 && to != fallen.1;
    let other = used.find(is_other).expect("another link");
    let waits = |report: &mut DeliveryReport| {
        let node = report.node;
        for stripe in report.stripes.iter_mut().filter(|seen| sites(seen.from, node) == other) {
            stripe.last_ns += (stripe.last_ns - stripe.first_ns) * 6 / 5;
        }
    };
    let found = (1..=20).find_map(|_| program.broadcast(&changed, waits));
    let change = found.expect("it shows");
    assert_eq!(change.parameter, parameter);
    let corrected = change.apply(&usual);
    program.monitor.forget_what_differs(&usual, &corrected);
    program.known = corrected;
    // Along the same plan until there is another one.
    for _ in 0..2 {
        assert_eq!(program.broadcast(&changed, waits), None);
    }
}

#[test]
fn a_link_that_becomes_longer_is_found() {
    let mut program = Program::new(grids::four_site_mesh());
    let (from, to) = used_link(&program);
    let parameter = Parameter::LinkLatency { from, to };
    let longer_s = parameter.of(&program.known) + 50e-3;
    let changed = parameter.set(&program.known, longer_s);
    let (count, change) = program.finds(&changed).expect("it shows");
    assert!(count <= 5, "{count}");
    assert_eq!(change.parameter, parameter);
    assert!((change.value - longer_s).abs() < 10e-3, "{} s", change.value);
}

#[test]
fn an_uplink_that_falls_is_told_from_its_links() {
    let mut program = Program::new(grids::five_regions());
    let parameter = Parameter::Egress(0);
    let changed = parameter.set(&program.known, parameter.of(&program.known) / 10.0);
    let (_, change) = program.finds(&changed).expect("it shows");
    let sends_all = Parameter::Send(0);
    assert!([parameter, sends_all].contains(&change.parameter), "{change:?}");
}

#[test]
fn a_late_program_and_a_busy_processor_are_no_change() {
    let mut program = Program::new(grids::four_site_mesh());
    let network = program.known.clone();
    let later = |report: &mut DeliveryReport, first_ns: u64, last_ns: u64| {
        for stripe in &mut report.stripes {
            stripe.first_ns += first_ns;
            stripe.last_ns = stripe.first_ns.max(stripe.last_ns + last_ns);
        }
    };
    for number in 0..50 {
        let change = program.broadcast(&network, |report| match report.node {
            // What came meanwhile is there at once, or its sender has waited.
            5 | 6 if number > 20 => {
                later(report, 400_000_000, if report.node == 5 { 0 } else { 400_000_000 });
                report.listened_late = true;
            }
            9 if number > 20 => {
                later(report, 100_000_000, 400_000_000);
                report.processor_wait_ns = 350_000_000;
            }
            _ => {}
        });
        assert_eq!(change, None, "broadcast {number}");
    }
}

#[test]
fn a_link_that_falls_is_found_where_programs_listen_late() {
    let mut program = Program::new(grids::four_site_mesh());
    let (parameter, changed) = fallen_link(&program, 10.0);
    let usual = program.known.clone();
    for _ in 0..20 {
        assert_eq!(program.broadcast(&usual, |_| {}), None);
    }
    let late = |report: &mut DeliveryReport| {
        report.listened_late = true;
        for stripe in &mut report.stripes {
            stripe.first_ns = stripe.last_ns.min(stripe.first_ns + 20_000_000);
        }
    };
    let found = (0..5).find_map(|_| program.broadcast(&changed, late));
    assert_eq!(found.map(|change| change.parameter), Some(parameter));
}

#[test]
fn what_nodes_have_missed_keeps_no_later_broadcast_waiting() {
    let program = Program::new(grids::four_site_mesh());
    let nodes = program.known.len();
    let of_all = program.reports(&program.known);
    let mut broadcasts = Broadcasts::default();
    let mut told = |broadcast, by: std::ops::Range<usize>| -> Vec<usize> {
        for report in &of_all[by] {
            broadcasts.note(DeliveryReport { broadcast, ..report.clone() }, nodes);
        }
        std::iter::from_fn(|| broadcasts.next(nodes)).map(|spoke| spoke.len()).collect()
    };
    assert_eq!(told(1, 3..nodes), [], "others may follow");
    assert_eq!(told(2, 0..2), []);
    assert_eq!(told(2, 2..nodes), [nodes - 3, nodes]);
}

#[test]
fn a_root_that_sends_all_it_has_late_is_no_longer_way() {
    let mut program = Program::new(grids::four_site_mesh());
    let network = program.known.clone();
    for number in 0..50 {
        let change = program.broadcast(&network, |report| {
            for stripe in report.stripes.iter_mut().filter(|stripe| stripe.from == 0) {
                let later_ns = if number > 20 && report.node != 0 { 50_000_000 } else { 0 };
                stripe.first_ns += later_ns;
                stripe.last_ns += later_ns;
            }
        });
        assert_eq!(change, None, "broadcast {number}");
    }
}

#[test]
fn a_sender_without_its_processor_is_no_change() {
    let mut program = Program::new(grids::four_site_mesh());
    let network = program.known.clone();
    for number in 0..50 {
        // The root sends late what its children then receive late; their own processors are free.
        let change = program.broadcast(&network, |report| {
            if number <= 20 {
                return;
            }
            for stripe in report.stripes.iter_mut().filter(|stripe| stripe.from == 0) {
                stripe.last_ns += 300_000_000;
            }
            if report.node == 0 {
                report.processor_wait_ns = 350_000_000;
            }
        });
        assert_eq!(change, None, "broadcast {number}");
    }
}

#[test]
fn a_node_that_sends_a_little_more_slowly_has_not_lost_its_interface() {
    let mut program = Program::new(grids::four_site_mesh());
    let network = program.known.clone();
    for number in 0..50 {
        let change = program.broadcast(&network, |report| {
            for stripe in report.stripes.iter_mut().filter(|stripe| stripe.from == 0) {
                let longer_ns = (stripe.last_ns - stripe.first_ns) / 2;
                stripe.last_ns += if number > 20 { longer_ns } else { 0 };
            }
        });
        assert_eq!(change, None, "broadcast {number}");
    }
}

#[test]
fn a_processor_that_is_always_shared_does_not_excuse_a_link_that_has_fallen() {
    let mut program = Program::new(grids::four_site_mesh());
    let (parameter, changed) = fallen_link(&program, 4.0);
    let usual = program.known.clone();
    let shared = |report: &mut DeliveryReport| {
        report.processor_wait_ns = (0.8 * report.seconds() * 1e9) as u64;
    };
    for _ in 0..20 {
        assert_eq!(program.broadcast(&usual, shared), None);
    }
    let found = (0..6).find_map(|_| program.broadcast(&changed, shared));
    assert_eq!(found.map(|change| change.parameter), Some(parameter));
}

/// A broadcast every half a minute for a day.
#[test]
fn a_day_of_noise_is_no_change() {
    let mut program = Program::new(grids::four_site_mesh());
    let reports = program.reports(&program.known);
    for number in 0..86_400 / 30 {
        assert_eq!(program.hear(&reports, |_| {}), None, "broadcast {number}");
    }
}

#[test]
fn roots_that_take_turns_tell_together_what_has_changed() {
    let usual = grids::four_site_mesh();
    let (from, to) = (0, 1);
    let (rate, latency) = (Parameter::LinkRate { from, to }, Parameter::LinkLatency { from, to });
    let tenth = rate.of(&usual) / 10.0;
    let longer_s = latency.of(&usual) + 50e-3;
    for (parameter, value) in [(rate, tenth), (latency, longer_s)] {
        let changed = parameter.set(&usual, value);
        let mut programs = Program::from_roots(&usual);
        for _ in 0..5 {
            for program in &mut programs {
                assert_eq!(program.broadcast(&usual, |_| {}), None);
            }
        }
        let mut turns = (1..).zip(&mut programs);
        let found =
            turns.find_map(|(count, program)| Some((count, program.broadcast(&changed, |_| {})?)));
        let (count, change) = found.expect("it shows before a root has its second turn");
        assert!(count <= 5, "{parameter:?} after {count}");
        assert_eq!(change.parameter, parameter);
        assert!((0.5..1.5).contains(&(change.value / value)), "{change:?}");
    }
}

/// A link became slower, and before that was certain other roots alone broadcast, along plans without it.
#[test]
fn a_link_that_nobody_uses_any_more_hides_no_longer_way() {
    let usual = grids::four_site_mesh();
    let mut programs = Program::from_roots(&usual);
    let (first, second) = programs.split_at_mut(4);
    let (before, after) = (&mut first[0], &mut second[0]);
    for _ in 0..20 {
        assert_eq!(before.broadcast(&usual, |_| {}), None);
        assert_eq!(after.broadcast(&usual, |_| {}), None);
    }
    let (_, slower) = fallen_link(before, 10.0);
    for _ in 0..2 {
        assert_eq!(before.broadcast(&slower, |_| {}), None);
    }
    let (from, to) = used_link(after);
    let edge = Edge { from: from * 4, to: to * 4 };
    assert!(before.links.borrow().may_queue(&edge, &usual));
    assert_ne!((from, to), used_link(before));
    let parameter = Parameter::LinkLatency { from, to };
    let longer = parameter.set(&usual, parameter.of(&usual) + 50e-3);
    let found = (0..20).find_map(|_| after.broadcast(&longer, |_| {}));
    assert_eq!(found.map(|change| change.parameter), Some(parameter));
}

/// Two broadcasts a minute, by one root after the other.
#[test]
fn a_day_of_noise_is_no_change_where_roots_take_turns() {
    let mut programs = Program::from_roots(&grids::four_site_mesh());
    let reports: Vec<_> = programs.iter().map(|program| program.reports(&program.known)).collect();
    for number in 0..86_400 / 30 {
        let root = number % programs.len();
        assert_eq!(programs[root].hear(&reports[root], |_| {}), None, "broadcast {number}");
    }
}

#[test]
fn nodes_that_never_speak_and_nonsense_are_no_obstacle() {
    let mut program = Program::new(grids::four_site_mesh());
    let (parameter, changed) = fallen_link(&program, 10.0);
    let usual = program.known.clone();
    let silent = |report: &mut DeliveryReport| {
        if report.node == 15 {
            report.node = 999;
        }
    };
    for _ in 0..20 {
        assert_eq!(program.broadcast(&usual, silent), None);
    }
    let found = (0..10).find_map(|_| program.broadcast(&changed, silent));
    assert_eq!(found.map(|change| change.parameter), Some(parameter));
}

#[test]
fn what_a_child_gets_as_slowly_as_its_parent_is_not_its_own_fault() {
    let mut program = Program::new(grids::four_site_mesh());
    let (parameter, changed) = fallen_link(&program, 10.0);
    let network = program.known.clone();
    // Inside sites pieces come in bursts, but where the parent waits for each of them.
    let burst = |in_site: &dyn Fn(usize) -> bool, report: &mut DeliveryReport| {
        let site = network.site_of(report.node.into());
        let is_inside = |from: u16| network.site_of(from.into()) == site && in_site(site);
        for stripe in report.stripes.iter_mut().filter(|stripe| is_inside(stripe.from)) {
            stripe.first_ns = stripe.last_ns - (stripe.last_ns - stripe.first_ns) / 10;
        }
    };
    for _ in 0..20 {
        assert_eq!(program.broadcast(&network, |report| burst(&|_| true, report)), None);
    }
    let at_root = |site| site == network.site_of(0);
    let found = (0..5).find_map(|_| program.broadcast(&changed, |report| burst(&at_root, report)));
    assert_eq!(found.map(|change| change.parameter), Some(parameter));
}

#[test]
fn a_stripe_that_is_slow_by_itself_does_not_hide_a_link_that_has_fallen() {
    let mut program = Program::new(grids::four_site_mesh());
    let (from, to) = used_link(&program);
    let (parameter, changed) = fallen_link(&program, 10.0);
    let usual = program.known.clone();
    for _ in 0..20 {
        assert_eq!(program.broadcast(&usual, |_| {}), None);
    }
    let slow = (0..16).rfind(|&node| ![from, to].contains(&usual.site_of(node))).unwrap();
    let slow_too = |report: &mut DeliveryReport| {
        let is_slow = usize::from(report.node) == slow;
        if let Some(stripe) = report.stripes.first_mut().filter(|_| is_slow) {
            stripe.last_ns += 2_000_000_000;
        }
    };
    let found = (0..5).find_map(|_| program.broadcast(&changed, slow_too));
    assert_eq!(found.map(|change| change.parameter), Some(parameter));
}

#[test]
fn what_follows_late_does_not_hide_a_link_that_has_fallen() {
    let mut program = Program::new(grids::four_site_mesh());
    let link = used_link(&program);
    let (parameter, changed) = fallen_link(&program, 10.0);
    let usual = program.known.clone();
    let sites = |from: usize, to: usize| (usual.site_of(from), usual.site_of(to));
    let stripes = program.striping.stripes().iter();
    let passes_link: Vec<bool> = stripes
        .map(|stripe| {
            let mut passes = false;
            stripe.tree.for_each_edge(|from, to| passes |= sites(from, to) == link);
            passes
        })
        .collect();
    // A piece waits at the far end of the link until it is whole; two have waited before.
    let later = |report: &mut DeliveryReport| {
        let leaves = |stripe: &StripeDelivery| {
            let (from, to) = sites(stripe.from.into(), report.node.into());
            passes_link[usize::from(stripe.stripe)] && from == link.1 && to != link.1
        };
        for stripe in report.stripes.iter_mut().filter(|stripe| leaves(stripe)) {
            stripe.first_ns += 160_000_000;
            stripe.last_ns += 160_000_000;
        }
    };
    for number in 0..20 {
        let change = match number {
            18.. => program.broadcast(&usual, later),
            _ => program.broadcast(&usual, |_| {}),
        };
        assert_eq!(change, None, "broadcast {number}");
    }
    let found = (0..5).find_map(|_| program.broadcast(&changed, later));
    assert_eq!(found.map(|change| change.parameter), Some(parameter));
}

#[test]
fn connections_that_start_anew_after_a_longer_broadcast_are_not_its_cause() {
    let mut program = Program::new(grids::four_site_mesh());
    let (parameter, changed) = fallen_link(&program, 20.0);
    let usual = program.known.clone();
    for _ in 0..20 {
        assert_eq!(program.broadcast(&usual, |_| {}), None);
    }
    let root_site = usual.site_of(0);
    let twice = |report: &mut DeliveryReport| {
        let to = usual.site_of(report.node.into());
        let is_other = |from: u16| {
            let from = usual.site_of(from.into());
            from == root_site && to != from && Parameter::LinkRate { from, to } != parameter
        };
        for stripe in report.stripes.iter_mut().filter(|stripe| is_other(stripe.from)) {
            stripe.last_ns += stripe.last_ns - stripe.first_ns;
        }
    };
    let found = (0..5).find_map(|_| program.broadcast(&changed, twice));
    assert_eq!(found.map(|change| change.parameter), Some(parameter));
}

#[test]
fn the_slower_of_two_links_is_blamed_first_though_the_other_has_more_edges() {
    let mut edges = BTreeMap::new();
    let network = grids::four_site_mesh();
    // From the first site two edges to the third, twice as slow, and one to the second, twenty times.
    for (stripe, to, times) in [(0, 4, 20.0), (1, 8, 2.0), (2, 9, 2.0)] {
        let mut history = History::default();
        for count in 0..6 {
            let seconds = if count < 3 { 0.05 } else { 0.05 * times };
            let last_ns = (seconds * 1e9) as u64;
            history.last =
                Some(Delivery { stripes: vec![stripe], bytes: 500_000, first_ns: 0, last_ns });
            history.note_transfer(seconds, 0.05, 0.0);
        }
        edges.insert(Edge { from: 0, to }, history);
    }
    let found = diagnosis::change(&mut edges, &mut Links::default(), &network)
        .map(|change| change.parameter);
    assert_eq!(found, Some(Parameter::LinkRate { from: 0, to: 1 }));
}

#[test]
fn what_nobody_acts_on_is_found_again() {
    let mut program = Program::new(grids::four_site_mesh());
    let (_, changed) = fallen_link(&program, 10.0);
    let (_, change) = program.finds(&changed).expect("it shows");
    let again = (0..5).find_map(|_| program.broadcast(&changed, |_| {}));
    assert_eq!(again.map(|again| again.parameter), Some(change.parameter));
}
