//! Who may do what: tokens, rights and limits.
