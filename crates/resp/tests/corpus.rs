//! Runs the checks of the fuzz targets on every input of their corpus.

#![allow(dead_code, reason = "the corpus has no seeds")]

mod common;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_parses() {
    replay::each("resp_request", common::fuzzed::request);
    replay::each("resp_reply", common::fuzzed::reply);
}
