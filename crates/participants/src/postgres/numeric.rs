//! Decoder for binary `numeric` values: groups of four decimal digits.

use std::fmt::Write;

/// Formats the number as PostgreSQL does.
pub fn read(raw: &[u8]) -> Option<String> {
    let mut fields = raw.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let (count, weight) = (fields.next()?, fields.next()? as i16);
    let (sign, scale) = (fields.next()?, usize::from(fields.next()?));
    match sign {
        0x0000 | 0x4000 => {}
        0xC000 => return Some("NaN".into()),
        0xD000 => return Some("Infinity".into()),
        0xF000 => return Some("-Infinity".into()),
        _ => return None,
    }
    let groups: Vec<u16> = fields.collect();
    if groups.len() != usize::from(count) || groups.iter().any(|group| *group > 9_999) {
        return None;
    }
    // The weight is the number of groups after the first and before the point. Leading and trailing zero
    // groups are omitted.
    let group = |place: i32| {
        let index = usize::try_from(place).ok();
        index.and_then(|index| groups.get(index)).copied().unwrap_or(0)
    };
    let weight = i32::from(weight);
    let mut text = if sign == 0x4000 { "-".to_owned() } else { String::new() };
    if weight < 0 {
        text.push('0');
    }
    for place in 0..=weight {
        let _infallible =
            if place == 0 { write!(text, "{}", group(0)) } else { write!(text, "{:04}", group(place)) };
    }
    if scale > 0 {
        let mut fraction = String::new();
        let mut place = weight + 1;
        while fraction.len() < scale {
            let _infallible = write!(fraction, "{:04}", group(place));
            place += 1;
        }
        text.push('.');
        text.push_str(&fraction[..scale]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(weight: i16, sign: u16, scale: u16, groups: &[u16]) -> Vec<u8> {
        let head = [groups.len() as u16, weight as u16, sign, scale];
        head.iter().chain(groups).flat_map(|field| field.to_be_bytes()).collect()
    }

    #[test]
    fn numbers_are_spelled_with_their_scale() {
        for (weight, sign, scale, groups, expected) in [
            (0, 0, 0, &[][..], "0"),
            (-1, 0, 2, &[][..], "0.00"),
            (0, 0, 2, &[12, 3400][..], "12.34"),
            (1, 0x4000, 0, &[1, 5][..], "-10005"),
            (2, 0, 0, &[7][..], "700000000"),
            (-2, 0, 8, &[42][..], "0.00000042"),
            (0, 0xC000, 0, &[][..], "NaN"),
        ] {
            assert_eq!(read(&bytes(weight, sign, scale, groups)).as_deref(), Some(expected));
        }
        assert_eq!(read(&bytes(0, 0, 0, &[10_000])), None);
        assert_eq!(read(&[0, 1]), None);
    }
}
