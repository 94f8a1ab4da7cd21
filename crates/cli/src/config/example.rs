//! An example configuration file with every setting.

use super::settings::ALL;

/// Every setting with its default, commented out.
pub fn text() -> String {
    let mut text = String::from(
        "# Configuration of Jeton. Save it as jeton.toml in the working directory, or name it with --config.\n\
         # Every line \"# key =\" shows the default. Flags and environment variables take precedence over this file.\n",
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

    #[test]
    fn the_example_contains_all_defaults() {
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
