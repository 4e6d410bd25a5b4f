//! Writes the inputs that a search begins with: a file each, in a folder for each target.

use arborcast_fuzz::{TARGETS, seeds::seeds};
use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let place = std::env::args().nth(1).expect("the folder to write to");
    for target in &TARGETS {
        let folder = Path::new(&place).join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, bytes) in seeds(target.name).iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), bytes)?;
        }
    }
    Ok(())
}
