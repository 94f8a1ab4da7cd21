//! Faults of the memory engine.

/// How many of a thousand requests have each fault. The default is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Nothing happens, and the response says so.
    pub refused: u16,
    /// The request takes effect, and the response is lost: the outcome is unknown.
    pub lost: u16,
    /// The outcome of a change is unknown, and it takes effect only during a later request.
    pub late: u16,
    /// The request takes effect, and the response needs a few more polls: responses overtake each other.
    pub delayed: u16,
}

/// The fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    None,
    Refused,
    Lost,
    Late,
    Delayed(u8),
}

/// SplitMix64: the same seed gives the same faults.
#[derive(Debug, Default)]
pub struct Rng(pub u64);

impl Rng {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The fault of the next request.
    pub fn fault(&mut self, faults: &Faults) -> InjectedFault {
        let roll = (self.draw() % 1000) as u16;
        let Faults { refused, lost, late, delayed } = *faults;
        if roll < refused {
            InjectedFault::Refused
        } else if roll < refused + lost {
            InjectedFault::Lost
        } else if roll < refused + lost + late {
            InjectedFault::Late
        } else if roll < refused + lost + late + delayed {
            InjectedFault::Delayed((self.draw() % 8) as u8 + 1)
        } else {
            InjectedFault::None
        }
    }
}
