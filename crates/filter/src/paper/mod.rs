//! The filter as published.
