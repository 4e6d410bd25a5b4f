//! Broadcast trees. Nodes are named by a function of their index, edges may be labelled by one of
//! (parent, child). Children stand in the order in which they are sent to.

use super::svg::{Anchor, Svg, text_width};
use arborcast_proto::Tree;
use std::fmt::Write;

/// What stands at nodes and edges.
pub struct Labels<'a> {
    pub node: &'a dyn Fn(usize) -> String,
    pub edge: &'a dyn Fn(usize, usize) -> Option<String>,
}

/// A node for each line, indented by its depth.
pub fn text(tree: &Tree, labels: &Labels<'_>) -> String {
    let children = tree.children();
    let mut lines = format!("{}\n", (labels.node)(tree.root()));
    // (node, its parent, the prefix of its line, whether it is its parent's last child)
    let mut stack = Vec::new();
    let push_children = |stack: &mut Vec<_>, node: usize, prefix: &str| {
        for (i, &child) in children[node].iter().enumerate().rev() {
            stack.push((child, node, prefix.to_owned(), i + 1 == children[node].len()));
        }
    };
    push_children(&mut stack, tree.root(), "");
    while let Some((node, parent, prefix, last)) = stack.pop() {
        let branch = if last { "└─ " } else { "├─ " };
        let edge = (labels.edge)(parent, node).map_or_else(String::new, |edge| format!("  {edge}"));
        let _ = writeln!(lines, "{prefix}{branch}{}{edge}", (labels.node)(node));
        let below = if last { "   " } else { "│  " };
        push_children(&mut stack, node, &format!("{prefix}{below}"));
    }
    lines
}

/// For Graphviz.
pub fn dot(tree: &Tree, labels: &Labels<'_>, title: &str) -> String {
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut lines = format!("digraph {} {{\n  node [shape=box];\n", quote(title));
    for node in tree.preorder() {
        let _ = writeln!(lines, "  {node} [label={}];", quote(&(labels.node)(node)));
    }
    tree.for_each_edge(|parent, child| {
        let label = (labels.edge)(parent, child)
            .map_or_else(String::new, |edge| format!(" [label={}]", quote(&edge)));
        let _ = writeln!(lines, "  {parent} -> {child}{label};");
    });
    lines.push_str("}\n");
    lines
}

const FONT: f64 = 12.0;
const ROW: f64 = 26.0;
const BOX_HEIGHT: f64 = 19.0;
const MARGIN: f64 = 12.0;
const TITLE_HEIGHT: f64 = 24.0;

/// From left to right: the root at the left, each node halfway between its first and last child.
pub fn svg(tree: &Tree, labels: &Labels<'_>, title: &str) -> String {
    let names: Vec<String> = (0..tree.len()).map(labels.node).collect();
    let mut edges = Vec::new();
    tree.for_each_edge(|parent, child| edges.push((parent, child, (labels.edge)(parent, child))));

    let places = layout(tree);
    let widest = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|text| text_width(text, FONT)).fold(0.0, f64::max)
    };
    let box_width = widest(&mut names.iter()) + 14.0;
    let label_width = widest(&mut edges.iter().filter_map(|(_, _, label)| label.as_ref()));
    let column = box_width + label_width.max(20.0) + 24.0;
    let x = |node: usize| MARGIN + places[node].0 as f64 * column;
    let y = |node: usize| MARGIN + TITLE_HEIGHT + places[node].1 * ROW + BOX_HEIGHT / 2.0;

    let columns = places.iter().map(|(depth, _)| *depth).max().unwrap_or(0) as f64;
    let width = 2.0 * MARGIN + columns * column + box_width;
    let height = 2.0 * MARGIN + TITLE_HEIGHT + tree.leaves().count() as f64 * ROW;
    let mut svg = Svg::new(width.max(2.0 * MARGIN + text_width(title, FONT + 1.0)), height);
    svg.text((MARGIN, MARGIN + FONT), Anchor::Start, FONT + 1.0, title);
    for (parent, child, label) in &edges {
        let (from, to) = ((x(*parent) + box_width, y(*parent)), (x(*child), y(*child)));
        let elbow = from.0 + 12.0;
        for (a, b) in
            [(from, (elbow, from.1)), ((elbow, from.1), (elbow, to.1)), ((elbow, to.1), to)]
        {
            svg.line(a, b, "#8899aa", 1.2, false);
        }
        if let Some(label) = label {
            svg.text((elbow + 4.0, to.1 - 3.0), Anchor::Start, FONT - 2.0, label);
        }
    }
    for node in tree.preorder() {
        let corner = (x(node), y(node) - BOX_HEIGHT / 2.0);
        let fill = if node == tree.root() { "#cfe8d5" } else { "#eef3f8" };
        svg.rect(corner, (box_width, BOX_HEIGHT), fill, "#8899aa", "");
        let middle = (x(node) + box_width / 2.0, y(node) + FONT / 3.0);
        svg.text(middle, Anchor::Middle, FONT, &names[node]);
    }
    svg.finish()
}

/// Each node's depth and row; leaves take one row each.
fn layout(tree: &Tree) -> Vec<(usize, f64)> {
    let mut places = vec![(0usize, 0.0f64); tree.len()];
    tree.for_each_edge(|parent, child| places[child].0 = places[parent].0 + 1);
    let children = tree.children();
    for (row, leaf) in tree.leaves().enumerate() {
        places[leaf].1 = row as f64;
    }
    let preorder: Vec<usize> = tree.preorder().collect();
    for &node in preorder.iter().rev() {
        if let (Some(&first), Some(&last)) = (children[node].first(), children[node].last()) {
            places[node].1 = f64::midpoint(places[first].1, places[last].1);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::svg::assert_well_formed;
    use super::*;

    fn tree() -> Tree {
        Tree::from_children(0, &[vec![1, 4], vec![3, 2], vec![], vec![], vec![]]).unwrap()
    }

    fn node(index: usize) -> String {
        format!("n{index}")
    }

    fn edge(parent: usize, child: usize) -> Option<String> {
        (parent == 0).then(|| format!("to {child}"))
    }

    const LABELS: Labels<'_> = Labels { node: &node, edge: &edge };

    #[test]
    fn text_shows_who_sends_to_whom_in_which_order() {
        let expected = "n0\n├─ n1  to 1\n│  ├─ n3\n│  └─ n2\n└─ n4  to 4\n";
        assert_eq!(text(&tree(), &LABELS), expected);
        assert_eq!(text(&Tree::flat(1, 0).unwrap(), &LABELS), "n0\n");
    }

    #[test]
    fn dot_names_every_node_and_edge() {
        let dot = dot(&tree(), &LABELS, "a \"b\"");
        assert!(dot.starts_with("digraph \"a \\\"b\\\"\" {"));
        for line in ["0 -> 1 [label=\"to 1\"];", "1 -> 3;", "4 [label=\"n4\"];"] {
            assert!(dot.contains(line), "{dot}");
        }
    }

    #[test]
    fn svg_has_a_box_for_every_node_and_no_two_in_one_place() {
        let svg = svg(&tree(), &LABELS, "a < b");
        assert_well_formed(&svg);
        assert_eq!(svg.matches("<rect x=").count(), 5);
        let chain = Tree::from_parents(&[None, Some(0), Some(1)]).unwrap();
        for tree in [tree(), Tree::flat(9, 3).unwrap(), chain] {
            let places = layout(&tree);
            for a in 0..tree.len() {
                for b in 0..a {
                    assert!(places[a].0 != places[b].0 || (places[a].1 - places[b].1).abs() >= 1.0);
                }
            }
        }
    }

    #[test]
    fn a_long_chain_does_not_exhaust_the_stack() {
        let parents: Vec<_> = (0..5000usize).map(|i| i.checked_sub(1)).collect();
        let chain = Tree::from_parents(&parents).unwrap();
        assert_eq!(text(&chain, &LABELS).lines().count(), 5000);
        assert!(svg(&chain, &LABELS, "").len() > 5000);
    }
}
