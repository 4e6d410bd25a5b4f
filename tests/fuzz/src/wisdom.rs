//! Wisdom files: of any version, from any hand.

use arborcast_proto::codec::checksum;
use arborcast_proto::wisdom::{Wisdom, merge, parts};
use arborcast_service::knowledge::Knowledge;

/// The magic number and the version; then length and checksum of the body.
const VERSION_END: usize = 12;
const HEADER_BYTES: usize = VERSION_END + 16;

/// As it is, and with the length and the checksum put right.
pub fn run(bytes: &[u8]) {
    read(bytes);
    if bytes.len() >= HEADER_BYTES {
        let mut right = bytes.to_vec();
        let (header, body) = right.split_at_mut(HEADER_BYTES);
        header[VERSION_END..VERSION_END + 8].copy_from_slice(&(body.len() as u64).to_le_bytes());
        let sum = checksum(body.iter().copied());
        header[VERSION_END + 8..].copy_from_slice(&sum.to_le_bytes());
        read(&right);
    }
}

fn read(bytes: &[u8]) {
    let Ok(wisdom) = Wisdom::from_bytes(bytes) else { return };
    // Compared as bytes, since what stands for no link in a matrix may be no number.
    let bytes = |wisdom: &Wisdom| wisdom.to_bytes().expect("what was read can be written");
    let written = bytes(&wisdom);
    assert_eq!(bytes(&Wisdom::from_bytes(&written).expect("its own file")), written);
    let merged = merge(wisdom.clone(), Wisdom::default());
    assert_eq!(bytes(&merge(wisdom.clone(), wisdom.clone())), bytes(&merged));
    assert_eq!(bytes(&merge(merged.clone(), wisdom.clone())), bytes(&merged));
    let whole = parts(merged.clone(), 256).into_iter().reduce(merge);
    assert_eq!(bytes(&whole.expect("a part at least")), bytes(&merged));

    let (knowledge, _) = Knowledge::from_wisdom(wisdom.clone());
    let known = knowledge.to_wisdom();
    let (again, refused) = Knowledge::from_wisdom(known.clone());
    assert_eq!((bytes(&again.to_wisdom()), refused), (bytes(&known), 0), "it makes sense");
    let mut imported = Knowledge::default();
    imported.import(wisdom.clone());
    let before = imported.to_wisdom();
    let (again, changed) = imported.import(wisdom);
    assert_eq!((again.plans, again.links, again.trials), (0, 0, 0));
    assert!(changed.is_empty());
    assert_eq!(bytes(&imported.to_wisdom()), bytes(&before));
}
