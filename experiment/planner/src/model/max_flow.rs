//! The most that can flow from one vertex of a directed graph to another one (E. A. Dinic, "Algorithm
//! for solution of a problem of maximum flow in a network with power estimation", 1970).

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
}

/// What is left of an arc below this fraction of the largest finite capacity counts as nothing.
const NEGLIGIBLE: f64 = 1e-12;

impl FlowGraph {
    pub fn new(vertices: usize) -> Self {
        FlowGraph { arcs: Vec::new(), leaving: vec![Vec::new(); vertices] }
    }

    /// Capacities may be infinite, as long as no path from source to sink is.
    pub fn arc(&mut self, from: usize, to: usize, capacity: f64) {
        for (from, to, capacity) in [(from, to, capacity), (to, from, 0.0)] {
            self.leaving[from].push(self.arcs.len() as u32);
            self.arcs.push(Arc { to: to as u32, capacity, residual: capacity });
        }
    }

    /// The value of a maximal flow; infinite where a path without any limit leads from `source` to
    /// `sink`. The graph can be asked again.
    pub fn max_flow(&mut self, source: usize, sink: usize) -> f64 {
        if self.has_unlimited_path(source, sink) {
            return f64::INFINITY;
        }
        let finite = self.arcs.iter().map(|arc| arc.capacity).filter(|c| c.is_finite());
        let negligible = finite.fold(0.0, f64::max) * NEGLIGIBLE;
        for arc in &mut self.arcs {
            arc.residual = arc.capacity;
        }
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

    /// A cut between two vertices that no other is smaller than: its arcs as (from, to, capacity). Nothing
    /// where an unlimited path leads from `source` to `sink`.
    pub fn min_cut(&mut self, source: usize, sink: usize) -> Vec<(usize, usize, f64)> {
        if self.max_flow(source, sink).is_infinite() {
            return Vec::new();
        }
        let finite = self.arcs.iter().map(|arc| arc.capacity).filter(|c| c.is_finite());
        let negligible = finite.fold(0.0, f64::max) * NEGLIGIBLE;
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
        let pushed =
            path.iter().map(|&i| self.arcs[i as usize].residual).fold(f64::INFINITY, f64::min);
        for index in path {
            self.arcs[index as usize].residual -= pushed;
            self.arcs[index as usize ^ 1].residual += pushed;
        }
        pushed
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
