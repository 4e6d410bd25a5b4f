//! The most that can flow from one vertex of a directed graph to another one (E. A. Dinic, "Algorithm
//! for solution of a problem of maximum flow in a network with power estimation", 1970), and the least time in
//! which an amount does where arcs take time (*quickest flow*: R. E. Burkard, K. Dlaska, B. Klinz, "The quickest
//! flow problem", 1993). The latter sends as much as it can along the shortest ways, for as long as one more is
//! shorter than the time so far (flows repeated over time: L. R. Ford, D. R. Fulkerson, "Constructing maximal
//! dynamic flows from static flows", 1958).

use crate::measurement::Seconds;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A directed graph with capacities; arcs are kept in pairs, each beside its reverse.
#[derive(Debug, Clone)]
pub struct FlowGraph {
    arcs: Vec<Arc>,
    /// The arcs that leave each vertex.
    leaving: Vec<Vec<u32>>,
}

#[derive(Debug, Clone)]
struct Arc {
    to: u32,
    capacity: f64,
    residual: f64,
    /// What it takes to pass it; of a reverse the negative.
    seconds: Seconds,
}

/// What is left of an arc below this fraction of the largest finite capacity counts as nothing.
const NEGLIGIBLE: f64 = 1e-12;

impl FlowGraph {
    pub fn new(vertices: usize) -> Self {
        FlowGraph { arcs: Vec::new(), leaving: vec![Vec::new(); vertices] }
    }

    /// An arc that takes no time to pass. Capacities may be infinite.
    pub fn arc(&mut self, from: usize, to: usize, capacity: f64) {
        self.long_arc(from, to, capacity, 0.0);
    }

    /// An arc that takes some time to pass.
    pub fn long_arc(&mut self, from: usize, to: usize, capacity: f64, seconds: Seconds) {
        for (from, to, capacity, seconds) in
            [(from, to, capacity, seconds), (to, from, 0.0, -seconds)]
        {
            self.leaving[from].push(self.arcs.len() as u32);
            self.arcs.push(Arc { to: to as u32, capacity, residual: capacity, seconds });
        }
    }

    /// The value of a maximal flow; infinite where a path without any limit leads from `source` to
    /// `sink`. The graph can be asked again.
    pub fn max_flow(&mut self, source: usize, sink: usize) -> f64 {
        if self.has_unlimited_path(source, sink) {
            return f64::INFINITY;
        }
        let negligible = self.negligible();
        self.empty();
        let mut flow = 0.0;
        while let Some(levels) = self.levels(source, Some(sink), negligible) {
            let mut next = vec![0usize; self.leaving.len()];
            loop {
                let pushed = self.augment(source, sink, &levels, &mut next, negligible);
                if pushed <= 0.0 {
                    break;
                }
                flow += pushed;
            }
        }
        flow
    }

    /// The least time in which `amount`, above zero, gets from `source` to `sink`: until the last of it is there.
    /// Infinite where no way leads there.
    pub fn quickest_s(&mut self, source: usize, sink: usize, amount: f64) -> Seconds {
        let negligible = self.negligible();
        self.empty();
        // Seconds to each vertex by what is left, so that no arc of what is left is negative against them.
        let mut potential = vec![0.0; self.leaving.len()];
        let (mut flow, mut spent, mut quickest_s) = (0.0, 0.0, f64::INFINITY);
        while let Some(way) = self.shortest_way(source, sink, &mut potential, negligible) {
            let way_s = potential[sink] - potential[source];
            if way_s >= quickest_s {
                break;
            }
            let pushed = self.push(&way);
            if pushed.is_infinite() {
                return way_s;
            }
            flow += pushed;
            spent += pushed * way_s;
            quickest_s = (amount + spent) / flow;
        }
        quickest_s
    }

    /// The arcs of a shortest way from `source` to `sink` by what is left (E. W. Dijkstra, 1959); raises `potential`.
    fn shortest_way(
        &self,
        source: usize,
        sink: usize,
        potential: &mut [Seconds],
        negligible: f64,
    ) -> Option<Vec<u32>> {
        let mut reached_s = vec![f64::INFINITY; self.leaving.len()];
        let mut by_arc = vec![u32::MAX; self.leaving.len()];
        let mut is_done = vec![false; self.leaving.len()];
        reached_s[source] = 0.0;
        // Times that are not negative sort as their bits do.
        let mut due = BinaryHeap::from([Reverse((0f64.to_bits(), source))]);
        while let Some(Reverse((bits, vertex))) = due.pop() {
            if std::mem::replace(&mut is_done[vertex], true) {
                continue;
            }
            if vertex == sink {
                break;
            }
            for &index in &self.leaving[vertex] {
                let arc = &self.arcs[index as usize];
                let to = arc.to as usize;
                if arc.residual <= negligible || is_done[to] {
                    continue;
                }
                let arc_s = (arc.seconds + potential[vertex] - potential[to]).max(0.0);
                let there_s = f64::from_bits(bits) + arc_s;
                if there_s < reached_s[to] {
                    (reached_s[to], by_arc[to]) = (there_s, index);
                    due.push(Reverse((there_s.to_bits(), to)));
                }
            }
        }
        if !is_done[sink] {
            return None;
        }
        let farthest_s = reached_s[sink];
        for (potential, (reached_s, is_done)) in
            potential.iter_mut().zip(reached_s.iter().zip(&is_done))
        {
            *potential += if *is_done { *reached_s } else { farthest_s };
        }
        let mut way = Vec::new();
        let mut vertex = sink;
        while vertex != source {
            way.push(by_arc[vertex]);
            vertex = self.arcs[by_arc[vertex] as usize ^ 1].to as usize;
        }
        Some(way)
    }

    fn empty(&mut self) {
        for arc in &mut self.arcs {
            arc.residual = arc.capacity;
        }
    }

    fn negligible(&self) -> f64 {
        let finite = self.arcs.iter().map(|arc| arc.capacity).filter(|c| c.is_finite());
        finite.fold(0.0, f64::max) * NEGLIGIBLE
    }

    /// Pushes as much along a way as all of its arcs have left; returns how much.
    fn push(&mut self, way: &[u32]) -> f64 {
        let left = way.iter().map(|&arc| self.arcs[arc as usize].residual);
        let pushed = left.fold(f64::INFINITY, f64::min);
        for &index in way {
            self.arcs[index as usize].residual -= pushed;
            self.arcs[index as usize ^ 1].residual += pushed;
        }
        pushed
    }

    /// A cut between two vertices that no other is smaller than: its arcs as (from, to, capacity). Nothing
    /// where an unlimited path leads from `source` to `sink`.
    pub fn min_cut(&mut self, source: usize, sink: usize) -> Vec<(usize, usize, f64)> {
        if self.max_flow(source, sink).is_infinite() {
            return Vec::new();
        }
        let negligible = self.negligible();
        let reached = self.levels(source, None, negligible).unwrap_or_default();
        let is_reached =
            |vertex: usize| reached.get(vertex).is_some_and(|&level| level != u32::MAX);
        // Each arc stands beside its reverse, which leads back to where it came from.
        let arcs = self
            .arcs
            .chunks_exact(2)
            .map(|pair| (pair[1].to as usize, pair[0].to as usize, pair[0].capacity));
        arcs.filter(|&(from, to, capacity)| capacity > 0.0 && is_reached(from) && !is_reached(to))
            .collect()
    }

    fn has_unlimited_path(&mut self, source: usize, sink: usize) -> bool {
        for arc in &mut self.arcs {
            arc.residual = if arc.capacity.is_infinite() { 1.0 } else { 0.0 };
        }
        self.levels(source, Some(sink), 0.0).is_some()
    }

    /// Steps from `source` over arcs with something left; `None` where `sink` can't be reached.
    fn levels(&self, source: usize, sink: Option<usize>, negligible: f64) -> Option<Vec<u32>> {
        let mut levels = vec![u32::MAX; self.leaving.len()];
        levels[source] = 0;
        let mut order = vec![source];
        let mut next = 0;
        while let Some(&vertex) = order.get(next) {
            next += 1;
            for &arc in &self.leaving[vertex] {
                let arc = &self.arcs[arc as usize];
                let to = arc.to as usize;
                if arc.residual > negligible && levels[to] == u32::MAX {
                    levels[to] = levels[vertex] + 1;
                    order.push(to);
                }
            }
        }
        sink.is_none_or(|sink| levels[sink] != u32::MAX).then_some(levels)
    }

    /// Pushes flow along one shortest path; returns how much, 0 where there is none left.
    fn augment(
        &mut self,
        source: usize,
        sink: usize,
        levels: &[u32],
        next: &mut [usize],
        negligible: f64,
    ) -> f64 {
        let mut path: Vec<u32> = Vec::new();
        let mut vertex = source;
        while vertex != sink {
            if let Some(&index) = self.leaving[vertex].get(next[vertex]) {
                let arc = &self.arcs[index as usize];
                let to = arc.to as usize;
                if arc.residual > negligible && levels[to] == levels[vertex] + 1 {
                    path.push(index);
                    vertex = to;
                } else {
                    next[vertex] += 1;
                }
            } else {
                let Some(index) = path.pop() else { return 0.0 };
                vertex = self.arcs[index as usize ^ 1].to as usize;
                next[vertex] += 1;
            }
        }
        self.push(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_takes_the_way_back() {
        // The textbook case: the short path 0-1-2-3 has to be undone in part.
        let mut graph = FlowGraph::new(4);
        for (from, to, capacity) in
            [(0, 1, 3.0), (0, 2, 2.0), (1, 2, 5.0), (1, 3, 2.0), (2, 3, 3.0)]
        {
            graph.arc(from, to, capacity);
        }
        assert_eq!(graph.max_flow(0, 3), 5.0);
        assert_eq!(graph.max_flow(0, 2), 5.0);
        assert_eq!(graph.max_flow(3, 0), 0.0);
        assert_eq!(graph.min_cut(0, 3), [(0, 1, 3.0), (0, 2, 2.0)]);
    }

    #[test]
    fn a_longer_way_is_used_where_it_is_over_in_time() {
        // 10 a second in 1 s, 30 a second in 3 s.
        let mut graph = FlowGraph::new(3);
        graph.long_arc(0, 2, 10.0, 1.0);
        graph.long_arc(0, 1, 30.0, 1.0);
        graph.long_arc(1, 2, 40.0, 2.0);
        assert_eq!(graph.quickest_s(0, 2, 1e-9), 1.0 + 1e-10);
        assert_eq!(
            graph.quickest_s(0, 2, 20.0),
            3.0,
            "just when the other way begins to bring something"
        );
        // 10 for 4 s and 30 for 2 s.
        assert_eq!(graph.quickest_s(0, 2, 100.0), 5.0);
        assert_eq!(graph.quickest_s(2, 0, 1.0), f64::INFINITY);
        assert_eq!(graph.max_flow(0, 2), 40.0, "the graph can be asked again");
        graph.long_arc(0, 2, f64::INFINITY, 2.0);
        assert_eq!(graph.quickest_s(0, 2, 1e9), 2.0);
        assert_eq!(graph.quickest_s(0, 2, 5.0), 1.5);
    }

    #[test]
    fn a_short_way_is_given_up_where_two_others_bring_more() {
        // 0-1-2-3 takes 3 s; with it neither 0-1-3 nor 0-2-3 fits, which take 11 s each.
        let mut graph = FlowGraph::new(4);
        for (from, to, seconds) in
            [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (0, 2, 10.0), (1, 3, 10.0)]
        {
            graph.long_arc(from, to, 1.0, seconds);
        }
        assert_eq!(graph.quickest_s(0, 3, 2.0), 5.0);
        // Two for 40 s less the ways of 11 s, against one for 61 s less 3 s.
        assert_eq!(graph.quickest_s(0, 3, 58.0), 40.0);
    }

    #[test]
    fn infinite_arcs_limit_nothing() {
        let mut graph = FlowGraph::new(3);
        graph.arc(0, 1, f64::INFINITY);
        graph.arc(1, 2, 7.0);
        assert_eq!(graph.max_flow(0, 2), 7.0);
        assert_eq!(graph.max_flow(0, 1), f64::INFINITY);
        assert_eq!(graph.min_cut(0, 2), [(1, 2, 7.0)]);
        assert_eq!(graph.min_cut(0, 1), []);
    }
}
