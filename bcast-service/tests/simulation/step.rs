//! One step of a job under way: each rank joins when its order has come, and is done when its part is.

use crate::program::target;
use crate::world::{Event, World};
use arborcast_planner::job::wire::{BroadcastWork, StepResult, Work};
use arborcast_planner::measurement::{BroadcastResult, Transfer, TransferResult};
use arborcast_planner::model::simulate;
use arborcast_proto::hold::Phase;
use arborcast_proto::{Group, Plan};
use arborcast_service::arbiter::Moment;
use rand::RngExt;
use std::time::Duration;

/// A broadcast that somebody wants given up is so within this.
const GIVE_UP: Duration = Duration::from_millis(20);

pub struct Step {
    number: u64,
    work: Vec<Option<Work>>,
    /// Ranks that take part; the others are done at once.
    members: Vec<usize>,
    began: Option<Moment>,
    /// Its end is due, but for ranks that have not joined.
    is_due: bool,
    /// Counts the ends that were planned.
    ends: u64,
    disturbed: bool,
    /// Since when a member's node wants quiet.
    disturbed_since: Option<Moment>,
    abandoned: bool,
    listened_late: Vec<usize>,
    results: Vec<TransferResult>,
    seconds: f64,
}

impl World {
    pub fn join(&mut self, rank: usize, number: u64, work: Work) {
        let (hosts, now) = (self.hosts.len(), self.now);
        let has_no_room = self.rules.trouble_every.is_some() && self.chance.random_bool(0.002);
        let job = self.job.as_mut().expect("a job");
        let members = match &work {
            Work::Form { group, members } => {
                let members = members.iter().map(|&member| member as usize).collect();
                job.groups.insert(*group, members);
                (0..hosts).collect()
            }
            Work::Free { group } => {
                job.groups.remove(group);
                Vec::new()
            }
            Work::Reserve { .. } => Vec::new(),
            Work::Broadcast(BroadcastWork { group, .. }) | Work::Transfers { group, .. } => {
                job.groups[group].clone()
            }
        };
        job.ranks[rank].is_busy = true;
        if job.step.as_ref().is_none_or(|step| step.number != number) {
            job.step = Some(Step {
                number,
                work: vec![None; hosts],
                members: members.clone(),
                began: None,
                is_due: false,
                ends: 0,
                disturbed: false,
                disturbed_since: None,
                abandoned: false,
                listened_late: Vec::new(),
                results: Vec::new(),
                seconds: 0.0,
            });
        }
        let epoch = job.epoch;
        let step = job.step.as_mut().expect("there is one");
        step.work[rank] = Some(work.clone());
        if !members.contains(&rank) {
            let has_no_room = has_no_room && matches!(work, Work::Reserve { .. });
            let mut result = StepResult { has_no_room, ..StepResult::default() };
            if matches!(work, Work::Transfers { in_passing: false, .. }) {
                result.disturbed = self.word(rank).phase != Phase::Running;
            }
            self.done_soon(rank, number, result);
            return;
        }
        let has_begun = step.began.is_some();
        let all_here = step.members.iter().all(|member| step.work[*member].is_some());
        match &work {
            Work::Broadcast(broadcast) => {
                let is_root = step.members[broadcast.root] == rank;
                if has_begun {
                    step.listened_late.push(rank);
                }
                if is_root {
                    let after = Duration::from_secs_f64(broadcast.start_after_s);
                    self.after(after, Event::Begin { epoch, step: number });
                }
            }
            Work::Transfers { start_after_s, .. } if all_here => {
                let after = Duration::from_secs_f64(*start_after_s);
                self.after(after, Event::Begin { epoch, step: number });
            }
            Work::Form { .. } if all_here => {
                step.began = Some(now);
                step.is_due = true;
            }
            _ => {}
        }
        if all_here {
            self.end_if_due();
        }
    }

    pub fn begin_step(&mut self, number: u64) {
        let now = self.now;
        let Some(mut step) = self.job.as_mut().and_then(|job| job.step.take()) else { return };
        assert_eq!(step.number, number, "one step after the other");
        step.began = Some(now);
        for &host in &step.members {
            if let Some((program, since)) = self.holder(host).filter(|_| !self.is_unanswered(host))
            {
                assert!(
                    !self.job_may_send(host),
                    "a trial begins on node {host}, which program {program} holds since {since:?}, at {now:?}"
                );
            }
        }
        let orders = step.members.iter().filter_map(|member| step.work[*member].clone());
        let orders: Vec<Work> = orders.collect();
        match &orders[0] {
            Work::Broadcast(work) => {
                let root = step.members[work.root];
                let of_root = step.work[root].clone();
                let plan = match of_root {
                    Some(Work::Broadcast(BroadcastWork { plan: Some(plan), .. })) => plan,
                    _ => Plan::Native,
                };
                let names = step.members.iter().map(|&host| self.hosts[host].name.clone());
                let group = Group::new(names.collect()).expect("a group");
                self.has_turn(target(&group, work.root as u16, work.bytes));
                let true_s = self.broadcast_s(&step.members, &plan, work.root, work.bytes);
                let true_s = true_s * self.chance.random_range(1.0..1.05);
                let limit_s = work.give_up_after_s.filter(|limit| true_s > *limit && !work.native);
                step.abandoned = limit_s.is_some();
                step.seconds = limit_s.unwrap_or(true_s);
            }
            Work::Transfers { transfers, .. } => {
                let network = self.network().subset(&step.members);
                step.results = simulate::transfers(&network, transfers);
                let stretch = self.chance.random_range(1.0..1.05);
                for result in &mut step.results {
                    result.seconds *= stretch;
                    result.arrivals.iter_mut().for_each(|arrival| arrival.seconds *= stretch);
                }
                let taken =
                    |(r, t): (&TransferResult, &Transfer)| r.seconds * f64::from(t.repetitions);
                step.seconds = step.results.iter().zip(transfers).map(taken).fold(0.0, f64::max);
            }
            _ => {}
        }
        let after = Duration::from_secs_f64(step.seconds);
        let members = step.members.clone();
        let epoch = {
            let job = self.job.as_mut().expect("a job");
            job.step = Some(step);
            job.epoch
        };
        self.after(after, Event::Due { epoch, step: number, end: 0 });
        for host in members {
            if self.word(host).phase != Phase::Running {
                self.disturb(host);
            }
        }
    }

    /// The daemon of a node wants quiet: a broadcast along trees is given up.
    pub fn disturb(&mut self, host: usize) {
        let now = self.now;
        let seconds = self.chance.random_range(0.0..GIVE_UP.as_secs_f64());
        let Some(job) = &mut self.job else { return };
        let epoch = job.epoch;
        let Some(step) = &mut job.step else { return };
        let is_in_passing = step.work.iter().flatten().any(Work::is_in_passing);
        if step.members.contains(&host) && !is_in_passing {
            step.disturbed_since.get_or_insert(now);
        }
        let is_along_trees = step
            .work
            .iter()
            .flatten()
            .any(|work| matches!(work, Work::Broadcast(broadcast) if !broadcast.native));
        let Some(began) = step.began.filter(|_| is_along_trees && !step.is_due) else { return };
        let soon_s = (now - began).as_secs_f64() + seconds;
        if !step.members.contains(&host) || step.disturbed {
            return;
        }
        step.disturbed = true;
        if soon_s < step.seconds {
            (step.seconds, step.abandoned) = (soon_s, true);
            step.ends += 1;
            let (number, end) = (step.number, step.ends);
            self.after(Duration::from_secs_f64(seconds), Event::Due { epoch, step: number, end });
        }
    }

    pub fn due(&mut self, number: u64, end: u64) {
        let Some(step) = self.job.as_mut().and_then(|job| job.step.as_mut()) else { return };
        if step.number == number && step.ends == end {
            step.is_due = true;
            self.end_if_due();
        }
    }

    /// Once all have joined.
    fn end_if_due(&mut self) {
        let step = self.job.as_ref().and_then(|job| job.step.as_ref()).expect("one is under way");
        let all_here = step.members.iter().all(|member| step.work[*member].is_some());
        if !step.is_due || !all_here {
            return;
        }
        let step = self.job.as_mut().and_then(|job| job.step.take()).expect("as above");
        let waited_s = step.disturbed_since.map_or(0.0, |since| (self.now - since).as_secs_f64());
        for (place, &rank) in step.members.iter().enumerate() {
            let result = match &step.work[rank] {
                Some(Work::Broadcast(work)) => StepResult {
                    broadcast: (place == work.root).then_some(BroadcastResult {
                        seconds: step.seconds,
                        abandoned: step.abandoned,
                        disturbed: step.disturbed,
                    }),
                    listened_late: step.listened_late.contains(&rank),
                    waited_s,
                    ..StepResult::default()
                },
                Some(Work::Transfers { transfers, in_passing, .. }) => {
                    let numbered = || transfers.iter().zip(&step.results).enumerate();
                    let starts = numbered().filter(|(_, (transfer, _))| transfer.from == place);
                    let ends = numbered().filter(|(_, (transfer, _))| transfer.to == place);
                    StepResult {
                        transfers: starts.map(|(i, (_, result))| (i, result.seconds)).collect(),
                        arrivals: ends.map(|(i, (_, r))| (i, r.arrivals.clone())).collect(),
                        disturbed: !in_passing && self.word(rank).phase != Phase::Running,
                        waited_s,
                        ..StepResult::default()
                    }
                }
                _ => StepResult::default(),
            };
            self.done_soon(rank, step.number, result);
        }
    }

    fn done_soon(&mut self, rank: usize, step: u64, result: StepResult) {
        let epoch = self.job.as_ref().expect("a job").epoch;
        let after = self.lag();
        self.after(after, Event::Done { epoch, rank, step, result });
    }

    /// A program goes ahead: nothing of the experiment's is under way at its node.
    pub fn check_nothing_is_sent(&self, host: usize, what: &str) {
        assert!(
            !self.job_may_send(host),
            "{what} on node {host} while the rank there is bound, at {:?}",
            self.now
        );
    }
}
