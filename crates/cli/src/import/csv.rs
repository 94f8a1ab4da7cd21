//! A line of CSV, as RFC 4180 has it, but for line breaks within a field.

/// The fields of a line.
pub fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = field(rest)?;
        fields.push(field);
        match after {
            None => return Ok(fields),
            Some(after) => rest = after,
        }
    }
}

/// The first field, and what follows its comma.
fn field(line: &str) -> Result<(String, Option<&str>), &'static str> {
    let Some(quoted) = line.strip_prefix('"') else {
        let (field, after) = line.split_once(',').map_or((line, None), |(field, after)| (field, Some(after)));
        return Ok((field.to_owned(), after));
    };
    let (mut text, mut rest) = (String::new(), quoted);
    loop {
        let (part, after) = rest.split_once('"').ok_or("a quote is not closed on its line")?;
        text += part;
        match after.chars().next() {
            None => return Ok((text, None)),
            Some(',') => return Ok((text, Some(&after[1..]))),
            Some('"') => {
                text.push('"');
                rest = &after[1..];
            }
            Some(_) => return Err("something follows a closing quote that is no comma"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_apart_as_they_were_put_together() {
        for (line, expected) in [
            ("", vec![""]),
            ("a,b", vec!["a", "b"]),
            ("a,,", vec!["a", "", ""]),
            ("\"a,b\",c", vec!["a,b", "c"]),
            ("\"say \"\"hi\"\"\"", vec!["say \"hi\""]),
            ("\"\",x", vec!["", "x"]),
        ] {
            assert_eq!(fields(line).unwrap(), expected, "{line}");
        }
        assert!(fields("\"open").is_err());
        assert!(fields("\"a\"b").is_err());
    }
}
