//! What a rank is bound to. A rank that has said `Ready` holds the network at its daemon until the coordinator has
//! released it: a step may come at any moment.

use super::wire::{News, StepResult};
use arborcast_proto::hold::Phase;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Bound {
    /// To nothing.
    #[default]
    Free,
    /// To this step, should it come.
    To { step: u64, withdrawing: bool },
}

/// What a rank is bound to, and what the coordinator believes of it.
#[derive(Debug, Default)]
pub struct Binding {
    bound: Bound,
    /// The coordinator is to be told `Available` once the daemon lets experiments run again.
    held: bool,
}

impl Binding {
    /// Whether a step may come at any moment.
    pub fn is_bound(&self) -> bool {
        self.bound != Bound::Free
    }

    /// Whether this rank is ready for the step, where its daemon has let it run. What it says binds it.
    pub fn answer(&mut self, may_run: bool, step: u64, result: StepResult) -> News {
        if may_run {
            self.bound = Bound::To { step, withdrawing: false };
            self.held = false;
            News::Ready { step, result }
        } else {
            self.bound = Bound::Free;
            self.held = true;
            News::Held { step, result }
        }
    }

    /// The coordinator lets it go, or a step in passing is over.
    pub fn release(&mut self) {
        self.bound = Bound::Free;
    }

    /// Between orders, where the daemon's word is `phase`: what the coordinator is to be told, if anything. The end of
    /// a hold tells it that a pause of programs begins, also where nothing was under way: from ranks whose programs
    /// broadcast (`is_root`), since from all it would be a message of each for every broadcast.
    pub fn look(&mut self, phase: Phase, is_root: bool) -> Option<News> {
        match (&mut self.bound, phase) {
            (Bound::To { step, withdrawing }, Phase::Stopping | Phase::Quiet) if !*withdrawing => {
                *withdrawing = true;
                self.held = true;
                Some(News::Withdraw { step: *step })
            }
            (Bound::Free, Phase::Stopping | Phase::Quiet) => {
                self.held |= is_root;
                None
            }
            (Bound::Free, Phase::Running) if self.held => {
                self.held = false;
                Some(News::Available)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_hold_is_told_where_a_step_was_refused_and_where_programs_broadcast() {
        let mut binding = Binding::default();
        assert_eq!(binding.look(Phase::Quiet, false), None);
        assert_eq!(binding.look(Phase::Running, false), None, "nobody asked");

        assert_eq!(binding.look(Phase::Stopping, true), None);
        assert_eq!(binding.look(Phase::Quiet, true), None);
        assert_eq!(binding.look(Phase::Running, true), Some(News::Available));
        assert_eq!(binding.look(Phase::Running, true), None, "told once");

        let result = StepResult::default();
        let answer = binding.answer(false, 7, result.clone());
        assert_eq!(answer, News::Held { step: 7, result: result.clone() });
        assert_eq!(binding.look(Phase::Quiet, false), None);
        assert_eq!(binding.look(Phase::Running, false), Some(News::Available));

        assert_eq!(binding.answer(true, 8, result.clone()), News::Ready { step: 8, result });
        let withdraw = Some(News::Withdraw { step: 8 });
        assert_eq!(binding.look(Phase::Stopping, false), withdraw);
        assert_eq!(binding.look(Phase::Stopping, false), None, "still bound");
        binding.release();
        assert_eq!(binding.look(Phase::Quiet, false), None);
        assert_eq!(binding.look(Phase::Running, false), Some(News::Available));
    }
}
