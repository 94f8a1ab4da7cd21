//! HTML pages: the start page and the descriptions of problems.

use std::sync::LazyLock;

use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::problem::{ErrorCode, HttpResult, Problem};

const START: &str = include_str!("start.html");

/// The content security policy: the inline script and style of the pages, requests to this server, and
/// nothing else.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |tag: &str| STANDARD.encode(Sha256::digest(element(tag)));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style")
    )
});

fn element(tag: &str) -> &'static str {
    let inside =
        START.split_once(&format!("<{tag}>")).and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")));
    inside.map_or("", |(inside, _)| inside)
}

fn page(text: String) -> Response {
    let content_type = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    ([content_type, (header::CONTENT_SECURITY_POLICY, POLICY.as_str())], text).into_response()
}

pub async fn start() -> Response {
    page(START.to_owned())
}

/// A page in the style of the start page, which the policy allows by its hash.
fn document(title: &str, content: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{}</style></head>\n<body>\n{content}\n<p><a href=\"/problems\">All problems</a> · \
         <a href=\"/\">Jeton</a></p>\n</body>\n</html>\n",
        element("style")
    )
}

pub async fn problems() -> Response {
    let mut list =
        String::from("<h1>Problems</h1>\n<table><tr><th>status</th><th>problem</th><th>meaning</th></tr>\n");
    for error in ErrorCode::all() {
        let (status, code, title) = (error.http_status(), error.code(), error.title());
        list += &format!(
            "<tr><td>{status}</td><td><a href=\"/problems/{code}\">{code}</a></td><td>{title}</td></tr>\n"
        );
    }
    page(document("Problems", &(list + "</table>")))
}

/// The page at `/problems/{code}`: the meaning of one error and what to do about it.
pub async fn problem(request: Request) -> HttpResult {
    let error = ErrorCode::from_problem_type(request.uri().path()).ok_or_else(|| {
        Problem::new(ErrorCode::NotFound, "this problem does not exist; /problems lists them")
    })?;
    let escaped = error.action().replace('&', "&amp;").replace('<', "&lt;");
    let content = format!(
        "<h1>{}</h1>\n<p><code>{}</code>, status {}</p>\n<p>{escaped}</p>",
        error.title(),
        error.code(),
        error.http_status()
    );
    Ok(page(document(error.title(), &content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_from_other_hosts() {
        for elsewhere in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!START.contains(elsewhere), "{elsewhere}");
        }
        // The hash does not cover inline attributes, so browsers would block them.
        for inline in [" style=", " onclick=", " onload=", " onsubmit="] {
            assert!(!START.contains(inline), "{inline}");
        }
        assert_eq!(START.matches("<script>").count(), 1);
        assert_eq!(START.matches("<style>").count(), 1);
    }
}
