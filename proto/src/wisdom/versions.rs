//! The forms that the body of a wisdom file had, each read into the one it has now.
//!
//! | version | |
//! |---|---|
//! | 5 | plans may be with TCP's pacing |
//! | 4 | links tell which job measured them |
//! | 3 | findings have reasons |
//! | 2 | |

use super::{Learned, MeasuredLinks, Wisdom};
use crate::codec::{CodecError, decode as decode_body};
use crate::message::{Finding, Times, TrialRecord};
use crate::{Group, LinkMatrix, Plan};
use std::sync::Arc;

type LinksV3 = Vec<(Group, Arc<LinkMatrix>)>;
type WisdomV3 = (Vec<Group>, Vec<Learned>, Vec<Arc<TrialRecord>>, LinksV3);

/// A finding of version 2, its fields in their order.
type FindingV2 = (Group, u16, u64, Plan, Times, Option<Times>, Option<f64>, String, u32, f64);
type WisdomV2 = (Vec<Group>, Vec<(FindingV2, u64)>, Vec<Arc<TrialRecord>>, LinksV3);

/// The wisdom in the body of a file of this version, [`super::OLDEST_VERSION`] or later.
pub fn decode(version: u32, body: &[u8]) -> Result<Wisdom, CodecError> {
    match version {
        2 => {
            let (groups, plans, trials, links): WisdomV2 = decode_body(body)?;
            Ok(of_v3(groups, plans.into_iter().map(learned).collect(), trials, links))
        }
        3 => {
            let (groups, plans, trials, links): WisdomV3 = decode_body(body)?;
            Ok(of_v3(groups, plans, trials, links))
        }
        _ => decode_body(body),
    }
}

/// Links are taken to be of the newest job that found a plan for their group.
fn of_v3(
    groups: Vec<Group>,
    plans: Vec<Learned>,
    trials: Vec<Arc<TrialRecord>>,
    links: LinksV3,
) -> Wisdom {
    let measured = |(group, matrix): (Group, _)| {
        let of_group = plans.iter().filter(|learned| learned.finding.group == group);
        let epoch = of_group.map(|learned| learned.epoch).max().unwrap_or(0);
        MeasuredLinks { group, matrix, epoch }
    };
    let matrices = links.into_iter().map(measured).collect();
    Wisdom { groups, plans, trials, matrices }
}

fn learned((finding, epoch): (FindingV2, u64)) -> Learned {
    let (group, root, bytes, plan, times, native, limit_s, strategy, trials, search_s) = finding;
    let reason = None;
    let finding = Finding {
        group,
        root,
        bytes,
        plan,
        times,
        native,
        limit_s,
        strategy,
        trials,
        search_s,
        reason,
    };
    Learned { finding: Arc::new(finding), epoch }
}
