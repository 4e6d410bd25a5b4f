//! Which broadcasts of a communicator carry a header, counted alike by all ranks.
//!
//! Where the root's plan is native, a header would be pure loss. So its header says that the next few
//! broadcasts of this size class from this root's node are native, and all ranks count these down and
//! come back together for the next header. While native stays best, the number doubles each time. A
//! root whose daemon knew no plan when the communicator was set up begins with a run that needs no header:
//! in short broadcasts it would cost as much as they do, and more where nodes are first to be connected.
//! A run does not last long, and at first only half as long as there have been broadcasts, so that a plan that is
//! found is soon used: a header costs the farthest node about what a message to it takes. Where the daemon is gone
//! it is not native that stays best, so it lasts less.

use arborcast_proto::{SizeClass, Target};
use std::time::{Duration, Instant};

/// After this many native broadcasts at the latest, a root is asked again: a plan that has been
/// found meanwhile waits no longer, and the header's cost is spread over as many.
const MAX_RUN: u32 = 256;

/// A root without a plan begins with a number of native broadcasts of each class up to so many bytes: the longer a
/// broadcast takes, the less a header is to it, and the longer a program would wait for its first plan. Roots that take
/// turns share them, down to the second number.
const FIRST_RUNS: [(u64, u32, u32); 2] = [(4 << 10, 16, 4), (64 << 10, 4, 0)];

/// About how long a run lasts at most, and that of a new root or one without a daemon: as long as until it looks for
/// one again.
const LONGEST_RUN: Duration = Duration::from_secs(10);
const LONGEST_FIRST_RUN: Duration = Duration::from_secs(1);
/// For so long a new root is asked before each broadcast that takes long natively; then a header costs more than it gains.
const ASKED_EACH_TIME: Duration = Duration::from_secs(60);

/// The counters of one communicator. All ranks make the same calls in the same order.
#[derive(Debug)]
pub struct NativeRuns {
    roots: Vec<Root>,
    /// The broadcasts of each class, whoever their root.
    broadcasts: [u32; SizeClass::COUNT],
}

/// A node as a root.
#[derive(Debug)]
enum Root {
    /// It has not been one yet.
    New {
        has_plan: bool,
    },
    Known {
        runs: Box<[Run; SizeClass::COUNT]>,
        since: Instant,
    },
}

#[derive(Debug, Default, Clone, Copy)]
struct Run {
    native_left: u32,
    last_run: u32,
    /// See [`NativeRuns::note_long`].
    is_long: bool,
    /// When the root last announced a run; known to it alone.
    announced_at: Option<Instant>,
}

impl Run {
    /// Goes on as if that number of native broadcasts had been announced.
    fn first(broadcasts: u32, since: Instant) -> Self {
        Run {
            native_left: broadcasts,
            last_run: broadcasts,
            is_long: false,
            announced_at: Some(since),
        }
    }

    /// How many broadcasts go into `longest` where the last run took so long.
    fn in_one_run(&self, took: Duration, longest: Duration) -> u32 {
        let runs = longest.as_secs_f64() / took.as_secs_f64();
        // Infinite where it took no time.
        (f64::from(self.last_run) * runs) as u32
    }
}

impl NativeRuns {
    /// Of each node, whether a plan may be known for broadcasts from it. The same on all ranks.
    pub fn new(has_plan: impl IntoIterator<Item = bool>) -> Self {
        let roots = has_plan.into_iter().map(|has_plan| Root::New { has_plan }).collect();
        NativeRuns { roots, broadcasts: [0; SizeClass::COUNT] }
    }

    fn root(&mut self, root_node: usize) -> (&mut [Run; SizeClass::COUNT], Instant) {
        let root = &mut self.roots[root_node];
        if let Root::New { has_plan } = *root {
            let since = Instant::now();
            let mut runs = [Run::default(); SizeClass::COUNT];
            if !has_plan {
                for (bytes, broadcasts, least) in FIRST_RUNS.into_iter().rev() {
                    let left = |taken: u32| broadcasts.saturating_sub(taken).max(least);
                    let classes = ..=SizeClass::of(bytes).index();
                    for (run, taken) in runs[classes].iter_mut().zip(&self.broadcasts[classes]) {
                        *run = Run::first(left(*taken), since);
                    }
                }
            }
            *root = Root::Known { runs: Box::new(runs), since };
        }
        match root {
            Root::Known { runs, since } => (runs, *since),
            Root::New { .. } => unreachable!("made above"),
        }
    }

    fn run(&mut self, root_node: usize, class: SizeClass) -> &mut Run {
        &mut self.root(root_node).0[class.index()]
    }

    /// Whether the next broadcast of this class and root is native without asking; counts it.
    pub fn take_native(&mut self, root_node: usize, class: SizeClass) -> bool {
        let run = self.run(root_node, class);
        let native = run.native_left > 0;
        run.native_left -= u32::from(native);
        let broadcasts = &mut self.broadcasts[class.index()];
        *broadcasts = broadcasts.saturating_add(1);
        native
    }

    /// How many broadcasts of this class a root announces as native, if it does so now.
    pub fn next_run(
        &mut self,
        root_node: usize,
        class: SizeClass,
        now: Instant,
        has_daemon: bool,
    ) -> u32 {
        let (runs, since) = self.root(root_node);
        let run = &mut runs[class.index()];
        let longest = if has_daemon { LONGEST_RUN } else { LONGEST_FIRST_RUN };
        let longest = ((now - since) / 2).clamp(LONGEST_FIRST_RUN, longest);
        let took = run.announced_at.replace(now).map(|before| now.duration_since(before));
        let most = took.map_or(MAX_RUN, |took| run.in_one_run(took, longest)).clamp(1, MAX_RUN);
        let is_asked_each_time = run.is_long && now.duration_since(since) < ASKED_EACH_TIME;
        if is_asked_each_time { 1 } else { (2 * run.last_run).clamp(1, most) }
    }

    /// Whether the last native broadcast took so long that it is worth a header to have a first plan at once: at its
    /// root, which alone decides how many it announces.
    pub fn note_long(&mut self, target: Target, is_long: bool) {
        self.run(target.root.into(), target.class).is_long = is_long;
    }

    /// A header has announced `broadcasts` native ones, the current one included.
    pub fn announced(&mut self, root_node: usize, class: SizeClass, broadcasts: u32) {
        let run = broadcasts.clamp(1, MAX_RUN);
        let Run { announced_at, .. } = *self.run(root_node, class);
        *self.run(root_node, class) =
            Run { native_left: run - 1, last_run: run, is_long: false, announced_at };
    }

    /// A broadcast went along trees.
    pub fn reset(&mut self, root_node: usize, class: SizeClass) {
        *self.run(root_node, class) = Run::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::GroupHash;

    /// Plays `broadcasts` native ones in no time and returns the positions of those with a header.
    fn headers(runs: &mut NativeRuns, root: usize, class: SizeClass, broadcasts: u32) -> Vec<u32> {
        let now = Instant::now();
        (0..broadcasts)
            .filter(|_| {
                let header = !runs.take_native(root, class);
                if header {
                    let next = runs.next_run(root, class, now, true);
                    runs.announced(root, class, next);
                }
                header
            })
            .collect()
    }

    #[test]
    fn headers_become_rare_while_native_stays_best() {
        let mut runs = NativeRuns::new([true; 16]);
        let class = SizeClass::of(1);
        assert_eq!(headers(&mut runs, 3, class, 20), [0, 1, 3, 7, 15]);
        let later = headers(&mut runs, 3, class, 10_000);
        assert!(later.windows(2).all(|pair| pair[1] - pair[0] <= MAX_RUN));
        assert!(later.len() < 50);
    }

    #[test]
    fn roots_without_a_plan_begin_with_short_broadcasts_of_no_header() {
        let mut runs = NativeRuns::new([true, false]);
        let [shortest, short, longer, long] =
            [1, 4 << 10, 64 << 10, (64 << 10) + 1].map(SizeClass::of);
        assert_eq!(headers(&mut runs, 0, short, 4), [0, 1, 3]);
        let mut runs = NativeRuns::new([true, false]);
        assert_eq!(headers(&mut runs, 1, short, 100), [16, 48]);
        assert_eq!(headers(&mut runs, 1, shortest, 17), [16]);
        assert_eq!(headers(&mut runs, 1, longer, 40), [4, 12, 28]);
        assert_eq!(headers(&mut runs, 1, long, 4), [0, 1, 3]);
    }

    #[test]
    fn roots_that_take_turns_share_their_first_broadcasts_without_header() {
        for (bytes, first_headers) in
            [(64 << 10, [4, 3, 2, 1, 0, 0]), (4 << 10, [16, 15, 14, 13, 12, 11])]
        {
            let mut runs = NativeRuns::new([false; 6]);
            let class = SizeClass::of(bytes);
            let mut headers = [None; 6];
            for turn in 0..20 {
                for (root, header) in headers.iter_mut().enumerate() {
                    if !runs.take_native(root, class) {
                        header.get_or_insert(turn);
                        runs.announced(root, class, 1);
                    }
                }
            }
            assert_eq!(headers, first_headers.map(Some), "{bytes}");
        }
    }

    #[test]
    fn before_each_long_broadcast_a_new_root_is_asked() {
        let mut runs = NativeRuns::new([true; 16]);
        let class = SizeClass::of(1 << 20);
        let target = Target { group: GroupHash(1), root: 2, class };
        let start = Instant::now();
        let mut announces = |is_long, after_s| {
            assert!(!runs.take_native(2, class));
            runs.note_long(target, is_long);
            let next = runs.next_run(2, class, start + Duration::from_secs(after_s), true);
            runs.announced(2, class, next);
            (1..next).for_each(|_| assert!(runs.take_native(2, class)));
            next
        };
        assert_eq!([(false, 1), (true, 2), (true, 3)].map(|(l, s)| announces(l, s)), [1, 1, 1]);
        assert_eq!(announces(false, 4), 1, "half of the time is one more");
        assert_eq!(announces(true, 59), 1);
        assert_eq!([64, 69].map(|after_s| announces(true, after_s)), [2, 4], "no longer new");
    }

    #[test]
    fn classes_are_counted_apart_and_trees_start_anew() {
        let mut runs = NativeRuns::new([true; 16]);
        let (small, large) = (SizeClass::of(1), SizeClass::of(1 << 20));
        headers(&mut runs, 0, small, 7);
        assert!(!runs.take_native(0, large));
        runs.reset(0, small);
        assert_eq!(headers(&mut runs, 0, small, 4), [0, 1, 3]);
    }

    #[test]
    fn a_native_root_takes_no_broadcast_from_a_root_with_trees() {
        const ROOTS: usize = 16;
        let mut runs = NativeRuns::new([true; 16]);
        let class = SizeClass::of(1);
        let has_trees = |root: usize| root.is_multiple_of(2);
        let mut along_trees = 0;
        for round in 0..1000 * ROOTS {
            let root = round % ROOTS;
            if runs.take_native(root, class) {
                assert!(!has_trees(root));
            } else if has_trees(root) {
                runs.reset(root, class);
                along_trees += 1;
            } else {
                let next = runs.next_run(root, class, Instant::now(), true);
                runs.announced(root, class, next);
            }
        }
        assert_eq!(along_trees, 1000 * ROOTS / 2, "every broadcast that has a tree uses it");
    }

    /// The runs that a root announces which broadcasts every 70 ms.
    fn lengths(runs: &mut NativeRuns, count: usize, has_daemon: bool) -> Vec<u32> {
        let (class, start, mut broadcast) = (SizeClass::of(1), Instant::now(), 0);
        let mut length = || {
            let now = start + broadcast * Duration::from_millis(70);
            let next = runs.next_run(0, class, now, has_daemon);
            runs.announced(0, class, next);
            broadcast += next;
            next
        };
        (0..count).map(|_| length()).collect()
    }

    #[test]
    fn runs_do_not_last_long() {
        let mut runs = NativeRuns::new([true; 16]);
        let all = lengths(&mut runs, 14, true);
        assert_eq!(all[..7], [1, 2, 4, 8, 14, 14, 21]);
        assert_eq!(all[11..], [142, 142, 142], "half as long as it has run, up to ten seconds");
        let mut runs = NativeRuns::new([true; 16]);
        assert_eq!(lengths(&mut runs, 7, false), [1, 2, 4, 8, 14, 14, 14]);
        // A program that became slow.
        let later = Instant::now() + Duration::from_secs(1000);
        assert_eq!(runs.next_run(0, SizeClass::of(1), later, true), 1);
    }

    #[test]
    fn an_absurd_announcement_is_bounded() {
        let mut runs = NativeRuns::new([true; 16]);
        let class = SizeClass::of(1);
        runs.announced(0, class, u32::MAX);
        assert!((0..MAX_RUN - 1).all(|_| runs.take_native(0, class)));
        assert!(!runs.take_native(0, class));
    }
}
