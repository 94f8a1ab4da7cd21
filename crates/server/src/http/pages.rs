//! Pages for people: what this is, and what a problem means.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::problem::{Kind, Problem};

const START: &str = include_str!("start.html");

/// What a browser may do with the pages: run the script and use the style that are in them, ask this server, and nothing else.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |tag: &str| {
        let inside =
            START.split_once(&format!("<{tag}>")).and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")));
        STANDARD.encode(Sha256::digest(inside.map_or("", |(inside, _)| inside)))
    };
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style")
    )
});

fn page(text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// The page at `/`.
pub async fn start() -> Response<Body> {
    page(START.to_owned())
}

/// The style of the first page, for the others: by its hash the same is allowed there.
fn style() -> &'static str {
    let inside = START.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>"));
    inside.map_or("", |(style, _)| style)
}

fn around(title: &str, content: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{}</style></head>\n<body>\n{content}\n<p><a href=\"/problems\">All problems</a> · \
         <a href=\"/\">Jeton</a></p>\n</body>\n</html>\n",
        style()
    )
}

/// The kinds of problems.
pub async fn problems() -> Response<Body> {
    let mut list =
        String::from("<h1>Problems</h1>\n<table><tr><th>status</th><th>kind</th><th>what</th></tr>\n");
    for kind in Kind::ALL {
        let (status, name, title) = (kind.status().as_u16(), kind.name(), kind.title());
        list += &format!(
            "<tr><td>{status}</td><td><a href=\"/problems/{name}\">{name}</a></td><td>{title}</td></tr>\n"
        );
    }
    page(around("Problems", &(list + "</table>")))
}

/// What a kind of problem means, and what to do.
pub async fn problem(request: Request) -> Result<Response<Body>, Problem> {
    let name = request.uri().path().rsplit('/').next().unwrap_or_default();
    let kind = Kind::ALL.iter().find(|kind| kind.name() == name);
    let kind =
        kind.ok_or_else(|| Problem::new(Kind::NotFound, "there is no problem of this name; see /problems"))?;
    let escaped = kind.page().replace('&', "&amp;").replace('<', "&lt;");
    let content = format!(
        "<h1>{}</h1>\n<p><code>{}</code>, status {}</p>\n<p>{escaped}</p>",
        kind.title(),
        kind.name(),
        kind.status()
    );
    Ok(page(around(kind.title(), &content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_nobody_else() {
        for elsewhere in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!START.contains(elsewhere), "{elsewhere}");
        }
        // A script or style that is written into a tag is not in the hash, and would not work.
        for inline in [" style=", " onclick=", " onload=", " onsubmit="] {
            assert!(!START.contains(inline), "{inline}");
        }
        assert_eq!(START.matches("<script>").count(), 1);
        assert_eq!(START.matches("<style>").count(), 1);
    }

    #[test]
    fn every_problem_has_a_name_of_its_own_and_says_what_to_do() {
        for kind in Kind::ALL {
            assert_eq!(Kind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
            assert!(kind.page().len() > 60, "{}", kind.name());
            assert!(kind.status().is_client_error() || kind.status().is_server_error());
        }
    }
}
