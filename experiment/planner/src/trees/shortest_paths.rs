//! Shortest paths from one vertex of a complete graph (E. W. Dijkstra, "A note on two problems in
//! connexion with graphs", 1959), in O(n²), which on a complete graph no heap improves.

/// How each vertex is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortestPaths {
    /// The length of the path to each vertex; 0 for the start.
    pub lengths: Vec<f64>,
    /// The vertex before it on the path; `None` for the start.
    pub parents: Vec<Option<usize>>,
}

/// The shortest paths from `start` over `len` vertices. `length(from, to)` is not negative.
pub fn shortest_paths(
    len: usize,
    start: usize,
    length: impl Fn(usize, usize) -> f64,
) -> ShortestPaths {
    let mut lengths = vec![f64::INFINITY; len];
    let mut parents = vec![None; len];
    lengths[start] = 0.0;
    let mut open: Vec<usize> = (0..len).collect();
    while let Some(i) =
        (0..open.len()).min_by(|&a, &b| lengths[open[a]].total_cmp(&lengths[open[b]]))
    {
        let nearest = open.swap_remove(i);
        for &next in &open {
            let by = lengths[nearest] + length(nearest, next);
            if by < lengths[next] {
                (lengths[next], parents[next]) = (by, Some(nearest));
            }
        }
    }
    ShortestPaths { lengths, parents }
}
