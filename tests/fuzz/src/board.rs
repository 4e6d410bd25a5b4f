//! The board as an application reads it: a segment that anybody who could be the daemon has written.

use arborcast_proto::codec::checksum;
use arborcast_proto::segment::{BoardView, LAYOUT_VERSION};
use arborcast_proto::{GroupHash, SizeClass, Target};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Where the words before the plan book end, and where the first copy of the book begins.
const GENERATION: u64 = 8 + 64 + 64 + 8 + 8;
const COPIES: u64 = GENERATION + 8;
const COPY_BYTES: u64 = 8 << 20;
const MAGIC: u64 = 0x4152_424f_0000_0000 | LAYOUT_VERSION as u64;

/// A segment of the board's size, made once. Its name goes at once.
fn segment() -> &'static File {
    static SEGMENT: OnceLock<File> = OnceLock::new();
    SEGMENT.get_or_init(|| {
        let path = format!("/dev/shm/arborcast-fuzz-{}", std::process::id());
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.expect("/dev/shm can be written to");
        file.set_len(COPIES + 2 * COPY_BYTES).expect("there is room");
        std::fs::remove_file(path).expect("it is ours");
        file
    })
}

/// First byte: whether the magic number is right, whether the book has an index with the right checksum in
/// front of the bytes, and which copy is in use. Then the words before the book, then the book.
pub fn run(bytes: &[u8]) {
    let Some((&flags, bytes)) = bytes.split_first() else { return };
    let (words, book) = bytes.split_at(bytes.len().min(GENERATION as usize));
    let segment = segment();
    let write = |bytes: &[u8], at: u64| segment.write_all_at(bytes, at).expect("memory");
    write(&[0; COPIES as usize], 0);
    write(words, 0);
    if flags & 1 == 0 {
        write(&MAGIC.to_le_bytes(), 0);
    }
    let copy = u64::from(flags >> 1 & 1);
    write(&copy.to_le_bytes(), GENERATION);
    let target = Target { group: GroupHash(1), root: 0, class: SizeClass::of(1) };
    let mut content = Vec::new();
    if flags & 4 == 0 {
        // One entry, for the target that is asked for: its key, offset, bytes and checksum.
        let sum = checksum(book.iter().copied());
        for word in [1, target.group.0, 0, 6, book.len() as u64, sum] {
            content.extend_from_slice(&word.to_le_bytes());
        }
    }
    content.extend_from_slice(book);
    // Nothing of an earlier input is to be found behind it.
    content.resize(content.len() + 4096, 0);
    write(&content, COPIES + copy * COPY_BYTES);

    let Ok(view) = BoardView::open(segment) else { return };
    assert!(view.identity().node.as_str().len() < 64);
    if let Some(entry) = view.plan(target) {
        assert!(entry.plan.striping().is_none_or(|striping| striping.root() < striping.len()));
        assert!(view.planned_roots().may_contain(target.group, target.root));
    }
    let _ = view.planned_roots().may_contain(GroupHash(7), 3);
}
