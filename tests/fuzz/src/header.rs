//! A broadcast's header, as it comes from another rank.

use arborcast_proto::Subtree;
use arborcast_shim::header::{Decision, Header, max_bytes, sequence_of};

pub fn run(bytes: &[u8]) {
    let mut numbers = Vec::new();
    let Ok((header, data_start)) = Header::read(bytes, &mut numbers) else { return };
    assert_eq!(sequence_of(bytes), Ok(header.sequence));
    assert!(data_start <= bytes.len() && header.start + header.len <= header.total_bytes);
    let (nodes, sizes) = numbers.split_at(numbers.len() / 2);
    let subtree = Subtree::new(nodes, sizes).expect("it was checked");
    assert!(bytes.len() <= max_bytes(subtree.len()));
    let in_segments = header.segments() as u128 * u128::from(header.segment_bytes);
    let is_carried = header.inline_bytes() as u128 + in_segments >= u128::from(header.len);
    assert!(is_carried || header.decision != Decision::Trees);
    let below: usize = subtree.children().map(|child| child.len()).sum();
    assert_eq!(below + 1, subtree.len());
    let mut again = Vec::new();
    header.write(subtree, &mut again);
    assert_eq!(again.len(), data_start);
    again.extend_from_slice(&bytes[data_start..]);
    let mut numbers_again = Vec::new();
    assert_eq!(Header::read(&again, &mut numbers_again), Ok((header, data_start)));
    assert_eq!(numbers_again, numbers);
}
