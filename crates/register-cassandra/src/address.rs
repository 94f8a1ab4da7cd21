//! The address of a keyspace: `cassandra://user:password@host:9042,host/keyspace`.

use percent_encoding::percent_decode_str;

const PORT: &str = "9042";

#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Each with its port.
    pub nodes: Vec<String>,
    pub keyspace: String,
    pub user: Option<(String, String)>,
}

impl Address {
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("cassandra://").ok_or("it does not begin with cassandra://")?;
        let (hosts, keyspace) = rest.split_once('/').ok_or("it names no keyspace")?;
        let (user, hosts) = match hosts.rsplit_once('@') {
            None => (None, hosts),
            Some((user, hosts)) => {
                let (name, password) = user.split_once(':').ok_or("the user has no password")?;
                (Some((decoded(name)?, decoded(password)?)), hosts)
            }
        };
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts_well = keyspace.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !starts_well || keyspace.len() > 48 || !keyspace.bytes().all(word) {
            return Err(format!("{keyspace:?} is no keyspace: a to z, 0 to 9 and _, at most 48"));
        }
        let mut nodes = Vec::new();
        for host in hosts.split(',') {
            if host.is_empty() {
                return Err("a host is empty".into());
            }
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            nodes.push(if has_port { host.to_owned() } else { format!("{host}:{PORT}") });
        }
        Ok(Self { nodes, keyspace: keyspace.to_owned(), user })
    }
}

fn decoded(text: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_or_refused() {
        let address = Address::parse("cassandra://me:p%40ss@a,b:1,[::1]/jeton_1").unwrap();
        assert_eq!(address.nodes, ["a:9042", "b:1", "[::1]:9042"]);
        assert_eq!(address.keyspace, "jeton_1");
        assert_eq!(address.user, Some(("me".into(), "p@ss".into())));
        for wrong in [
            "postgresql://a/k",
            "cassandra://a",
            "cassandra:///k",
            "cassandra://a/",
            "cassandra://a/K;",
            "cassandra://me@a/k",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
