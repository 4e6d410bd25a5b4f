//! `arborcast trees`: the trees of the plans in use, drawn.

use super::select::{full_name, root_name};
use super::{CommandError, Daemon, TargetName, json};
use arborcast_draw::tree::Labels;
use arborcast_draw::units;
use arborcast_proto::message::{Answer, Ask, Finding, TargetStatus};
use arborcast_proto::{Group, LinkMatrix};

/// What a tree is drawn as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeFormat {
    Text,
    Dot,
    Svg,
    Json,
}

/// The trees of every target that matches, or of all. An SVG or DOT text holds one picture: where
/// there are several trees, several texts follow one another.
///
/// # Errors
/// Where there is no such target, or the daemon does not answer.
pub fn trees(
    daemon: &mut Daemon,
    name: Option<&TargetName>,
    format: TreeFormat,
) -> Result<String, CommandError> {
    let targets = daemon.targets()?;
    let chosen: Vec<&TargetStatus> = match name {
        Some(name) => name.all(&targets)?,
        None => targets.iter().filter(|status| status.finding.is_some()).collect(),
    };
    if format == TreeFormat::Json {
        return Ok(json::print(&chosen.into_iter().map(json::target).collect()));
    }
    let matrices = daemon.ask(&Ask::Matrices, |answer| match answer {
        Answer::Matrices(matrices) => Some(matrices),
        _ => None,
    })?;
    let mut text = String::new();
    for status in chosen {
        let links = matrices.iter().find(|(group, _)| *group == status.group);
        let links = links.map(|(_, matrix)| matrix);
        match &status.finding {
            Some(finding) => text.push_str(&draw_finding(status, finding, links, format)),
            None => text.push_str(&format!("{}: no plan yet\n", full_name(status))),
        }
    }
    if text.is_empty() {
        text = "no plans yet; see `arborcast targets`\n".into();
    }
    Ok(text)
}

fn draw_finding(
    status: &TargetStatus,
    finding: &Finding,
    links: Option<&LinkMatrix>,
    format: TreeFormat,
) -> String {
    let time = units::seconds(finding.times.median_s);
    let is_expected = if finding.times.is_measured() { "" } else { "expected " };
    let title = format!(
        "{} nodes from {}, {}: {is_expected}{time} for {}",
        status.group.len(),
        root_name(status),
        status.target.class,
        units::bytes(finding.bytes),
    );
    let Some(striping) = finding.plan.striping() else {
        return match format {
            TreeFormat::Text => format!("{title}\nthe native broadcast is best\n\n"),
            _ => String::new(),
        };
    };
    let shares: u32 = striping.stripes().iter().map(|stripe| u32::from(stripe.share)).sum();
    let node = |index: usize| node_name(&status.group, index);
    let edge = |parent: usize, child: usize| links.map(|links| edge_label(links, parent, child));
    let labels = Labels { node: &node, edge: &edge };
    let segment = units::bytes(striping.segment_bytes().into());
    let paced =
        striping.bytes_per_s().map(|rate| format!(", paced at {}", units::rate(rate as f64)));
    let tcp_paced = if striping.is_tcp_paced() { ", with TCP's pacing" } else { "" };
    let paced = paced.unwrap_or_default() + tcp_paced;
    let mut text = match format {
        TreeFormat::Text => format!("{title}, segments of {segment}{paced}\n"),
        _ => String::new(),
    };
    let count = striping.stripes().len();
    for (number, stripe) in (1..).zip(striping.stripes()) {
        let percent = 100.0 * f64::from(stripe.share) / f64::from(shares);
        let title = format!("{title}; {percent:.0} % of the message in segments of {segment}");
        match format {
            TreeFormat::Dot => {
                text.push_str(&arborcast_draw::tree::dot(&stripe.tree, &labels, &title))
            }
            TreeFormat::Svg => {
                text.push_str(&arborcast_draw::tree::svg(&stripe.tree, &labels, &title))
            }
            TreeFormat::Text | TreeFormat::Json => {
                if count > 1 {
                    let place = format!("tree {number} of {count}");
                    text.push_str(&format!("{place}, {percent:.0} % of the message:\n"));
                }
                text.push_str(&arborcast_draw::tree::text(&stripe.tree, &labels));
            }
        }
    }
    if format == TreeFormat::Text {
        text.push('\n');
    }
    text
}

fn node_name(group: &Group, index: usize) -> String {
    group.nodes().get(index).map_or_else(|| index.to_string(), ToString::to_string)
}

fn edge_label(links: &LinkMatrix, from: usize, to: usize) -> String {
    format!("{}, {}", units::seconds(links.latency_s(from, to)), units::rate(links.rate(from, to)))
}
