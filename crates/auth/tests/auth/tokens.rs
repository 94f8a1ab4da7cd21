//! The text form of tokens.

use jeton_auth::{Token, TokenError, TokenId, redacted};
use proptest::prelude::*;

fn text(byte: u8) -> String {
    Token::from_random(&[byte; Token::RANDOM_BYTES]).reveal()
}

#[test]
fn the_text_form_is_stable() {
    assert_eq!(text(0), "jeton_00000000_00000000000000000000000000000000");
    assert_eq!(text(255), "jeton_zzzzzzzz_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
    // The example of RFC 4648 ("fooba" is MZXW6YTB there), in this alphabet.
    let random: [u8; Token::RANDOM_BYTES] = *b"foobafoobafoobafoobafooba";
    let token = Token::from_random(&random);
    assert_eq!(token.reveal(), "jeton_csqpyrk1_csqpyrk1csqpyrk1csqpyrk1csqpyrk1");
    assert_eq!(token.id().to_string(), "csqpyrk1");
    assert_eq!(TokenId::parse("csqpyrk1"), Ok(token.id()));
}

#[test]
fn malformed_tokens_are_rejected_with_the_reason() {
    let good = text(7);
    for no_prefix in ["", "jeto", "jeton-", "Jeton_", "password", " jeton_"] {
        assert_eq!(Token::parse(no_prefix).unwrap_err(), TokenError::Prefix, "{no_prefix}");
    }
    assert_eq!(Token::parse(&good[..46]).unwrap_err(), TokenError::Length(46));
    assert_eq!(Token::parse(good.clone() + "\n").unwrap_err(), TokenError::Length(48));
    assert_eq!(Token::parse("jeton_").unwrap_err(), TokenError::Length(6));
    assert_eq!(Token::parse(good.replacen('_', "-", 2)).unwrap_err(), TokenError::Prefix);
    assert_eq!(Token::parse(format!("{}-{}", &good[..14], &good[15..])).unwrap_err(), TokenError::Separator);
    for character in (0..128).map(char::from) {
        for at in [6, 13, 15, 30, 46] {
            let mut text = good.clone();
            text.replace_range(at..=at, &character.to_string());
            let is_digit = "0123456789abcdefghjkmnpqrstvwxyz".contains(character);
            let expected = if is_digit { None } else { Some(TokenError::Character(at + 1)) };
            assert_eq!(Token::parse(text).err(), expected, "{character:?}");
        }
    }
    let not_utf8 = [b"jeton_".as_slice(), &[0xff; 41]].concat();
    assert_eq!(Token::parse(not_utf8).unwrap_err(), TokenError::Separator);
    assert_eq!(TokenId::parse("csqpyrk").unwrap_err(), TokenError::Length(7));
    assert_eq!(TokenId::parse("csqpyrku").unwrap_err(), TokenError::Character(8));
}

#[test]
fn secrets_in_other_texts_are_redacted() {
    let (a, b) = (text(7), text(9));
    let (short_a, short_b) = (&a[..15], &b[..15]);
    for (text, expected) in [
        (format!("AUTH {a}"), format!("AUTH {short_a}…")),
        (format!("{a},{b}\"ü"), format!("{short_a}…,{short_b}…\"ü")),
        // Truncated, in upper case, too long, with a repeated prefix.
        (a[..40].to_owned(), format!("{short_a}…")),
        (a.to_uppercase(), format!("{}…", short_a.to_uppercase())),
        (a.clone() + "uil", format!("{short_a}…")),
        (format!("jeton_jeton_{}", &a[6..]), format!("jeton_{short_a}…")),
    ] {
        assert_eq!(redacted(&text), expected);
    }
    for harmless in ["", "ü", "jeton_", "jeton_requests_total", "jeton_00000000_", short_a] {
        assert_eq!(redacted(harmless), harmless);
    }
}

proptest! {
    #[test]
    fn tokens_round_trip(random in prop::array::uniform25(any::<u8>())) {
        let token = Token::from_random(&random);
        let again = Token::parse(token.reveal()).unwrap();
        prop_assert_eq!(again.reveal(), token.reveal());
        prop_assert_eq!(again.id(), token.id());
    }

    #[test]
    fn arbitrary_bytes_are_no_token(bytes: Vec<u8>) {
        let tail: Vec<u8> = b"jeton_".iter().chain(&bytes).copied().collect();
        prop_assert!(Token::parse(&bytes).is_err() && Token::parse(&tail).is_err());
    }

    #[test]
    fn a_token_has_one_text(random in prop::array::uniform25(any::<u8>()), at in 0_usize..47, byte: u8) {
        let mut text = Token::from_random(&random).reveal().into_bytes();
        text[at] = byte;
        if let Ok(token) = Token::parse(&text) {
            prop_assert!(token.reveal().as_bytes() == text.as_slice());
        }
    }

    #[test]
    fn redacted_text_contains_no_token(
        before in ".{0,20}",
        after in ".{0,20}",
        random in prop::array::uniform25(any::<u8>()),
    ) {
        let token = Token::from_random(&random).reveal();
        let clean = redacted(&format!("{before}{token}{after}")).into_owned();
        prop_assert!(!clean.contains(&token[15..]));
        prop_assert_eq!(redacted(&clean), clean.as_str());
    }
}
