//! The only module that calls `bincode`. Decoding takes any bytes and gives a value or an error;
//! what it may allocate is bounded by [`MAX_DECODED_BYTES`].

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use serde::{Serialize, de::DeserializeOwned};

/// No message, plan or file of ours is larger.
pub const MAX_DECODED_BYTES: usize = 64 << 20;

const CONFIG: Configuration<LittleEndian, Fixint, Limit<MAX_DECODED_BYTES>> =
    bincode::config::legacy().with_limit::<MAX_DECODED_BYTES>();

/// Bytes that do not decode, or a value that does not encode.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(String);

/// # Errors
/// Where the encoded value would exceed [`MAX_DECODED_BYTES`].
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(value, CONFIG).map_err(|error| CodecError(error.to_string()))
}

/// # Errors
/// Where the bytes are not one whole value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    match bincode::serde::decode_from_slice(bytes, CONFIG) {
        Ok((value, used)) if used == bytes.len() => Ok(value),
        Ok((_, used)) => Err(CodecError(format!("{} bytes too many", bytes.len() - used))),
        Err(error) => Err(CodecError(error.to_string())),
    }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: against damage, not against malice.
pub fn checksum(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
