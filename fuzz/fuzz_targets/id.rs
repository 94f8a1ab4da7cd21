//! Text of a stranger, read as an id: whatever is taken for one is read back from how it is shown.

#![no_main]

use jeton_core::{Format, Formats};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for format in Format::ALL {
        let only = Formats::only(format);
        assert_eq!(only.parse(text).is_ok(), format.parse(text).is_ok());
        if let Ok(id) = format.parse(text) {
            assert_eq!(id.format(), format);
            let shown = id.to_string();
            // Control characters are escaped for whoever looks; they are not for sending again.
            if !text.chars().any(char::is_control) {
                assert_eq!(format.parse(&shown).as_ref(), Ok(&id), "{shown}");
            }
            let all = Format::ALL.into_iter().fold(Formats::NONE, Formats::and);
            assert_eq!(all.parse(&format!("{format}:{text}")), Ok(id));
        }
    }
});
