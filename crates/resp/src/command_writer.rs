//! Writes commands as arrays of bulk strings, the only form that can carry any bytes.

use crate::number::{put_bulk, put_header};

/// Appends a command to `out`. The first argument is its name.
pub fn command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    command_header(out, arguments.len());
    for argument in arguments {
        command_argument(out, argument);
    }
}

/// Appends the header of a command. `arguments` calls of [`command_argument`] must follow, the first for the
/// name.
pub fn command_header(out: &mut Vec<u8>, arguments: usize) {
    put_header(out, b'*', arguments as i64);
}

/// Appends one argument of a command.
pub fn command_argument(out: &mut Vec<u8>, argument: &[u8]) {
    put_bulk(out, b'$', argument);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"JADD", b"", b"a\r\nb", b"0123456789"]);
        assert_eq!(out, b"*4\r\n$4\r\nJADD\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$10\r\n0123456789\r\n");
    }
}
