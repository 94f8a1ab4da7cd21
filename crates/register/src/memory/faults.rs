//! What can go wrong with the memory engine, and how often.

/// How often, of a thousand requests, each thing goes wrong. The default is never.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Nothing happens, and the caller is told so.
    pub refused: u16,
    /// It happens, and the answer is lost: the caller is told that the outcome is unknown.
    pub lost: u16,
    /// A write whose answer is lost, and which happens only later, during some other request: it was long on its way.
    pub late: u16,
    /// It happens, and the answer comes only after the future was polled a few times more: so answers overtake each other.
    pub delayed: u16,
}

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    None,
    Refused,
    Lost,
    Late,
    Delayed(u8),
}

/// A seeded source of chance (SplitMix64): the same seed, the same mishaps.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// What goes wrong with the next request.
    pub fn mishap(&mut self, faults: &Faults) -> Mishap {
        let mut roll = (self.draw() % 1000) as u16;
        let mut hits = |share: u16| {
            let hit = roll < share;
            roll = roll.saturating_sub(share);
            // What is below zero belongs to a share before.
            if hit {
                roll = u16::MAX;
            }
            hit
        };
        if hits(faults.refused) {
            Mishap::Refused
        } else if hits(faults.lost) {
            Mishap::Lost
        } else if hits(faults.late) {
            Mishap::Late
        } else if hits(faults.delayed) {
            Mishap::Delayed((self.draw() % 8) as u8 + 1)
        } else {
            Mishap::None
        }
    }
}
