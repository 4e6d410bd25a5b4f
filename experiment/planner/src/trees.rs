//! Trees as such: the classical shapes, the step from one tree to a neighbour, and the trees that are
//! shortest or cheapest on a graph. Nothing here knows of networks or times.

pub mod arborescence;
pub mod shapes;
pub mod shortest_paths;
pub mod transform;

#[cfg(test)]
pub mod samples;
