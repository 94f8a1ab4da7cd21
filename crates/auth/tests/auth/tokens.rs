//! Tokens as text.

use jeton_auth::{Token, TokenError, TokenId, redacted};
use proptest::prelude::*;

fn text(byte: u8) -> String {
    Token::from_random(&[byte; Token::RANDOM_BYTES]).reveal()
}

#[test]
fn a_token_has_the_form_that_is_written_down() {
    assert_eq!(text(0), "jeton_00000000_00000000000000000000000000000000");
    assert_eq!(text(255), "jeton_zzzzzzzz_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
    let random: [u8; Token::RANDOM_BYTES] = *b"foobafoobafoobafoobafooba";
    let token = Token::from_random(&random);
    assert_eq!(token.reveal(), "jeton_csqpyrk1_csqpyrk1csqpyrk1csqpyrk1csqpyrk1");
    assert_eq!(token.id().to_string(), "csqpyrk1");
    assert_eq!(TokenId::parse("csqpyrk1"), Ok(token.id()));
}

#[test]
fn what_is_no_token_is_told_why() {
    let good = text(7);
    let with = |at: usize, character: &str| {
        let mut text = good.clone();
        text.replace_range(at..=at, character);
        Token::parse(text).unwrap_err()
    };
    for no_prefix in ["", "jeto", "jeton-", "Jeton_", "password", " jeton_"] {
        assert_eq!(Token::parse(no_prefix).unwrap_err(), TokenError::Prefix, "{no_prefix}");
    }
    assert_eq!(Token::parse(&good[..46]).unwrap_err(), TokenError::Length(46));
    assert_eq!(Token::parse(good.clone() + "\n").unwrap_err(), TokenError::Length(48));
    assert_eq!(Token::parse("jeton_").unwrap_err(), TokenError::Length(6));
    assert_eq!(with(14, "-"), TokenError::Separator);
    for character in ["i", "l", "o", "u", "A", "-", "_", "\0"] {
        for at in [6, 13, 15, 30, 46] {
            assert_eq!(with(at, character), TokenError::Character(at + 1), "{character:?}");
        }
    }
    assert_eq!(
        Token::parse([b"jeton_".as_slice(), &[0xff; 41]].concat()).unwrap_err(),
        TokenError::Separator
    );
    assert_eq!(TokenId::parse("csqpyrk").unwrap_err(), TokenError::Length(7));
    assert_eq!(TokenId::parse("csqpyrku").unwrap_err(), TokenError::Character(8));
}

#[test]
fn secrets_in_other_texts_are_blanked() {
    let (a, b) = (text(7), text(9));
    let (short_a, short_b) = (&a[..15], &b[..15]);
    assert_eq!(redacted(&format!("AUTH {a}")), format!("AUTH {short_a}…"));
    assert_eq!(redacted(&format!("{a},{b}\"ü")), format!("{short_a}…,{short_b}…\"ü"));
    // Mistyped, cut off, in capitals, too long.
    assert_eq!(redacted(&a[..40]), format!("{short_a}…"));
    assert_eq!(redacted(&a.to_uppercase()), format!("{}…", short_a.to_uppercase()));
    assert_eq!(redacted(&(a.clone() + "uil")), format!("{short_a}…"));
    assert_eq!(redacted(&format!("jeton_jeton_{}", &a[6..])), format!("jeton_{short_a}…"));
    for harmless in ["", "ü", "jeton_", "jeton_requests_total", "jeton_00000000_", short_a] {
        assert_eq!(redacted(harmless), harmless);
    }
}

proptest! {
    #[test]
    fn what_is_made_reads_back(random in prop::array::uniform25(any::<u8>())) {
        let token = Token::from_random(&random);
        let again = Token::parse(token.reveal()).unwrap();
        prop_assert_eq!(again.reveal(), token.reveal());
        prop_assert_eq!(again.id(), token.id());
    }

    #[test]
    fn no_text_breaks_the_reader(bytes: Vec<u8>) {
        let tail: Vec<u8> = b"jeton_".iter().chain(&bytes).copied().collect();
        prop_assert!(Token::parse(&bytes).is_err() && Token::parse(&tail).is_err());
    }

    #[test]
    fn no_two_texts_are_one_token(random in prop::array::uniform25(any::<u8>()), at in 0_usize..47, byte: u8) {
        let mut text = Token::from_random(&random).reveal().into_bytes();
        text[at] = byte;
        if let Ok(token) = Token::parse(&text) {
            prop_assert!(token.reveal().as_bytes() == text.as_slice());
        }
    }

    #[test]
    fn blanking_leaves_no_token(before in ".{0,20}", after in ".{0,20}", random in prop::array::uniform25(any::<u8>())) {
        let token = Token::from_random(&random).reveal();
        let clean = redacted(&format!("{before}{token}{after}")).into_owned();
        prop_assert!(!clean.contains(&token[15..]));
        prop_assert_eq!(redacted(&clean), clean.as_str());
    }
}
