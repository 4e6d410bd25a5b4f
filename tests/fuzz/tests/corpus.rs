//! Replays what `make fuzz` found to be worth keeping, and what comes of it when it is damaged.

use arborcast_fuzz::TARGETS;
use arborcast_fuzz::seeds::seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

const DAMAGED: Duration = Duration::from_millis(500);

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let files = std::fs::read_dir(&folder);
    let files = files.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
    files.chain(seeds(target)).collect()
}

#[test]
fn nothing_that_was_found_does_harm_and_nothing_that_is_like_it() {
    let seed: u64 = match std::env::var("ARBORCAST_FUZZ_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => RandomState::new().build_hasher().finish(),
    };
    println!("ARBORCAST_FUZZ_SEED={seed}");
    for target in &TARGETS {
        let corpus = corpus(target.name);
        assert!(corpus.len() > 3, "{} has hardly a corpus", target.name);
        corpus.iter().for_each(|bytes| (target.run)(bytes));
        let (mut random, start, mut runs) = (ChaCha8Rng::seed_from_u64(seed), Instant::now(), 0);
        while start.elapsed() < DAMAGED {
            (target.run)(&damaged(&corpus, &mut random));
            runs += 1;
        }
        println!("{}: {} files, {runs} damaged ones", target.name, corpus.len());
    }
}

/// A file of the corpus with some bytes changed, cut out, or put in from another one.
fn damaged(corpus: &[Vec<u8>], random: &mut ChaCha8Rng) -> Vec<u8> {
    let any = |random: &mut ChaCha8Rng| corpus[random.random_range(0..corpus.len())].clone();
    let mut bytes = any(random);
    for _ in 0..random.random_range(1..5) {
        let (start, end) = (random.random_range(0..=bytes.len()), random.random_range(0..=16));
        let end = (start + end).min(bytes.len());
        match random.random_range(0..4) {
            0 => bytes[start..end].iter_mut().for_each(|byte| *byte = random.random()),
            1 => bytes[start..end]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 << random.random_range(0..8)),
            2 => drop(bytes.drain(start..end)),
            _ => {
                let other = any(random);
                let piece = other.into_iter().skip(start).take(64);
                bytes.splice(start..end, piece);
            }
        }
    }
    bytes
}
