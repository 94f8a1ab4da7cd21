//! Nothing that can be printed has a secret in it.

use std::fmt::{Debug, Display};

use jeton_auth::{
    Access, BookError, FileError, Grant, Limits, Pattern, Quota, Rate, Right, Rights, Token, TokenFile,
    TokenId, TokenStore, Used,
};

use crate::common::{Home, NOW, everything, random, rule};

/// All that was printed.
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

    /// An error and what is behind it.
    fn error<T>(&mut self, result: Result<T, impl std::error::Error>) {
        let Err(error) = result else { panic!("it was meant to fail") };
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            self.both(error);
            cause = error.source();
        }
    }
}

#[test]
fn no_print_and_no_file_has_a_secret() {
    let (home, mut tokens) = Home::new(&[everything("a"), Grant { server: true, ..Grant::new("b") }]);
    let access = home.access();
    tokens.push(home.file.edit(|book| book.rotate("a", &random(7), NOW, NOW + 10)).unwrap());
    access.reload_if_changed().unwrap();
    let token = &tokens[0];
    let text = token.reveal();
    let mut wrong = text.clone();
    wrong.replace_range(46..47, if text.ends_with('0') { "1" } else { "0" });
    let secret_parts: Vec<String> = tokens.iter().map(|token| token.reveal()[15..].to_owned()).collect();

    let mut prints = Prints::default();
    prints.both(token);
    prints.both(token.id());
    prints.both(token.clone());
    prints.debug(Some(&tokens));
    values(&mut prints, &home, &access, &text);
    errors(&mut prints, &home, &access, token, &wrong);

    assert!(prints.0.contains("…") && prints.0.contains(&token.id().to_string()));
    let raw = |number| format!("{:?}", &random(number)[5..25]).replace(['[', ']'], "");
    let hex = |number| random(number)[5..25].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let flat: String = prints.0.split_whitespace().collect::<Vec<_>>().join(" ").replace(", ]", "]");
    for shown in [&prints.0, &flat, &home.text()] {
        for part in &secret_parts {
            assert!(!shown.contains(&part[..16]) && !shown.contains(&part[16..31]), "{shown}");
        }
        for number in [0, 1, 7] {
            assert!(!shown.contains(&raw(number)) && !shown.contains(&hex(number)), "{shown}");
        }
    }
}

/// Everything public that can be printed.
fn values(prints: &mut Prints, home: &Home, access: &Access, text: &str) {
    let book = home.file.read().unwrap();
    prints.debug(&book);
    prints.debug(book.entries());
    prints.debug(&home.file);
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

/// Everything that can fail, with a token where another thing belongs.
fn errors(prints: &mut Prints, home: &Home, access: &Access, token: &Token, wrong: &str) {
    let text = &token.reveal();
    for spoiled in [
        &text[..46],
        &text[1..],
        &text.to_uppercase(),
        &text.replace('_', "-"),
        &format!("{text} "),
        &format!("{}u", &text[..46]),
    ] {
        prints.error(Token::parse(spoiled));
        prints.error(access.authenticate(spoiled, NOW));
    }
    prints.error(TokenId::parse(text));
    prints.error(access.authenticate(wrong, NOW));
    prints.error(access.anonymous());
    prints.error(access.authenticate(text, NOW + 10));
    prints.error(text.parse::<Pattern>());
    prints.error(text.parse::<Rights>());
    prints.error(Grant::new(text).check());

    let mut book = home.file.read().unwrap();
    prints.error(book.add(Grant::new(text), &random(9), NOW));
    prints.error(book.add(Grant::new("a"), &random(9), NOW));
    prints.error(book.add(Grant::new("c"), &random(7), NOW));
    prints.error(book.remove(text));
    prints.error(book.rotate(text, &random(9), NOW, NOW));
    prints.error(book.change(Grant::new("c")));
    prints.error(home.file.edit(|book| book.remove(text)));
    prints.error(home.file.edit(|_| Err::<(), _>(BookError::Full)));
    prints.error(TokenFile::new(home.path("missing")).read());
    let json = home.text();
    for (from, to) in
        [("\"a\"", text.clone()), ("true", format!("\"{text}\"")), ("\"name\"", format!("\"{text}\""))]
    {
        let broken = TokenStore::from_json(json.replacen(from, &to, 1).as_bytes());
        prints.error(broken.map_err(|broken| FileError::Broken { file: "f".into(), broken }));
    }
    let pass = access.authenticate(text, NOW).unwrap();
    prints.error(pass.may_administer(NOW));
}
