//! No secret in any printed value, error or file.

use std::fmt::{Debug, Display};

use jeton_auth::{
    Access, FileError, Grant, Limits, Pattern, Quota, Rate, Right, Rights, Token, TokenFile, TokenId,
    TokenStore, TokenStoreError, Used,
};

use crate::common::{NOW, TokenDir, everything, random, rule, with_other_character};

/// The printed text.
#[derive(Default)]
struct Prints(String);

impl Prints {
    fn debug(&mut self, what: impl Debug) {
        self.0 += &format!("{what:?}\n{what:#?}\n");
    }

    fn both(&mut self, what: impl Debug + Display) {
        self.0 += &format!("{what}\n{what:#}\n");
        self.debug(what);
    }

    /// An error and its sources.
    fn error<T>(&mut self, result: Result<T, impl std::error::Error>) {
        let Err(error) = result else { panic!("no error") };
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            self.both(error);
            cause = error.source();
        }
    }
}

#[test]
fn no_output_contains_a_secret() {
    let (dir, mut tokens) = TokenDir::new(&[everything("a"), Grant { server: true, ..Grant::new("b") }]);
    let access = dir.access();
    tokens.push(dir.file.edit(|store| store.rotate("a", &random(7), NOW, NOW + 10)).unwrap());
    access.reload_if_changed().unwrap();
    let token = &tokens[0];
    let text = token.reveal();
    let wrong = with_other_character(&text, 46);
    let secret_parts: Vec<String> = tokens.iter().map(|token| token.reveal()[15..].to_owned()).collect();

    let mut prints = Prints::default();
    prints.both(token);
    prints.both(token.id());
    prints.both(token.clone());
    prints.debug(Some(&tokens));
    values(&mut prints, &dir, &access, &text);
    errors(&mut prints, &dir, &access, token, &wrong);

    assert!(prints.0.contains("…") && prints.0.contains(&token.id().to_string()));
    let raw = |number| format!("{:?}", &random(number)[5..25]).replace(['[', ']'], "");
    let hex = |number| random(number)[5..25].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let flat: String = prints.0.split_whitespace().collect::<Vec<_>>().join(" ").replace(", ]", "]");
    for shown in [&prints.0, &flat, &dir.text()] {
        for part in &secret_parts {
            assert!(!shown.contains(&part[..16]) && !shown.contains(&part[16..31]), "{shown}");
        }
        for number in [0, 1, 7] {
            assert!(!shown.contains(&raw(number)) && !shown.contains(&hex(number)), "{shown}");
        }
    }
}

/// Everything public that can be printed.
fn values(prints: &mut Prints, dir: &TokenDir, access: &Access, text: &str) {
    let store = dir.file.read().unwrap();
    prints.debug(&store);
    prints.debug(store.entries());
    prints.debug(&dir.file);
    prints.debug(access);
    prints.debug(Access::open_to_all());
    prints.debug(access.used());
    prints.debug(access.authenticate(text, NOW));
    prints.debug(access.authenticate(text, NOW).unwrap().clone());
    prints.debug(Access::open_to_all().authenticate(text, NOW));
    prints.debug(rule("a*", "read"));
    prints.both("a*".parse::<Pattern>().unwrap());
    prints.both(Rights::ALL);
    prints.both(Right::Admin);
    prints.both(Quota::Counters);
    prints.debug(Used { name: "a".into(), tables: 1, counters: 1 });
    prints.debug(Limits { operations: Some(Rate { per_second: 1, burst: 1 }), ..Limits::default() });
}

/// Every error, with a token in place of other values.
fn errors(prints: &mut Prints, dir: &TokenDir, access: &Access, token: &Token, wrong: &str) {
    let text = &token.reveal();
    let (longer, mistyped) = (format!("{text} "), format!("{}u", &text[..46]));
    let changed = [text.to_uppercase(), text.replace('_', "-"), longer, mistyped];
    for malformed in changed.iter().map(String::as_str).chain([&text[..46], &text[1..]]) {
        prints.error(Token::parse(malformed));
        prints.error(access.authenticate(malformed, NOW));
    }
    prints.error(TokenId::parse(text));
    prints.error(access.authenticate(wrong, NOW));
    prints.error(access.anonymous());
    prints.error(access.authenticate(text, NOW + 10));
    prints.error(text.parse::<Pattern>());
    prints.error(text.parse::<Rights>());
    prints.error(Grant::new(text).check());

    let mut store = dir.file.read().unwrap();
    prints.error(store.add(Grant::new(text), &random(9), NOW));
    prints.error(store.add(Grant::new("a"), &random(9), NOW));
    prints.error(store.add(Grant::new("c"), &random(7), NOW));
    prints.error(store.remove(text));
    prints.error(store.rotate(text, &random(9), NOW, NOW));
    prints.error(store.change(Grant::new("c")));
    prints.error(dir.file.edit(|store| store.remove(text)));
    prints.error(dir.file.edit(|_| Err::<(), _>(TokenStoreError::Full)));
    prints.error(TokenFile::new(dir.path("missing")).read());
    let json = dir.text();
    for (from, to) in
        [("\"a\"", text.clone()), ("true", format!("\"{text}\"")), ("\"name\"", format!("\"{text}\""))]
    {
        let broken = TokenStore::from_json(json.replacen(from, &to, 1).as_bytes());
        prints.error(broken.map_err(|broken| FileError::Broken { file: "f".into(), broken }));
    }
    let context = access.authenticate(text, NOW).unwrap();
    prints.error(context.may_administer(NOW));
}
