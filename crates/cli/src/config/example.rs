//! A file with every setting, for people to begin with.

use super::settings::ALL;

/// Every setting with its default, as a comment: the file changes nothing until somebody takes a `#` away.
pub fn text() -> String {
    let mut text = String::from(
        "# The configuration of Jeton. Save it as jeton.toml where jeton is started, or name it with --config.\n\
         # Every line that begins with \"# key =\" is the default. A flag or an environment variable goes before this file.\n",
    );
    let mut group = "";
    for setting in ALL {
        if setting.group != group {
            group = setting.group;
            text += &format!("\n## {group}\n");
        }
        let (default, quote) = ((setting.default)(), if setting.is_bare { "" } else { "\"" });
        text += &format!("\n# {}.\n# {} = {quote}{default}{quote}\n", setting.help, setting.key);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the `#` every line is one that is read, and says the same as no file at all.
    #[test]
    fn the_example_can_be_used() {
        let lines = text();
        let lines = lines.lines().filter_map(|line| {
            let rest = line.strip_prefix("# ")?;
            let key = rest.split(" = ").next()?;
            ALL.iter().any(|setting| setting.key == key).then_some(rest)
        });
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let values = super::super::values_of(&text, std::path::Path::new("example")).unwrap();
        assert_eq!(values.len(), ALL.len(), "{text}");
        for setting in ALL {
            assert_eq!(values[setting.key].0, (setting.default)());
        }
    }
}
