//! The addresses that a server may listen on.

use std::net::SocketAddr;

use jeton_auth::may_listen;

const LOOPBACK: &str = "127.0.0.1 127.255.255.254 [::1] [::ffff:127.0.0.1] [::ffff:127.1.2.3]";
const OTHERS: &str =
    "0.0.0.0 [::] 192.168.1.1 126.255.255.255 128.0.0.1 [::2] [::ffff:10.0.0.1] [::ffff:0.0.0.0]";

fn addresses(list: &str) -> impl Iterator<Item = SocketAddr> {
    list.split(' ').map(|ip| format!("{ip}:7878").parse().unwrap())
}

#[test]
fn loopback_needs_no_tokens() {
    for address in addresses(LOOPBACK) {
        assert_eq!(may_listen(address, false, false), Ok(()), "{address}");
    }
}

#[test]
fn other_addresses_need_tokens_or_insecure() {
    for address in addresses(OTHERS) {
        let message = may_listen(address, false, false).unwrap_err();
        for word in [&address.to_string(), "token", "127.0.0.1", "--insecure"] {
            assert!(message.contains(word), "{word} in {message}");
        }
        assert_eq!(may_listen(address, true, false), Ok(()));
        assert_eq!(may_listen(address, false, true), Ok(()));
    }
}
