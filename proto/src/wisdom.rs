//! What a daemon keeps on disk across restarts.
//!
//! A file is a magic number, a version, the length and the checksum of its body, and the body
//! ([`crate::codec`]). It is replaced atomically and synced ([`crate::replace`]); bytes that are damaged
//! nevertheless are refused as a whole. [`merge`] puts two of them together, [`parts`] takes one apart.

mod merge;
mod parts;
mod versions;

use crate::codec::{self, CodecError, checksum};
use crate::message::{Finding, TrialRecord};
use crate::replace::replace;
use crate::{Group, LinkMatrix};
pub use merge::{compare_links, compare_plans, merge, merge_trials};
pub use parts::parts;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"ARBWISDM";
/// Changes whenever the body changes its form.
pub const WISDOM_VERSION: u32 = 5;
/// The oldest version that is read.
pub const OLDEST_VERSION: u32 = 2;
const HEADER_BYTES: usize = 8 + 4 + 8 + 8;
/// No file is longer, so that of one that is no wisdom little is read.
const MAX_FILE_BYTES: u64 = (HEADER_BYTES + codec::MAX_DECODED_BYTES) as u64;

/// Everything a daemon has learned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wisdom {
    /// The groups that targets of `trials` may refer to.
    pub groups: Vec<Group>,
    pub plans: Vec<Learned>,
    /// Of all targets; those of one target in their order.
    pub trials: Vec<Arc<TrialRecord>>,
    pub matrices: Vec<MeasuredLinks>,
}

/// A finding and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    pub finding: Arc<Finding>,
    /// Of the experiment job that published it.
    pub epoch: u64,
}

/// The links of a group and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredLinks {
    pub group: Group,
    pub matrix: Arc<LinkMatrix>,
    /// Of the experiment job that measured them.
    pub epoch: u64,
}

/// Why wisdom cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WisdomError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("not a wisdom file")]
    Magic,
    #[error(
        "wisdom of version {0}; this program reads versions {OLDEST_VERSION} to {WISDOM_VERSION}"
    )]
    Version(u32),
    #[error("the file is cut short or damaged")]
    Damaged,
    #[error("contents that make no sense: {0}")]
    Codec(#[from] CodecError),
}

impl Wisdom {
    /// The bytes of a wisdom file.
    ///
    /// # Errors
    /// `Codec` where there is more than [`codec::MAX_DECODED_BYTES`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, WisdomError> {
        let body = codec::encode(self)?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&WISDOM_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&checksum(body.iter().copied()).to_le_bytes());
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// # Errors
    /// Where the bytes are not one whole wisdom file of this version or one of those before.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WisdomError> {
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(WisdomError::Magic)?;
        if *magic != MAGIC {
            return Err(WisdomError::Magic);
        }
        let (version, rest) = rest.split_first_chunk::<4>().ok_or(WisdomError::Damaged)?;
        let version = u32::from_le_bytes(*version);
        if !(OLDEST_VERSION..=WISDOM_VERSION).contains(&version) {
            return Err(WisdomError::Version(version));
        }
        let (len, rest) = rest.split_first_chunk::<8>().ok_or(WisdomError::Damaged)?;
        let (sum, body) = rest.split_first_chunk::<8>().ok_or(WisdomError::Damaged)?;
        let whole = u64::from_le_bytes(*len) == body.len() as u64;
        if !whole || u64::from_le_bytes(*sum) != checksum(body.iter().copied()) {
            return Err(WisdomError::Damaged);
        }
        Ok(versions::decode(version, body)?)
    }

    /// Replaces the file at `path`, and returns when it is on the disk.
    ///
    /// # Errors
    /// Where it cannot be written, for instance because the disk is full; the old file then stands.
    pub fn save(&self, path: &Path) -> Result<(), WisdomError> {
        let bytes = self.to_bytes()?;
        replace(path, |file| write_synced(file, &bytes))
            .and_then(|()| sync_directory_of(path))
            .map_err(|source| WisdomError::Io { path: path.into(), source })
    }

    /// What the file at `path` says; nothing where there is none.
    ///
    /// # Errors
    /// `Io` where the file cannot be read, another one where it is damaged.
    pub fn load(path: &Path) -> Result<Self, WisdomError> {
        match Self::read(path) {
            Err(WisdomError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Wisdom::default())
            }
            read => read,
        }
    }

    /// What the file at `path` says.
    ///
    /// # Errors
    /// `Io` where there is none or it cannot be read, another one where it is damaged.
    pub fn read(path: &Path) -> Result<Self, WisdomError> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|source| WisdomError::Io { path: path.into(), source })?;
        Self::from_bytes(&bytes)
    }
}

/// Renames a file that cannot be used to `<name>.damaged-<unix_s>`, so that it can be looked into.
///
/// # Errors
/// Where it cannot be renamed.
pub fn set_aside(path: &Path, unix_s: u64) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".damaged-{unix_s}"));
    let aside = PathBuf::from(name);
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// The bytes are on the disk then; their name is once the directory is.
fn write_synced(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Reason, Rival, Times};
    use crate::replace::staged_path;
    use crate::{NodeName, Plan, Tree};
    use proptest::prelude::*;

    fn wisdom(nodes: usize) -> Wisdom {
        let names = (0..nodes).map(|i| NodeName::new(format!("n{i}")).unwrap()).collect();
        let group = Group::new(names).unwrap();
        let finding = Finding {
            group: group.clone(),
            root: 0,
            bytes: 1 << 20,
            plan: Plan::single(Tree::flat(nodes, 0).unwrap(), 32 << 10).unwrap(),
            times: Times::of(&[0.2]).unwrap(),
            native: Times::of(&[0.7]),
            limit_s: None,
            strategy: "random-transform".into(),
            trials: 3,
            search_s: 1.5,
            reason: Some(Reason {
                predicted_s: None,
                interval_s: (0.2, 0.2),
                against: Some(Rival {
                    plan: Plan::Native,
                    times: Times::of(&[0.7]).unwrap(),
                    interval_s: (0.7, 0.7),
                }),
            }),
        };
        let trial = TrialRecord {
            target: finding.target(),
            bytes: finding.bytes,
            number: 1,
            plan: Plan::Native,
            times: finding.native,
            predicted_s: None,
            best_s: Some(0.7),
            strategy: "random-transform".into(),
            search_s: 0.5,
            unix_s: 1e9,
        };
        let cells = nodes * nodes;
        let matrix = LinkMatrix::new(nodes, vec![0.01; cells], vec![1e6; cells]).unwrap();
        Wisdom {
            groups: vec![group.clone()],
            plans: vec![Learned { finding: Arc::new(finding), epoch: 7 }],
            trials: vec![Arc::new(trial)],
            matrices: vec![MeasuredLinks { group, matrix: Arc::new(matrix), epoch: 7 }],
        }
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("wisdom");
        assert_eq!(Wisdom::load(&path).unwrap(), Wisdom::default());
        for nodes in [3, 5] {
            wisdom(nodes).save(&path).unwrap();
            assert_eq!(Wisdom::load(&path).unwrap(), wisdom(nodes));
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_daemon_killed_before_the_rename_leaves_the_old_file_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("wisdom");
        wisdom(3).save(&path).unwrap();
        let newer = wisdom(5).to_bytes().unwrap();
        for written in [0, 1, newer.len() / 2, newer.len()] {
            fs::write(staged_path(&path), &newer[..written]).unwrap();
            assert_eq!(Wisdom::load(&path).unwrap(), wisdom(3));
        }
        wisdom(5).save(&path).unwrap();
        assert_eq!(Wisdom::load(&path).unwrap(), wisdom(5));
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("wisdom");
        wisdom(3).save(&path).unwrap();
        fs::create_dir(staged_path(&path)).unwrap();
        assert!(matches!(wisdom(5).save(&path), Err(WisdomError::Io { .. })));
        assert_eq!(Wisdom::load(&path).unwrap(), wisdom(3));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = write_synced(&mut full, &[1; 100]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_damaged_file_can_be_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("wisdom");
        fs::write(&path, b"nonsense").unwrap();
        assert!(matches!(Wisdom::load(&path), Err(WisdomError::Magic)));
        let aside = set_aside(&path, 42).unwrap();
        assert_eq!(aside.file_name().unwrap(), "wisdom.damaged-42");
        assert_eq!(fs::read(aside).unwrap(), b"nonsense");
        assert_eq!(Wisdom::load(&path).unwrap(), Wisdom::default());
    }

    /// Whoever changes what is in the file has to raise its version, still to read this one, and to keep
    /// its file with the others.
    #[test]
    fn the_form_of_version_5_stands() {
        assert_eq!(WISDOM_VERSION, 5);
        assert_eq!(wisdom(3).to_bytes().unwrap(), include_bytes!("../tests/kept/version-5.wisdom"));
    }

    #[test]
    fn files_of_earlier_versions_are_read() {
        let version_4 = include_bytes!("../tests/kept/version-4.wisdom");
        assert_eq!(Wisdom::from_bytes(version_4).unwrap(), wisdom(3));
        let version_3 = include_bytes!("../tests/kept/version-3.wisdom");
        assert_eq!(Wisdom::from_bytes(version_3).unwrap(), wisdom(3));
        let mut without_reason = wisdom(3);
        Arc::make_mut(&mut without_reason.plans[0].finding).reason = None;
        let version_2 = include_bytes!("../tests/kept/version-2.wisdom");
        assert_eq!(Wisdom::from_bytes(version_2).unwrap(), without_reason);
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = wisdom(3).to_bytes().unwrap();
        bytes[8] = 9;
        assert!(matches!(Wisdom::from_bytes(&bytes), Err(WisdomError::Version(9))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_wisdom_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..300)
        ) {
            prop_assert!(Wisdom::from_bytes(&bytes).is_err());
        }

        #[test]
        fn a_body_of_any_bytes_is_survived(
            body in proptest::collection::vec(any::<u8>(), 0..300)
        ) {
            let mut bytes = wisdom(3).to_bytes().unwrap();
            bytes.truncate(12);
            bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&checksum(body.iter().copied()).to_le_bytes());
            bytes.extend_from_slice(&body);
            let _ = Wisdom::from_bytes(&bytes);
        }

        #[test]
        fn a_file_cut_short_is_refused(at in any::<prop::sample::Index>()) {
            let bytes = wisdom(4).to_bytes().unwrap();
            prop_assert!(Wisdom::from_bytes(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn a_flipped_bit_is_refused(at in any::<prop::sample::Index>(), bit in 0u32..8) {
            let mut bytes = wisdom(4).to_bytes().unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            prop_assert!(Wisdom::from_bytes(&bytes).is_err());
        }
    }
}
