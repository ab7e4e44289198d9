//! What a file holds: blocks that are shared between the states of a disk, so that keeping many of those is cheap.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit that is kept or forgotten.
pub(crate) const BLOCK: usize = 4096;

type Block = Arc<[u8; BLOCK]>;

/// A file's bytes; blocks that were never written are zeros and take no space.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    size: u64,
    blocks: BTreeMap<u64, Block>,
}

impl Content {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The space that it takes.
    pub(crate) fn allocated(&self) -> u64 {
        (self.blocks.len() * BLOCK) as u64
    }

    /// What writing there would take in addition.
    pub(crate) fn growth(&self, offset: u64, length: u64) -> u64 {
        let missing = block_range(offset, length).filter(|block| !self.blocks.contains_key(block));
        (missing.count() * BLOCK) as u64
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(length as u64));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).unwrap_or(0)];
        for_each_piece(offset, bytes.len(), |number, within, piece| {
            if let Some(block) = self.blocks.get(&number) {
                let length = piece.len();
                bytes[piece].copy_from_slice(&block[within..within + length]);
            }
        });
        bytes
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for_each_piece(offset, bytes.len(), |number, within, piece| {
            let block = self.blocks.entry(number).or_insert_with(zeros);
            Arc::make_mut(block)[within..within + piece.len()].copy_from_slice(&bytes[piece]);
        });
        self.size = self.size.max(offset + bytes.len() as u64);
    }

    /// Takes space without writing; `fallocate`.
    pub(crate) fn allocate(&mut self, offset: u64, length: u64, keep_size: bool) {
        for number in block_range(offset, length) {
            self.blocks.entry(number).or_insert_with(zeros);
        }
        if !keep_size {
            self.size = self.size.max(offset + length);
        }
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        if size < self.size {
            let kept = size.div_ceil(BLOCK as u64);
            self.blocks.split_off(&kept);
            let within = (size % BLOCK as u64) as usize;
            if within > 0
                && let Some(block) = self.blocks.get_mut(&(kept - 1))
            {
                Arc::make_mut(block)[within..].fill(0);
            }
        }
        self.size = size;
    }

    /// What a disk may hold of `self` that was synced last as `synced`: of each block that differs, the one or the
    /// other; and a length of either, or between.
    pub(crate) fn torn(&self, synced: &Content, rng: &mut fastrand::Rng) -> Content {
        let mut torn = synced.clone();
        for (number, block) in &self.blocks {
            let same = synced.blocks.get(number).is_some_and(|old| **old == **block);
            if !same && rng.bool() {
                torn.blocks.insert(*number, block.clone());
            }
        }
        let (low, high) = (self.size.min(synced.size), self.size.max(synced.size));
        let between = rng.u64(low..=high) / BLOCK as u64 * BLOCK as u64;
        let size = [self.size, synced.size, between.max(low)][rng.usize(..3)];
        torn.size = torn.size.max(self.size);
        torn.truncate(size);
        torn
    }
}

fn zeros() -> Block {
    Arc::new([0; BLOCK])
}

fn block_range(offset: u64, length: u64) -> std::ops::Range<u64> {
    let block = BLOCK as u64;
    match length {
        0 => 0..0,
        _ => offset / block..(offset + length).div_ceil(block),
    }
}

/// Calls with the number of each block touched, the offset in it, and the part of the buffer it takes.
fn for_each_piece(offset: u64, length: usize, mut piece: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < length {
        let at = offset + done as u64;
        let within = (at % BLOCK as u64) as usize;
        let size = (BLOCK - within).min(length - done);
        piece(at / BLOCK as u64, within, done..done + size);
        done += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(offset: u64, bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.write(offset, bytes);
        content
    }

    #[test]
    fn what_is_written_is_read_across_blocks_and_holes() {
        let bytes: Vec<u8> = (0..10_000).map(|n| (n % 251) as u8).collect();
        let content = written(5000, &bytes);
        assert_eq!(content.size(), 15_000);
        assert_eq!(content.read(5000, 10_000), bytes);
        assert_eq!(content.read(0, 5000), vec![0; 5000]);
        assert_eq!(content.read(14_990, 100), bytes[9990..]);
        assert_eq!(content.read(20_000, 10), [0; 0]);
        assert_eq!(content.allocated(), 3 * BLOCK as u64);
        assert_eq!(content.growth(0, 5000), BLOCK as u64);
    }

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let mut content = written(0, &[7; 5000]);
        content.truncate(10);
        content.truncate(5000);
        assert_eq!(content.read(0, 5000)[..10], [7; 10]);
        assert_eq!(content.read(10, 4990), vec![0; 4990]);
    }

    #[test]
    fn torn_content_has_whole_blocks_of_either_and_in_time_every_mixture() {
        let (old, new) = (written(0, &[1; 3 * BLOCK]), written(0, &[2; 3 * BLOCK]));
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let torn = new.torn(&old, &mut fastrand::Rng::with_seed(seed));
            let bytes = torn.read(0, 3 * BLOCK);
            assert_eq!(bytes.len(), 3 * BLOCK);
            let each = bytes.chunks(BLOCK).map(|block| {
                assert!(block.iter().all(|byte| *byte == block[0]));
                block[0]
            });
            seen.insert(each.collect::<Vec<_>>());
        }
        assert_eq!(seen.len(), 8, "{seen:?}");
    }
}
