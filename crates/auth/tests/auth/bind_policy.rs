//! Where a server may listen.

use jeton_auth::may_listen;

const LOOPBACK: [&str; 5] = [
    "127.0.0.1:7878",
    "127.255.255.254:1",
    "[::1]:7878",
    "[::ffff:127.0.0.1]:7878",
    "[::ffff:127.1.2.3]:7878",
];
const ELSEWHERE: [&str; 8] = [
    "0.0.0.0:7878",
    "[::]:7878",
    "192.168.1.1:7878",
    "126.255.255.255:7878",
    "128.0.0.1:7878",
    "[::2]:7878",
    "[::ffff:10.0.0.1]:7878",
    "[::ffff:0.0.0.0]:7878",
];

#[test]
fn loopback_needs_nothing() {
    for address in LOOPBACK {
        assert_eq!(may_listen(address.parse().unwrap(), false, false), Ok(()), "{address}");
    }
}

#[test]
fn elsewhere_needs_tokens_or_the_word() {
    for address in ELSEWHERE {
        let listen = |tokens, insecure| may_listen(address.parse().unwrap(), tokens, insecure);
        let message = listen(false, false).expect_err(address);
        for word in [address, "token", "127.0.0.1", "--insecure"] {
            assert!(message.contains(word), "{word} in {message}");
        }
        assert_eq!(listen(true, false), Ok(()));
        assert_eq!(listen(false, true), Ok(()));
    }
}
