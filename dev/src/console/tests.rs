use std::collections::HashSet;

use actix_web::http::{Method, StatusCode};
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use actix_web::{App, dev::ServiceResponse};

use super::*;

async fn ask(request: TestRequest) -> ServiceResponse {
    let app = init_service(App::new().configure(routes)).await;
    call_service(&app, request.to_request()).await
}

fn header_of<'a>(response: &'a ServiceResponse, name: &str) -> &'a str {
    let value = response.headers().get(name);
    value.map_or("", |value| value.to_str().expect("text"))
}

/// The texts between each `before` and the next `after`.
fn between<'a>(text: &'a str, before: &'a str, after: char) -> impl Iterator<Item = &'a str> {
    let pieces = text.split(before).skip(1);
    pieces.filter_map(move |piece| piece.split(after).next())
}

fn text_of(path: &str) -> &'static str {
    let file = FILES.iter().find(|file| file.path == path);
    file.unwrap_or_else(|| panic!("no {path}")).text
}

fn scripts() -> impl Iterator<Item = &'static File> {
    FILES.iter().filter(|file| file.media_type == JS)
}

#[actix_web::test]
async fn every_file_has_the_content_security_policy() {
    for file in FILES {
        let response = ask(TestRequest::get().uri(file.path)).await;
        assert_eq!(response.status(), StatusCode::OK, "{}", file.path);
        assert_eq!(header_of(&response, "content-type"), file.media_type);
        assert_eq!(header_of(&response, "x-content-type-options"), "nosniff");
        assert_eq!(header_of(&response, "cache-control"), "no-cache");
        let policy = header_of(&response, "content-security-policy").to_owned();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|part| part == rule), "{rule}");
        }
        assert!(!policy.contains("unsafe"));
        assert_eq!(read_body(response).await, file.text.as_bytes());
    }
}

#[actix_web::test]
async fn cached_file_is_answered_304() {
    let response = ask(TestRequest::get().uri("/mock/")).await;
    let tag = header_of(&response, "etag").to_owned();
    let again = TestRequest::get().uri("/mock/");
    let response = ask(again.insert_header(("if-none-match", tag))).await;
    assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
    assert!(read_body(response).await.is_empty());
    let other = TestRequest::get().uri("/mock/");
    let response = ask(other.insert_header(("if-none-match", "\"other\""))).await;
    assert_eq!(response.status(), StatusCode::OK);
}

#[actix_web::test]
async fn page_without_slash_redirects_and_keeps_the_namespace() {
    for (path, location) in [
        ("/mock", "/mock/"),
        ("/mock?namespace=a", "/mock/?namespace=a"),
    ] {
        let response = ask(TestRequest::get().uri(path)).await;
        assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(header_of(&response, "location"), location);
    }
}

#[actix_web::test]
async fn page_accepts_get_and_head_only() {
    let response = ask(TestRequest::default().method(Method::POST).uri("/mock/")).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[test]
fn page_has_no_inline_and_no_external_resources() {
    let page = text_of("/mock/");
    assert!(!page.contains("<style") && !page.contains(" style="));
    for attribute in between(page, " on", '"') {
        assert!(
            attribute.contains(' ') || !attribute.ends_with('='),
            "on{attribute}"
        );
    }
    for tag in between(page, "<script", '<') {
        assert!(tag.contains("src=\"/mock/") && tag.ends_with('>'), "{tag}");
    }
    for place in between(page, "href=\"", '"').chain(between(page, "src=\"", '"')) {
        let own = ["/mock/", "#", "data:"].iter();
        assert!(own.clone().any(|own| place.starts_with(own)), "{place}");
    }
    for file in scripts() {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!file.text.contains(word), "{} has {word}", file.path);
        }
        assert!(!file.text.contains("https://"), "{}", file.path);
    }
    assert!(!text_of("/mock/console.css").contains("url("));
}

#[test]
fn every_import_and_element_id_of_a_script_exists() {
    let page = text_of("/mock/");
    let ids: HashSet<_> = between(page, " id=\"", '"').collect();
    assert_eq!(
        ids.len(),
        between(page, " id=\"", '"').count(),
        "an id twice"
    );
    for file in scripts() {
        for import in between(file.text, "from \"./", '"') {
            let path = format!("/mock/{import}");
            assert!(FILES.iter().any(|file| file.path == path), "{path}");
        }
        for id in between(file.text, "byId(\"", '"') {
            assert!(ids.contains(id), "{} looks for {id}", file.path);
        }
    }
    for label in between(page, "<label for=\"", '"') {
        assert!(ids.contains(label), "a label for {label}");
    }
}
