//! Measurements on a lab count only while the lab kept its word; a busy machine is no result.

use gridlab::{Lab, Limits, Verdict};

/// How often a measurement is tried again on a machine that is too busy.
const ATTEMPTS: usize = 4;

/// Measures, until the lab was good enough while it was measured.
///
/// # Panics
/// Where it never was: with what the lab saw, so that nobody takes it for a failure of the program.
pub fn measured<T>(lab: &Lab, mut measure: impl FnMut() -> T) -> T {
    let mut rejected = String::new();
    for _ in 0..ATTEMPTS {
        let mark = lab.mark().expect("the lab answers");
        let measured = measure();
        let quality = lab.quality_since(&mark).expect("the lab answers");
        match quality.verdict(&Limits::default()) {
            Verdict::Good => return measured,
            Verdict::Rejected(reason) => rejected = reason,
        }
    }
    panic!("rejected {ATTEMPTS} times: {rejected}");
}
