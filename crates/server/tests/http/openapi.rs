//! The running server against its OpenAPI document: requests that are generated from the schemas get a
//! documented status, and a body that matches the documented schema.

use jeton_core::{Format, MissingIdPolicy, TableSettings};
use jeton_testkit::Rng;
use serde_json::{Map, Value, json};

use crate::client::{Client, Reply};
use crate::harness::{TestServer, uuid};

const SEED: u64 = 1;

/// Requests for each operation of the document.
const REQUESTS: usize = 60;

struct Document(Value);

impl Document {
    /// What a schema or response refers to.
    fn resolved<'a>(&'a self, mut value: &'a Value) -> &'a Value {
        while let Some(name) = value["$ref"].as_str() {
            value = self.0.pointer(name.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("no {name}"));
        }
        value
    }

    /// Why a value does not match a schema.
    fn check(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let schema = self.resolved(schema);
        let wrong = |what: &str| Err(format!("{place} {what}: {value}"));
        for all in schema["allOf"].as_array().into_iter().flatten() {
            self.check(all, value, place)?;
        }
        for name in ["oneOf", "anyOf"] {
            let one =
                |schemas: &Vec<Value>| schemas.iter().any(|schema| self.check(schema, value, place).is_ok());
            if schema[name].as_array().is_some_and(|schemas| !one(schemas)) {
                return wrong("matches none of its schemas");
            }
        }
        if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
            return wrong("is not in the enumeration");
        }
        let is = |kind: &Value| match kind.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("the type {other} is unknown"),
        };
        let matches = match &schema["type"] {
            Value::Null => true,
            Value::Array(kinds) => kinds.iter().any(is),
            kind => is(kind),
        };
        if !matches {
            return wrong("has another type");
        }
        for (at, item) in value.as_array().into_iter().flatten().enumerate() {
            self.check(&schema["items"], item, &format!("{place}[{at}]"))?;
        }
        let Some(members) = value.as_object() else { return Ok(()) };
        for name in schema["required"].as_array().into_iter().flatten() {
            if !members.contains_key(name.as_str().unwrap()) {
                return wrong(&format!("has no {name}"));
            }
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(member) = members.get(name) {
                self.check(schema, member, &format!("{place}.{name}"))?;
            }
        }
        Ok(())
    }

    /// A value of a schema, sometimes a wrong one.
    fn generate(&self, random: &mut Rng, schema: &Value) -> Value {
        let schema = self.resolved(schema);
        let one_of = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        if let Some(schemas) = one_of {
            let schema = &schemas[random.index(schemas.len())];
            return self.generate(random, schema);
        }
        if random.percent(30) && !schema["example"].is_null() {
            return schema["example"].clone();
        }
        if random.percent(2) {
            return json!({"type": "wrong"});
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[random.index(values.len())].clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => &kinds[random.index(kinds.len())],
            kind => kind,
        };
        match kind.as_str() {
            Some("object") | None => {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                let mut members = Map::new();
                for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                    if random.percent(if required.contains(&json!(name)) { 97 } else { 25 }) {
                        members.insert(name.clone(), self.generate(random, schema));
                    }
                }
                members.into()
            }
            Some("array") => (0..random.below(4)).map(|_| self.generate(random, &schema["items"])).collect(),
            Some("integer") => json!([0, 1, -1, 7, i64::MAX, i64::MIN][random.index(6)]),
            Some("number") => json!([0.0, 0.001, -1.5, 1e300][random.index(4)]),
            Some("boolean") => json!(random.percent(50)),
            Some("string") => json!(text(random)),
            _ => Value::Null,
        }
    }

    /// Checks the status, the content type and the body of a response.
    fn check_response(&self, operation: &Value, reply: &Reply) -> Result<(), String> {
        let response = self.resolved(&operation["responses"][reply.status.to_string()]);
        if response.is_null() {
            return Err(format!("the status {} is not documented", reply.status));
        }
        let kind = reply.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
        let schema = &response["content"][kind]["schema"];
        if schema.is_null() {
            return Err(format!("the content type {kind:?} of {} is not documented", reply.status));
        }
        match kind {
            "application/json" | "application/problem+json" => self.check(schema, &reply.json(), "body"),
            "application/x-ndjson" => reply.text().lines().try_for_each(|line| {
                self.check(schema, &serde_json::from_str(line).map_err(|error| error.to_string())?, "line")
            }),
            _ => Ok(()),
        }
    }
}

fn text(random: &mut Rng) -> String {
    let known =
        ["", "c", "a/b:add", "{t}1", "24h", "64MiB", "add", "uuid7", "\u{e9}%", "YQ==", "every", "exact"];
    match random.below(3) {
        0 => uuid(),
        1 => known[random.index(known.len())].into(),
        _ => (0..random.below(6)).map(|_| char::from(b' ' + random.below(95) as u8)).collect(),
    }
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Sends a request that an operation of the document describes.
fn send(
    document: &Document,
    random: &mut Rng,
    client: &mut Client,
    at: (&str, &str),
    operation: &Value,
) -> String {
    let (path, method) = at;
    let (mut path, mut query, mut headers) = (path.to_owned(), Vec::new(), Vec::new());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap();
        let value = match name {
            // Later operations need the other tables.
            "table" | "confirm" if operation["operationId"] == "deleteTable" => {
                ["default", "temporary"][random.index(2)].to_owned()
            }
            "table" if random.percent(90) => ["default", "every"][random.index(2)].to_owned(),
            _ => match document.generate(random, &parameter["schema"]) {
                Value::String(text) => text,
                other => other.to_string(),
            },
        };
        match parameter["in"].as_str().unwrap() {
            "path" if value.is_empty() => path = path.replace(&format!("{{{name}}}"), "c"),
            "path" => path = path.replace(&format!("{{{name}}}"), &encoded(&value)),
            "query" if random.percent(40) => query.push(format!("{name}={}", encoded(&value))),
            "header" if random.percent(50) => headers.push((name.to_owned(), format!("\"{}\"", uuid()))),
            _ => {}
        }
    }
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let mut body = String::new();
    if let Some(kinds) = operation["requestBody"]["content"].as_object() {
        let (kind, content) = kinds.iter().nth(random.index(kinds.len())).unwrap();
        headers.push(("content-type".into(), kind.clone()));
        body = match &content["example"] {
            Value::String(text) if random.percent(70) => text.clone(),
            Value::Object(example) if random.percent(50) => Value::Object(example.clone()).to_string(),
            _ => document.generate(random, &content["schema"]).to_string(),
        };
        if random.percent(3) {
            body.pop();
        }
    } else if random.percent(90) {
        headers.push(("content-type".into(), "application/json".into()));
    }
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    client.send(&method.to_uppercase(), &path, &headers, body.as_bytes());
    format!("{method} {path} {headers:?} {body}")
}

#[test]
fn responses_match_the_document() {
    let root = tempfile::tempdir().unwrap();
    let server = TestServer::with_options(|options| options.backup_dir = Some(root.path().into()));
    let formats = Format::ALL.into_iter().fold(jeton_core::Formats::NONE, jeton_core::Formats::and);
    let without_id = MissingIdPolicy::AtMostOnce;
    server.table_with("every", TableSettings { formats, without_id, ..TableSettings::default() });
    // The counters of the examples.
    for name in ["clicks", "stock", "sold", "temporary"] {
        server.table(name, &[Format::Uuid7]);
    }
    let stock = json!({"value": 1_000_000, "id": uuid()});
    server.client().post("/v1/tables/stock/counters/apples:set", stock).ok();
    let document = Document(server.client().get("/openapi.json").ok());
    let (mut failures, mut successes) = (Vec::new(), std::collections::BTreeSet::new());
    for (path, item) in document.0["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            let mut random = Rng::named(SEED, name);
            for _ in 0..REQUESTS {
                let mut client = server.client();
                let sent = send(&document, &mut random, &mut client, (path, method), operation);
                let mut reply = client.head();
                // A stream does not end.
                if name != "watch" || reply.status != 200 {
                    client.read_body(&mut reply);
                }
                if reply.status < 300 {
                    successes.insert(name);
                }
                let is_error = reply.status >= 500 && reply.status != 503;
                let checked = document.check_response(operation, &reply);
                let checked = if is_error { Err("a server error".to_owned()) } else { checked };
                if let Err(why) = checked {
                    failures.push(format!("{name}: {why}\n  {sent}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    // Requests that always fail would check nothing.
    for (path, item) in document.0["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let name = operation["operationId"].as_str().unwrap();
            let others = ["/v1/transactions", "/v1/cluster"].iter().any(|start| path.starts_with(start));
            let is_configured = !others && name != "commitBranch";
            assert!(!is_configured || successes.contains(name), "{name} never succeeds");
        }
    }
}

#[test]
fn allow_has_the_documented_methods() {
    let (_server, mut client) = TestServer::with_client();
    let document = client.get("/openapi.json").ok();
    for (path, item) in document["paths"].as_object().unwrap() {
        let verb = ["add", "set", "reset", "delete", "put"];
        for verb in if path.contains("{verb}") { &verb[..] } else { &[""] } {
            let path = path.replace("{verb}", verb).replace(['{', '}'], "");
            let mut methods: Vec<String> =
                item.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
            if methods.contains(&"GET".to_owned()) {
                methods.push("HEAD".into());
            }
            methods.sort();
            let reply = client.call("OPTIONS", &path, &[], b"");
            let mut allowed: Vec<&str> = reply.header("allow").unwrap_or_default().split(',').collect();
            allowed.sort_unstable();
            assert_eq!(allowed, methods, "{path}");
        }
    }
}
