//! The console: a web page that uses the control API and the API of its own listener only. The files
//! are embedded in the program.

use actix_web::http::header;
use actix_web::web::ServiceConfig;
use actix_web::{HttpRequest, HttpResponse};
use auth_gateway::http::{caching, get};

/// No external resources, nothing inline, and no text that becomes a script, so that names of users and
/// permissions cannot inject any.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

#[derive(Debug)]
struct File {
    path: &'static str,
    media_type: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($path:literal: $media_type:ident = $name:literal),* $(,)?) => {
        &[$(File {
            path: $path,
            media_type: $media_type,
            text: include_str!(concat!("console/", $name)),
        }),*]
    };
}

static FILES: &[File] = files! {
    "/mock/": HTML = "index.html",
    "/mock/console.css": CSS = "console.css",
    "/mock/console.js": JS = "console.js",
    "/mock/api.js": JS = "api.js",
    "/mock/faults.js": JS = "faults.js",
    "/mock/journal.js": JS = "journal.js",
    "/mock/page.js": JS = "page.js",
    "/mock/requests.js": JS = "requests.js",
    "/mock/sessions.js": JS = "sessions.js",
    "/mock/state.js": JS = "state.js",
    "/mock/tabs.js": JS = "tabs.js",
    "/mock/time.js": JS = "time.js",
    "/mock/token.js": JS = "token.js",
    "/mock/trial.js": JS = "trial.js",
    "/mock/users.js": JS = "users.js",
};

/// The files of the console under `/mock/`.
pub(crate) fn routes(config: &mut ServiceConfig) {
    for file in FILES {
        config.service(get(file.path, move |request: HttpRequest| async move {
            file.response(&request)
        }));
    }
    config.service(get("/mock", redirect_to_page));
}

impl File {
    /// Revalidated on every load, so that a page never mixes two versions.
    fn response(&self, request: &HttpRequest) -> HttpResponse {
        let headers = [
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "same-origin"),
        ];
        caching::document(request, self.media_type, self.text, &headers)
    }
}

/// Keeps the query, which has the namespace.
async fn redirect_to_page(request: HttpRequest) -> HttpResponse {
    let query = request.query_string();
    let page = if query.is_empty() {
        "/mock/".to_owned()
    } else {
        format!("/mock/?{query}")
    };
    HttpResponse::TemporaryRedirect()
        .insert_header((header::LOCATION, page))
        .finish()
}

#[cfg(test)]
mod tests;
