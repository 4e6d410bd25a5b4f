//! How the links between sites were, each time that an experiment told of them.
//!
//! A sample has what the page shows of the pairs of sites of that time. Which nodes are a site may change from
//! one to the next, so a history is asked for by two nodes and follows the sites that they were in.

use super::Sites;
use arborcast_proto::{Group, GroupHash, LinkMatrix};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Of one group. The newest hundred are whole; of those before, where there are more, one goes that had others
/// near by for its age, so that they reach back to the first with ever wider steps.
const MAX_SAMPLES: usize = 200;
/// Of all groups; the largest thins out first.
const MAX_BYTES: usize = 8 << 20;

/// The samples of every group, oldest first.
#[derive(Debug, Default)]
pub struct LinkHistory {
    groups: BTreeMap<GroupHash, VecDeque<Sample>>,
}

#[derive(Debug)]
struct Sample {
    unix_s: f64,
    /// The place of each node's site, where it is one of those that are shown.
    place_of: Arc<[Option<u8>]>,
    sites: usize,
    /// From each site to each.
    cells: Vec<Cell>,
}

/// NaN where a site has one node only, to itself.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Of the fastest pair, in bytes per second.
    rate: f32,
    /// One way, the mean of all pairs.
    latency_s: f32,
}

/// The link between two sites at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSample {
    /// Seconds since 1970.
    pub unix_s: f64,
    /// Of the fastest pair, in bytes per second; infinite where nothing limits it.
    pub rate_there: f64,
    pub rate_back: f64,
    pub round_trip_s: f64,
}

impl Sample {
    fn bytes(&self) -> usize {
        size_of::<Sample>() + size_of::<Cell>() * self.cells.len() + 2 * self.place_of.len()
    }

    fn cell(&self, from: usize, to: usize) -> Option<Cell> {
        let place = |node: usize| Some(usize::from((*self.place_of.get(node)?)?));
        let cell = *self.cells.get(place(from)? * self.sites + place(to)?)?;
        (!cell.rate.is_nan()).then_some(cell)
    }
}

impl LinkHistory {
    /// The links of a group as they were measured now.
    pub fn note(&mut self, group: &Group, links: &LinkMatrix, unix_s: f64) {
        let sites = Sites::of_links(group, links);
        let place_of: Arc<[Option<u8>]> =
            (0..group.len()).map(|node| sites.place_of(node).map(|place| place as u8)).collect();
        let shown = sites.shown_sites();
        let cell = |a: usize, b: usize| {
            let pairs = sites.pairs(links, a, b);
            pairs.map_or(Cell { rate: f32::NAN, latency_s: f32::NAN }, |pairs| Cell {
                rate: pairs.fastest as f32,
                latency_s: pairs.latency_s as f32,
            })
        };
        let cells = shown.iter().flat_map(|&a| shown.iter().map(move |&b| (a, b)));
        let cells = cells.map(|(a, b)| cell(a, b)).collect();
        let samples = self.groups.entry(group.hash()).or_default();
        // A hash that stands for other nodes now.
        samples.retain(|sample| sample.place_of.len() == place_of.len());
        let same = samples.back().map(|last| &last.place_of).filter(|last| **last == place_of);
        let place_of = same.cloned().unwrap_or(place_of);
        samples.push_back(Sample { unix_s, place_of, sites: shown.len(), cells });
        if samples.len() > MAX_SAMPLES {
            thin(samples);
        }
        while self.bytes() > MAX_BYTES {
            let bytes =
                |samples: &VecDeque<Sample>| samples.iter().map(Sample::bytes).sum::<usize>();
            let Some(largest) = self.groups.values_mut().max_by_key(|s| bytes(s)) else { return };
            thin(largest);
            self.groups.retain(|_, samples| !samples.is_empty());
        }
    }

    fn bytes(&self) -> usize {
        self.groups.values().flatten().map(Sample::bytes).sum()
    }

    /// The link from the site of one node to that of another one, oldest first.
    pub fn of(&self, group: GroupHash, from: usize, to: usize) -> Vec<LinkSample> {
        let samples = self.groups.get(&group).into_iter().flatten();
        let sample = |sample: &Sample| {
            let (there, back) = (sample.cell(from, to)?, sample.cell(to, from)?);
            Some(LinkSample {
                unix_s: sample.unix_s,
                rate_there: there.rate.into(),
                rate_back: back.rate.into(),
                round_trip_s: f64::from(there.latency_s) + f64::from(back.latency_s),
            })
        };
        samples.filter_map(sample).collect()
    }

    /// Without the groups whose links are forgotten.
    pub fn retain(&mut self, is_known: impl Fn(GroupHash) -> bool) {
        self.groups.retain(|group, _| is_known(*group));
    }
}

/// One sample goes.
fn thin(samples: &mut VecDeque<Sample>) {
    let newest_s = samples.back().map_or(0.0, |newest| newest.unix_s);
    let room = |place: &usize| {
        let (before_s, after_s) = (samples[place - 1].unix_s, samples[place + 1].unix_s);
        // Of those that are as old as the newest none is better than another one.
        (after_s - before_s) / (newest_s - before_s).max(1e-3)
    };
    let least = (1..samples.len() / 2).min_by(|a, b| room(a).total_cmp(&room(b)));
    samples.remove(least.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::NodeName;

    fn group(n: usize) -> Group {
        let name = |node: usize| NodeName::new(format!("n{node:04}")).unwrap();
        Group::new((0..n).map(name).collect()).unwrap()
    }

    /// Two nodes in each site; all links between sites have this rate.
    fn links(n: usize, rate: f64, is_near: impl Fn(usize, usize) -> bool) -> LinkMatrix {
        let cell = |cell: usize| (cell / n, cell % n);
        let latency = |(a, b)| if is_near(a, b) { 1e-4 } else { 0.02 };
        let latencies = (0..n * n).map(|i| latency(cell(i))).collect();
        LinkMatrix::new(n, latencies, vec![rate; n * n]).unwrap()
    }

    #[test]
    fn a_link_is_followed_also_where_sites_become_others() {
        let (group, mut history) = (group(6), LinkHistory::default());
        let pairs = |a: usize, b: usize| a / 2 == b / 2;
        history.note(&group, &links(6, 1e6, pairs), 10.0);
        history.note(&group, &links(6, 2e6, pairs), 20.0);
        let halves = |a: usize, b: usize| a / 3 == b / 3;
        history.note(&group, &links(6, 4e6, halves), 30.0);
        let told = history.of(group.hash(), 0, 5);
        let rates: Vec<_> = told.iter().map(|s| (s.unix_s, s.rate_there, s.rate_back)).collect();
        assert_eq!(rates, [(10.0, 1e6, 1e6), (20.0, 2e6, 2e6), (30.0, 4e6, 4e6)]);
        assert!((told[0].round_trip_s - 0.04).abs() < 1e-6, "{told:?}");
        // Nodes 2 and 3 were of one site, and are not any more.
        let near: Vec<_> = history.of(group.hash(), 2, 3).iter().map(|s| s.round_trip_s).collect();
        assert!(near[1] < 0.001 && near[2] > 0.03, "{near:?}");
        history.retain(|_| false);
        assert_eq!(history.of(group.hash(), 0, 5), []);
    }

    #[test]
    fn what_is_kept_is_bounded_and_reaches_back() {
        let (group, mut history) = (group(4), LinkHistory::default());
        for time in 0..5000 {
            history.note(&group, &links(4, 1e6, |a, b| a / 2 == b / 2), f64::from(time));
        }
        let times: Vec<_> = history.of(group.hash(), 0, 3).iter().map(|s| s.unix_s).collect();
        assert_eq!((times.len(), times[0]), (MAX_SAMPLES, 0.0));
        let newest: Vec<f64> = (4900..5000).map(f64::from).collect();
        assert_eq!(times[MAX_SAMPLES - 100..], newest);
        let widest = times[..=MAX_SAMPLES - 100]
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) / (5000.0 - pair[0]));
        assert!(widest.fold(0.0, f64::max) < 0.2, "{times:?}");
    }

    #[test]
    fn many_groups_of_many_sites_stay_within_their_memory() {
        let mut history = LinkHistory::default();
        for nodes in 64..70 {
            for time in 0..100 {
                history.note(&group(nodes), &links(nodes, 1e6, |a, b| a == b), f64::from(time));
            }
        }
        assert!(history.bytes() <= MAX_BYTES, "{}", history.bytes());
        assert_eq!(history.groups.len(), 6);
        let newest = history.of(group(64).hash(), 0, 1).last().copied().unwrap();
        assert_eq!(newest.unix_s, 99.0);
    }
}
