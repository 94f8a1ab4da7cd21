//! Imports: any number of lines, safe to run twice.

use jeton_core::Format;
use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::harness::{Start, World, uuid};

const PATH: &str = "/v1/tables/default/import";

fn import(client: &mut Client, body: &str) -> Reply {
    client.ask("POST", PATH, &[("content-type", "application/x-ndjson")], body.as_bytes())
}

/// The last line that an import told.
fn last(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[..lines.len() - 1].iter().all(|line| line["done"] == false), "{}", reply.text());
    lines.last().unwrap().clone()
}

#[test]
fn twice_the_same_file_gives_the_same_counts() {
    let world = World::new();
    let mut client = world.client();
    let mut file = String::new();
    for at in 0..12_345 {
        file += &format!("{}\n", json!({"row": format!("r{}", at % 10), "delta": 1, "id": uuid()}));
    }
    let first = last(&import(&mut client, &file));
    assert_eq!(
        (&first["lines"], &first["applied"], &first["replayed"]),
        (&json!(12_345), &json!(12_345), &json!(0))
    );
    assert_eq!((&first["failed"], &first["done"], &first["errors"]), (&json!(0), &json!(true), &json!([])));
    let again = last(&import(&mut client, &file));
    assert_eq!(
        (&again["applied"], &again["replayed"], &again["done"]),
        (&json!(0), &json!(12_345), &json!(true))
    );
    assert_eq!(client.get("/v1/tables/default/counters/r3").ok()["value"], 1235);
}

#[test]
fn errors_are_told_by_their_lines() {
    let world = World::new();
    let mut client = world.client();
    let (good, bound) = (uuid(), uuid());
    let file = format!(
        "{{\"row\":\"a\",\"delta\":1,\"id\":\"{good}\"}}\n\n  \nnonsense\n{{\"row\":\"a\",\"delta\":1}}\r\n\
         {{\"row\":\"a\",\"delta\":2,\"id\":\"{good}\"}}\n{{\"row\":\"a\",\"delta\":5,\"max\":3,\"id\":\"{bound}\"}}\n\
         {{\"table\":\"other\",\"row\":\"a\",\"delta\":1,\"id\":\"x\"}}\n{{\"row\":\"a\",\"op\":\"set\",\"value\":9,\"id\":\"{}\"}}",
        uuid()
    );
    let told = last(&import(&mut client, &file));
    assert_eq!(
        (&told["lines"], &told["applied"], &told["refused"], &told["failed"]),
        (&json!(7), &json!(2), &json!(1), &json!(4))
    );
    let mut errors: Vec<(u64, String)> = told["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["line"].as_u64().unwrap(), error["type"].as_str().unwrap().to_owned()))
        .collect();
    errors.sort();
    let wanted = [(4, "bad-json"), (5, "id-required"), (6, "id-mismatch"), (8, "bad-json")];
    assert_eq!(errors, wanted.map(|(line, name)| (line, format!("/problems/{name}"))));
    // Without an end of line, the last one counts too.
    assert_eq!(client.get("/v1/tables/default/counters/a").ok()["value"], 9);

    let many = last(&import(&mut client, &"{}\n".repeat(250)));
    assert_eq!((&many["failed"], many["errors"].as_array().unwrap().len()), (&json!(250), 100));
}

#[test]
fn it_goes_on_while_lines_come_and_tells_how_far_it_is() {
    let world = World::new();
    let mut client = world.client();
    client.write(
        format!("POST {PATH} HTTP/1.1\r\nhost: test\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n").as_bytes(),
    );
    let send = |client: &mut Client, text: &str| {
        client.write(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    };
    // A line in two pieces, and no end.
    let line = json!({"row": "a", "delta": 3, "id": uuid()}).to_string() + "\n";
    send(&mut client, &line[..10]);
    send(&mut client, &line[10..]);
    assert_eq!(client.head().status, 200);
    // Progress comes although nothing more is sent, and the line is counted by then.
    let progress: Value = serde_json::from_slice(&client.piece()).unwrap();
    assert_eq!(
        (&progress["lines"], &progress["applied"], &progress["done"]),
        (&json!(1), &json!(1), &json!(false))
    );
    assert_eq!(world.client().get("/v1/tables/default/counters/a").ok()["value"], 3);
    client.write(b"0\r\n\r\n");
    let mut end = client.piece();
    while serde_json::from_slice::<Value>(&end).unwrap()["done"] == false {
        end = client.piece();
    }
    assert!(client.piece().is_empty());
}

#[test]
fn what_cannot_go_on_says_why() {
    let world = Start::default().options(|options| options.request_bytes_max = 1000).go();
    world.table("numbered", &[Format::Sequenced]);
    let mut client = world.client();
    // The whole may be larger than a request, a line may not.
    let file: String =
        (0..100).map(|_| json!({"row": "a", "delta": 1, "id": uuid()}).to_string() + "\n").collect();
    assert!(file.len() > 5000);
    assert_eq!(last(&import(&mut client, &file))["applied"], 100);
    let told = last(&import(&mut world.client(), &format!("{file}{}", "x".repeat(2000))));
    assert_eq!((&told["done"], &told["stopped"]["type"]), (&json!(false), &json!("/problems/too-large")));
    assert_eq!(told["stopped"]["detail"], "line 101 is longer than the maximum size of a request");
    // What came before it was done.
    assert_eq!(told["replayed"], 100);
    client.ask("POST", PATH, &[("content-type", "application/json")], b"{}").problem(415, "media-type");
    let path = "/v1/tables/nowhere/import";
    world
        .client()
        .ask("POST", path, &[("content-type", "application/x-ndjson")], b"{}")
        .problem(404, "unknown-table");
}
