//! Writes NetCDF classic files with 64-bit offsets (version 2), as far as a matrix for each message
//! length needs it: named dimensions, integer scalars, and one record variable of doubles. Records
//! are added as the measurement goes on, and the count in the header is raised only after a record
//! is on its way to the disk, so the file is whole at any moment. The crate `netcdf3` writes a file
//! whose number of records is known before, hence this module.
//!
//! Format: "NetCDF Classic and 64-bit Offset File Formats", Unidata (all numbers big-endian).

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

const TAG_DIMENSION: u32 = 0x0A;
const TAG_VARIABLE: u32 = 0x0B;
const TYPE_INT: u32 = 4;
const TYPE_DOUBLE: u32 = 6;
/// Where the header keeps the number of records.
const RECORD_COUNT_OFFSET: u64 = 4;

/// What stands in a file besides its records.
#[derive(Debug, Clone)]
pub struct Layout<'a> {
    /// Name and length; length 0 is the unlimited dimension, of which there is one.
    pub dimensions: &'a [(&'a str, u32)],
    pub scalars: &'a [(&'a str, i32)],
    /// Name of the record variable and the indices of its dimensions, the unlimited one first.
    pub record: (&'a str, &'a [u32]),
}

/// A file to which records are added.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    records: u32,
    values_a_record: usize,
}

impl RecordFile {
    /// Makes the file, replacing one of that name, with no record in it yet.
    pub fn create(path: &Path, layout: &Layout) -> io::Result<Self> {
        let (_, dimensions) = layout.record;
        let values_a_record = dimensions[1..]
            .iter()
            .map(|index| layout.dimensions[*index as usize].1 as usize)
            .product();
        let mut file = File::create(path)?;
        file.write_all(&header(layout, values_a_record))?;
        Ok(Self { file, records: 0, values_a_record })
    }

    /// Adds one record and then raises the count.
    pub fn append(&mut self, values: &[f64]) -> io::Result<()> {
        assert_eq!(values.len(), self.values_a_record, "a record has a fixed number of values");
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        self.file.seek(SeekFrom::End(0))?;
        self.file.write_all(&bytes)?;
        self.records += 1;
        self.file.seek(SeekFrom::Start(RECORD_COUNT_OFFSET))?;
        self.file.write_all(&self.records.to_be_bytes())
    }
}

/// Header and scalars. The records follow at its end.
fn header(layout: &Layout, values_a_record: usize) -> Vec<u8> {
    // Offsets are of fixed width, so a first rendering tells how long the header is.
    let length = render(layout, values_a_record, 0).len() as u64;
    let mut bytes = render(layout, values_a_record, length);
    for (_, value) in layout.scalars {
        bytes.extend(value.to_be_bytes());
    }
    bytes
}

fn render(layout: &Layout, values_a_record: usize, scalars_begin: u64) -> Vec<u8> {
    let mut out = b"CDF\x02".to_vec();
    out.extend(0u32.to_be_bytes());
    put(&mut out, &[TAG_DIMENSION, layout.dimensions.len() as u32]);
    for (name, length) in layout.dimensions {
        put_name(&mut out, name);
        put(&mut out, &[*length]);
    }
    // No global attributes.
    put(&mut out, &[0, 0]);
    put(&mut out, &[TAG_VARIABLE, layout.scalars.len() as u32 + 1]);
    let mut begin = scalars_begin;
    for (name, _) in layout.scalars {
        put_name(&mut out, name);
        // No dimensions; no attributes (absent list); type; size in bytes.
        put(&mut out, &[0, 0, 0, TYPE_INT, 4]);
        out.extend(begin.to_be_bytes());
        begin += 4;
    }
    let (name, dimensions) = layout.record;
    put_name(&mut out, name);
    put(&mut out, &[dimensions.len() as u32]);
    put(&mut out, dimensions);
    // The size field cannot hold 2^32 - 4 bytes and more; readers then compute it themselves.
    let bytes_a_record = u32::try_from(values_a_record * 8).unwrap_or(u32::MAX);
    put(&mut out, &[0, 0, TYPE_DOUBLE, bytes_a_record]);
    out.extend(begin.to_be_bytes());
    out
}

fn put(out: &mut Vec<u8>, numbers: &[u32]) {
    for number in numbers {
        out.extend(number.to_be_bytes());
    }
}

/// Length, then the name padded with zeros to four bytes.
fn put_name(out: &mut Vec<u8>, name: &str) {
    put(out, &[name.len() as u32]);
    out.extend(name.as_bytes());
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_follows_the_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matrix.nc");
        let layout = Layout {
            dimensions: &[("x", 2), ("n", 0)],
            scalars: &[("one", 1), ("minus", -2)],
            record: ("data", &[1, 0]),
        };
        let mut file = RecordFile::create(&path, &layout).unwrap();
        let empty = std::fs::read(&path).unwrap();
        assert_eq!(&empty[..8], b"CDF\x02\0\0\0\0");
        file.append(&[1.5, -2.5]).unwrap();
        file.append(&[3.5, 4.5]).unwrap();
        let full = std::fs::read(&path).unwrap();
        assert_eq!(full[4..8], 2u32.to_be_bytes());
        assert_eq!(full.len(), empty.len() + 4 * 8);
        assert_eq!(full[empty.len()..][..8], 1.5f64.to_be_bytes());
        assert_eq!(empty[empty.len() - 4..], (-2i32).to_be_bytes());
    }

    /// The offset of the records that the header claims is the end of the scalars.
    #[test]
    fn records_begin_where_the_header_says() {
        let layout = Layout {
            dimensions: &[("n", 0), ("x", 3)],
            scalars: &[("a", 7)],
            record: ("data", &[0, 1]),
        };
        let bytes = header(&layout, 3);
        let claimed =
            u64::from_be_bytes(bytes[bytes.len() - 12..bytes.len() - 4].try_into().unwrap());
        assert_eq!(claimed as usize, bytes.len());
    }
}
