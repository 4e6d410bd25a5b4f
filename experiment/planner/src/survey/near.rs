//! *Near*: which nodes are close to each other. Empty messages go from a landmark to all nodes; the next
//! landmark is the node farthest from those so far, until every node is near one (the k-centre heuristic:
//! T. F. Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985). What is near follows
//! from the widest gap between the round trips, and is never as far as sites are apart. A node that was found near to
//! no landmark, once there are [`MAX_LANDMARKS`], joins one that looks the same from all of them.

use super::rounds::{NEAR_PINGS, PINGS, Rounds, rounds_of_pairs};
use crate::measurement::{Seconds, Transfer, TransferResult};
use crate::model::network::DEFAULT_OVERHEAD_S;

/// More landmarks than this don't tell nodes apart any better.
const MAX_LANDMARKS: usize = 16;
/// Round trips that differ by this factor, with nothing between them, are those of near and of far
/// nodes.
const MIN_GAP: f64 = 4.0;
/// Nodes with this round trip are in two sites, however much farther others are: of [`NEAR_PINGS`] messages one finds
/// its processor free.
const BETWEEN_SITES_S: Seconds = 2e-3;
/// Without a gap, nodes within this round trip are near.
const NEAR_S: Seconds = 1e-3;
/// What took less may be shorter still: a busy processor adds milliseconds.
const MAY_BE_NEAR_S: Seconds = 20e-3;
/// A round trip below this says nothing but "near".
const SHORTEST_S: Seconds = 50e-6;
/// Number of empty messages that leave a landmark at once: few enough to tell milliseconds. For what may be
/// less, fewer still, so that none waits for another's processor.
const AT_ONCE: usize = 16;
const NEAR_AT_ONCE: usize = 4;
/// Round trips from a landmark to two near nodes may differ by this fraction through noise alone.
const NOISE: f64 = 0.1;

/// Round trips from the landmarks, then clusters.
#[derive(Debug)]
pub(super) struct Near {
    root: usize,
    landmarks: Vec<usize>,
    /// `round_trips[l][node]` from landmark l: 0 for itself, infinite where it was not asked for, since
    /// the node was known to be near an earlier landmark.
    round_trips: Vec<Vec<Seconds>>,
    /// The first node of each node's cluster, once known.
    leader: Vec<Option<usize>>,
    /// Leaders found after the landmarks.
    late_leaders: Vec<usize>,
    /// For each node the leaders that look alike and that it was found not to be near to.
    refused: Vec<Vec<usize>>,
    step: Step,
}

/// What is measured next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// How far all nodes are from the newest landmark.
    Landmark,
    /// The same once more, for those that may be near.
    SecondLook,
    /// Whether nodes are near the leaders that look alike.
    Candidates,
}

impl Near {
    pub fn new(nodes: usize, root: usize) -> Self {
        Near {
            root,
            landmarks: vec![root],
            round_trips: Vec::new(),
            leader: vec![None; nodes],
            late_leaders: Vec::new(),
            refused: vec![Vec::new(); nodes],
            step: Step::Landmark,
        }
    }

    /// What to measure next; empty once every node has its cluster.
    pub fn ask(&mut self) -> Rounds {
        if self.leader.len() == 1 {
            self.leader[0] = Some(0);
        }
        loop {
            let rounds = match self.step {
                Step::Landmark if self.leader.len() > 1 => {
                    let landmark = self.landmarks[self.landmarks.len() - 1];
                    self.ask_landmark(landmark)
                }
                Step::SecondLook => self.ask_again(),
                Step::Landmark | Step::Candidates => return self.ask_candidates(),
            };
            if !rounds.is_empty() {
                return rounds;
            }
            match self.step {
                Step::SecondLook => self.choose_landmark(),
                Step::Landmark | Step::Candidates => self.step = Step::Candidates,
            }
        }
    }

    pub fn observe(&mut self, rounds: &[Vec<Transfer>], results: &[Vec<TransferResult>]) {
        let seconds = results.iter().flatten().map(|result| result.seconds);
        let measured = rounds.iter().flatten().zip(seconds);
        match self.step {
            Step::Landmark => {
                let mut row = vec![f64::INFINITY; self.leader.len()];
                row[self.landmarks[self.round_trips.len()]] = 0.0;
                self.round_trips.push(row);
                self.note_round_trips(measured);
                self.step = Step::SecondLook;
            }
            Step::SecondLook => {
                self.note_round_trips(measured);
                self.choose_landmark();
            }
            Step::Candidates => {
                let cut = self.near_s();
                for (transfer, seconds) in measured {
                    if seconds < cut {
                        self.leader[transfer.to] = Some(transfer.from);
                    } else {
                        self.refused[transfer.to].push(transfer.from);
                    }
                }
            }
        }
    }

    /// Keeps the least of what was measured from the newest landmark.
    fn note_round_trips<'a>(&mut self, measured: impl Iterator<Item = (&'a Transfer, Seconds)>) {
        let Some(row) = self.round_trips.last_mut() else { return };
        for (transfer, seconds) in measured {
            row[transfer.to] = seconds.max(0.0).min(row[transfer.to]);
        }
    }

    /// The last landmark's round trips, where they may be short.
    fn ask_again(&self) -> Rounds {
        let last = self.landmarks.iter().zip(&self.round_trips).next_back();
        let Some((&landmark, row)) = last else { return Vec::new() };
        let may_be_near = |&node: &usize| node != landmark && row[node] < MAY_BE_NEAR_S;
        let nodes: Vec<usize> = (0..row.len()).filter(may_be_near).collect();
        self.pings(landmark, &nodes, NEAR_PINGS, NEAR_AT_ONCE)
    }

    fn pings(&self, from: usize, to: &[usize], repetitions: u32, at_once: usize) -> Rounds {
        let ping = |&to: &usize| Transfer::new((from, to), 0, repetitions);
        to.chunks(self.at_once(at_once)).map(|chunk| chunk.iter().map(ping).collect()).collect()
    }

    /// More than `few` where there are so many nodes that it would take too long.
    fn at_once(&self, few: usize) -> usize {
        few.max(self.leader.len() / 64)
    }

    fn ask_landmark(&self, landmark: usize) -> Rounds {
        let n = self.leader.len();
        let cut = self.near_s();
        let is_near = |node: usize| {
            !self.landmarks.contains(&node) && self.round_trips.iter().any(|row| row[node] < cut)
        };
        let others: Vec<usize> =
            (0..n).filter(|&node| node != landmark && !is_near(node)).collect();
        self.pings(landmark, &others, PINGS, AT_ONCE)
    }

    /// The round trip below which two nodes are near: in the middle of the widest gap, if no two sites are so near.
    fn near_s(&self) -> Seconds {
        let mut all: Vec<Seconds> = Vec::new();
        for (&landmark, row) in self.landmarks.iter().zip(&self.round_trips) {
            let others =
                row.iter().enumerate().filter(|(node, s)| *node != landmark && s.is_finite());
            all.extend(others.map(|(_, s)| s.max(SHORTEST_S)));
        }
        all.sort_by(f64::total_cmp);
        let widest = all
            .windows(2)
            .map(|pair| (pair[1] / pair[0], (pair[0] * pair[1]).sqrt()))
            .filter(|(gap, _)| *gap >= MIN_GAP)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        widest.map_or(NEAR_S, |(_, cut_s)| cut_s.min(BETWEEN_SITES_S))
    }

    /// Assigns nodes to landmarks that are near, and makes the farthest of the others a landmark.
    fn choose_landmark(&mut self) {
        let cut = self.near_s();
        let nearest = |node: usize| {
            let distances = self.landmarks.iter().zip(&self.round_trips);
            distances
                .map(|(&landmark, row)| (row[node], landmark))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .unwrap_or((0.0, self.root))
        };
        let distances: Vec<(Seconds, usize)> = (0..self.leader.len()).map(nearest).collect();
        let farthest =
            (0..distances.len()).max_by(|&a, &b| distances[a].0.total_cmp(&distances[b].0));
        let is_far = |node: &usize| distances[*node].0 >= cut;
        match farthest.filter(is_far) {
            Some(node) if self.landmarks.len() < MAX_LANDMARKS => {
                self.landmarks.push(node);
                self.step = Step::Landmark;
            }
            // The cut may still have moved while landmarks were added: assign with the last one.
            _ => {
                for (node, &(distance, landmark)) in distances.iter().enumerate() {
                    self.leader[node] = (distance < cut).then_some(landmark);
                }
                self.step = Step::Candidates;
            }
        }
    }

    /// For each node without a cluster a landmark or leader that looks the same from all landmarks; a node to
    /// which none does becomes a leader itself.
    fn ask_candidates(&mut self) -> Rounds {
        let cut = self.near_s();
        let n = self.leader.len();
        // At the landmark each waits for the others, when it leaves and when it is back.
        let wait_s = 2.0 * DEFAULT_OVERHEAD_S * self.at_once(AT_ONCE) as f64;
        let mut pairs = Vec::new();
        for node in 0..n {
            if self.leader[node].is_some() {
                continue;
            }
            // How much they differ as seen from the landmark from which they differ most. What a landmark saw
            // itself, with many messages at once, tells no more than that the node may be near.
            let unlike = |leader: usize| {
                let seen = self.landmarks.iter().zip(&self.round_trips);
                let asked = seen.filter(|(_, row)| row[node].is_finite());
                let unlike = asked.map(|(&landmark, row)| {
                    if landmark == leader {
                        row[node] / MAY_BE_NEAR_S
                    } else {
                        (row[node] - row[leader]).abs() / (cut + wait_s + NOISE * row[node])
                    }
                });
                unlike.fold(0.0, f64::max)
            };
            let leaders = self.landmarks.iter().chain(&self.late_leaders);
            let open = leaders.filter(|leader| !self.refused[node].contains(leader));
            let alike = open.map(|&leader| (unlike(leader), leader)).filter(|(d, _)| *d < 1.0);
            match alike.min_by(|a, b| a.0.total_cmp(&b.0)) {
                Some((_, leader)) => pairs.push((leader, node)),
                None => {
                    self.late_leaders.push(node);
                    self.leader[node] = Some(node);
                }
            }
        }
        let rounds = rounds_of_pairs(&pairs, n);
        let ping = |pair| Transfer::new(pair, 0, PINGS);
        rounds.into_iter().map(|round| round.into_iter().map(ping).collect()).collect()
    }

    /// Round trips of pairs of nodes, as far as they were measured.
    pub fn round_trips(&self) -> impl Iterator<Item = ((usize, usize), Seconds)> {
        let rows = self.landmarks.iter().zip(&self.round_trips);
        rows.flat_map(|(&landmark, row)| {
            let others = row.iter().enumerate().filter(move |(node, _)| *node != landmark);
            others.filter(|(_, s)| s.is_finite()).map(move |(node, &s)| ((landmark, node), s))
        })
    }

    /// The clusters, that of the root first of all and with the root first.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let n = self.leader.len();
        let mut place = vec![usize::MAX; n];
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut order: Vec<usize> = vec![self.root];
        order.extend((0..n).filter(|&node| node != self.root));
        for node in order {
            let leader = self.leader[node].unwrap_or(node);
            if place[leader] == usize::MAX {
                place[leader] = members.len();
                members.push(Vec::new());
            }
            members[place[leader]].push(node);
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::model::network::Network;

    /// What is found where each message of a round waits for those before it, when it leaves and when it is back.
    fn members_found(network: &Network) -> Vec<Vec<usize>> {
        let mut near = Near::new(network.len(), 0);
        loop {
            let rounds = near.ask();
            if rounds.is_empty() {
                return near.members();
            }
            let of_round = |round: &Vec<Transfer>| {
                let answer = |(place, transfer): (usize, &Transfer)| {
                    let Transfer { from, to, .. } = *transfer;
                    let round_trip_s = network.latency_s(from, to) + network.latency_s(to, from);
                    let before = round[..place].iter().filter(|earlier| earlier.from == from);
                    let wait_s = 2.0 * DEFAULT_OVERHEAD_S * before.count() as f64;
                    TransferResult::timed(round_trip_s + wait_s)
                };
                round.iter().enumerate().map(answer).collect()
            };
            let results: Vec<Vec<TransferResult>> = rounds.iter().map(of_round).collect();
            near.observe(&rounds, &results);
        }
    }

    #[test]
    fn nodes_that_have_waited_differently_are_of_one_site() {
        for seed in 1..=5 {
            let network = grids::random(50, 150, seed);
            assert_eq!(members_found(&network).len(), network.sites().len(), "seed {seed}");
        }
    }
}
