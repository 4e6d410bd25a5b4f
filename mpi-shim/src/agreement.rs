//! Which broadcasts of a communicator carry a header, counted alike by all ranks.
//!
//! Where the root's plan is the MPI's own broadcast, a header would be pure loss. So its header says
//! that the next few broadcasts of the size class are native, and all ranks, whoever is root, count
//! these down and come back together for the next header. While native stays best, the number
//! doubles each time.

use arborcast_proto::SizeClass;

/// After this many native broadcasts at the latest, a root is asked again: a plan that has been
/// found meanwhile waits no longer, and the header's cost is spread over as many.
const MAX_RUN: u32 = 256;

/// The counters of one communicator. All ranks make the same calls in the same order.
#[derive(Debug, Default)]
pub struct Agreement {
    classes: [Class; SizeClass::COUNT],
}

#[derive(Debug, Default, Clone, Copy)]
struct Class {
    native_left: u32,
    last_run: u32,
}

impl Agreement {
    /// Whether the next broadcast of this class is native without asking; counts it.
    pub fn take_native(&mut self, class: SizeClass) -> bool {
        let class = &mut self.classes[class.index()];
        let native = class.native_left > 0;
        class.native_left -= u32::from(native);
        native
    }

    /// How many broadcasts of this class a root announces as native, if it does so now.
    pub fn next_run(&self, class: SizeClass) -> u32 {
        (2 * self.classes[class.index()].last_run).clamp(1, MAX_RUN)
    }

    /// A header of this class has announced `broadcasts` native ones, the current one included.
    pub fn announced(&mut self, class: SizeClass, broadcasts: u32) {
        let run = broadcasts.clamp(1, MAX_RUN);
        self.classes[class.index()] = Class { native_left: run - 1, last_run: run };
    }

    /// A broadcast of this class went along trees.
    pub fn went_along_trees(&mut self, class: SizeClass) {
        self.classes[class.index()] = Class::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `broadcasts` native ones and returns the positions of those with a header.
    fn headers(agreement: &mut Agreement, class: SizeClass, broadcasts: u32) -> Vec<u32> {
        (0..broadcasts)
            .filter(|_| {
                let header = !agreement.take_native(class);
                if header {
                    agreement.announced(class, agreement.next_run(class));
                }
                header
            })
            .collect()
    }

    #[test]
    fn headers_become_rare_while_native_stays_best() {
        let mut agreement = Agreement::default();
        let class = SizeClass::of(1);
        assert_eq!(headers(&mut agreement, class, 20), [0, 1, 3, 7, 15]);
        let later = headers(&mut agreement, class, 10_000);
        assert!(later.windows(2).all(|pair| pair[1] - pair[0] <= MAX_RUN));
        assert!(later.len() < 50);
    }

    #[test]
    fn classes_are_counted_apart_and_trees_start_anew() {
        let mut agreement = Agreement::default();
        let (small, large) = (SizeClass::of(1), SizeClass::of(1 << 20));
        headers(&mut agreement, small, 7);
        assert!(!agreement.take_native(large));
        agreement.went_along_trees(small);
        assert_eq!(headers(&mut agreement, small, 4), [0, 1, 3]);
    }

    #[test]
    fn an_absurd_announcement_is_bounded() {
        let mut agreement = Agreement::default();
        let class = SizeClass::of(1);
        agreement.announced(class, u32::MAX);
        assert!((0..MAX_RUN - 1).all(|_| agreement.take_native(class)));
        assert!(!agreement.take_native(class));
    }
}
