//! Variable-length integers: seven bits a byte, the lowest first.

/// The most bytes of a `u16`.
pub const U16_BYTES_MAX: usize = 3;
/// The most bytes of a `u64`.
pub const U64_BYTES_MAX: usize = 10;
/// The most bytes of a `u128`.
pub const U128_BYTES_MAX: usize = 19;

/// Appends a number.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a 128-bit number.
pub fn put_wide(bytes: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number off the front; `None` if there is none.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    take_wide(bytes).and_then(|number| number.try_into().ok())
}

/// Takes a 128-bit number off the front; `None` if there is none.
pub fn take_wide(bytes: &mut &[u8]) -> Option<u128> {
    let mut number = 0u128;
    for index in 0..U128_BYTES_MAX {
        let byte = *bytes.get(index)?;
        let bits = u128::from(byte & 0x7f);
        let shift = 7 * index as u32;
        if bits.leading_zeros() < shift {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for number in [0, 1, 127, 128, 300, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert!(bytes.len() <= U64_BYTES_MAX);
            assert_eq!(take(&mut bytes.as_slice()), Some(number));
        }
        for number in [0, u128::from(u64::MAX) + 1, u128::MAX] {
            let mut bytes = Vec::new();
            put_wide(&mut bytes, number);
            assert!(bytes.len() <= U128_BYTES_MAX);
            assert_eq!(take_wide(&mut bytes.as_slice()), Some(number));
            assert_eq!(take_wide(&mut &bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn overlong_numbers_are_rejected() {
        assert_eq!(take_wide(&mut [0xff; 19].as_slice()), None);
        let mut bytes = [0xff; 19];
        bytes[18] = 0x04;
        assert_eq!(take_wide(&mut bytes.as_slice()), None);
        let mut bytes = Vec::new();
        put_wide(&mut bytes, u128::from(u64::MAX) + 1);
        assert_eq!(take(&mut bytes.as_slice()), None);
    }
}
