//! Checks responses with their description: those of the gateway with `openapi.yaml`, those of the
//! mock's control API with its own document.

use std::sync::LazyLock;

use jsonschema::{Draft, Registry, RegistryBuilder};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Map, Value, json};

mod pointer;
#[cfg(test)]
mod tests;

use crate::endpoints::{METADATA, OPENID_METADATA};

use pointer::{Pointer, fits};

/// The name under which the schemas of a document refer to each other.
const DOCUMENT: &str = "urn:auth-gateway:openapi";

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// An `OpenAPI` document.
#[derive(Debug)]
pub struct Contract {
    name: &'static str,
    document: Value,
    schemas: Registry<'static>,
}

impl Contract {
    /// The API's document, at the root of the repository; read once.
    pub fn get() -> &'static Self {
        static CONTRACT: LazyLock<Contract> =
            LazyLock::new(|| Contract::read("openapi.yaml", include_str!("../../../openapi.yaml")));
        &CONTRACT
    }

    /// The document of the control API of the mock; read once.
    pub fn of_the_control() -> &'static Self {
        static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
            let yaml = include_str!("../../../dev/openapi.yaml");
            Contract::read("dev/openapi.yaml", yaml)
        });
        &CONTRACT
    }

    fn read(name: &'static str, yaml: &str) -> Self {
        Self::parse(name, yaml).unwrap_or_else(|why| unreadable(name, &why))
    }

    fn parse(name: &'static str, yaml: &str) -> Result<Self, String> {
        let mut document = read_yaml(yaml.as_bytes())?;
        close(&mut document);
        let schemas = Registry::new()
            .draft(Draft::Draft202012)
            .add(DOCUMENT, document.clone())
            .and_then(RegistryBuilder::prepare)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            name,
            document,
            schemas,
        })
    }

    /// Every path with its methods.
    pub fn paths(&self) -> Vec<(String, Vec<String>)> {
        let paths = self.document.get("paths").and_then(Value::as_object);
        let paths = paths.into_iter().flatten();
        let methods = |item: &Value| {
            let known = METHODS.iter().filter(|verb| item.get(**verb).is_some());
            known.map(|verb| verb.to_uppercase()).collect()
        };
        paths
            .map(|(path, item)| (path.clone(), methods(item)))
            .collect()
    }

    /// Panics unless the document describes this response to this request.
    ///
    /// `path` may have a query. Other methods of a known path are checked as its 405, unknown paths
    /// as `NotFound`.
    #[track_caller]
    pub fn check(&self, method: &str, path: &str, status: u16, headers: &HeaderMap, body: &[u8]) {
        let result = self.check_response(method, path, status, headers, body);
        assert!(
            result.is_ok(),
            "{method} {path} answered {status}, which {} does not describe: {}\n{headers:#?}\n{}",
            self.name,
            result.err().unwrap_or_default(),
            String::from_utf8_lossy(body),
        );
    }

    fn check_response(
        &self,
        method: &str,
        path: &str,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(), String> {
        let response = self.response(method, path, status)?;
        self.judge_headers(&response, headers)?;
        self.judge_body(&response, method, headers, body)
    }

    /// The place in the document that describes this response.
    fn response(&self, method: &str, path: &str, status: u16) -> Result<Pointer, String> {
        let mut path = path.split('?').next().unwrap_or_default();
        // RFC 8414 section 3.1: the issuer's path may follow. OpenAPI cannot express such a path.
        for metadata in [METADATA, OPENID_METADATA] {
            if path.starts_with(&format!("{metadata}/")) {
                path = metadata;
            }
        }
        let Some((item, operations)) = self.item(path) else {
            return elsewhere(status);
        };
        let verb = match method {
            // RFC 9110 section 9.3.2: the same response without the body.
            "HEAD" if operations.contains_key("get") => "get".to_owned(),
            _ => method.to_ascii_lowercase(),
        };
        let operation = if operations.contains_key(&verb) {
            verb
        } else if status == 405 {
            let verb = METHODS.iter().find(|verb| operations.contains_key(**verb));
            (*verb.ok_or("the path has no operation")?).to_owned()
        } else {
            return Err("the method is unknown there, and its only answer is 405".to_owned());
        };
        let responses = item.child(&operation).child("responses");
        let found = self.resolve(responses.child(&status.to_string()));
        found.map_err(|_| format!("{operation} has no response {status}"))
    }

    /// The description of a path: its own, or that of a matching template.
    fn item(&self, path: &str) -> Option<(Pointer, &Map<String, Value>)> {
        let paths = Pointer::root().child("paths");
        let known = self.at(&paths)?.as_object()?;
        let literal = known.contains_key(path).then_some(path);
        let found =
            literal.or_else(|| known.keys().map(String::as_str).find(|at| fits(at, path)))?;
        let operations = known.get(found)?.as_object()?;
        Some((paths.child(found), operations))
    }

    fn judge_headers(&self, response: &Pointer, headers: &HeaderMap) -> Result<(), String> {
        let described = response.child("headers");
        let Some(Value::Object(names)) = self.at(&described) else {
            return Ok(());
        };
        for name in names.keys() {
            let header = self.resolve(described.child(name))?;
            let mut values = headers.get_all(name).iter();
            let Some(value) = values.next() else {
                if self.at(&header.child("required")) == Some(&Value::Bool(true)) {
                    return Err(format!("the header {name} is missing"));
                }
                continue;
            };
            if values.next().is_some() {
                return Err(format!("the header {name} is there more than once"));
            }
            let text = value
                .to_str()
                .map_err(|_| format!("the header {name} is not text"))?;
            let schema = self.resolve(header.child("schema"))?;
            let value = match self.at(&schema.child("type")).and_then(Value::as_str) {
                Some("integer") => text.parse::<i64>().map_or(json!(text), Value::from),
                _ => json!(text),
            };
            self.validate(&schema, &value)
                .map_err(|why| format!("the header {name}: {why}"))?;
        }
        Ok(())
    }

    fn judge_body(
        &self,
        response: &Pointer,
        method: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(), String> {
        let described = response.child("content");
        let Some(Value::Object(media_types)) = self.at(&described) else {
            return if body.is_empty() {
                Ok(())
            } else {
                Err("there should be no body".to_owned())
            };
        };
        let content_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .ok_or("there is no content type")?;
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if !media_types.contains_key(essence) {
            return Err(format!("the content type is {essence}"));
        }
        if method == "HEAD" {
            return Ok(());
        }
        let body = read(essence, body).map_err(|why| format!("the body: {why}"))?;
        self.validate(&described.child(essence).child("schema"), &body)
            .map_err(|why| format!("the body: {why}"))?;
        judge_error(headers, &body)
    }

    fn at(&self, pointer: &Pointer) -> Option<&Value> {
        self.document.pointer(pointer.as_str())
    }

    /// Resolves a reference object.
    fn resolve(&self, pointer: Pointer) -> Result<Pointer, String> {
        let value = self.at(&pointer);
        let value = value.ok_or_else(|| format!("{} has no {}", self.name, pointer.as_str()))?;
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.resolve(Pointer::from(reference.trim_start_matches('#'))),
            None => Ok(pointer),
        }
    }

    fn validate(&self, schema: &Pointer, value: &Value) -> Result<(), String> {
        let reference = format!("{DOCUMENT}#{}", schema.fragment());
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_registry(&self.schemas)
            .should_validate_formats(true)
            .build(&json!({ "$ref": reference }))
            .map_err(|error| format!("{}: {}: {error}", self.name, schema.as_str()))?;
        let problems: Vec<_> = validator
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems.join("; "))
        }
    }
}

fn read(essence: &str, body: &[u8]) -> Result<Value, String> {
    if essence.ends_with("json") {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    } else if essence.ends_with("yaml") {
        read_yaml(body)
    } else {
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        Ok(json!(text))
    }
}

fn read_yaml(yaml: &[u8]) -> Result<Value, String> {
    // In YAML 1.1 the key `y` of a JWK is a boolean.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_slice_with_options(yaml, options).map_err(|error| error.to_string())
}

/// Makes schemas refuse members that they do not list. Clients accept them, because a later version may add some. A
/// schema that lists none describes an object of any members.
fn close(document: &mut Value) {
    match document {
        Value::Object(members) => {
            let lists = members.contains_key("properties") || members.contains_key("allOf");
            if lists && members.get("additionalProperties") == Some(&Value::Bool(true)) {
                members.remove("additionalProperties");
                // Unlike `additionalProperties`, it accepts those that the schemas in `allOf` list.
                members.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// The description for a path that the document does not list.
fn elsewhere(status: u16) -> Result<Pointer, String> {
    let name = match status {
        404 => "NotFound",
        500 => "Fault",
        503 => "Unavailable",
        _ => return Err("the path is unknown, and answers 404".to_owned()),
    };
    Ok(Pointer::root()
        .child("components")
        .child("responses")
        .child(name))
}

/// The rules that the document has in prose, because no schema relates a body to its headers.
fn judge_error(headers: &HeaderMap, body: &Value) -> Result<(), String> {
    let Some(error) = body.get("error").and_then(Value::as_str) else {
        return Ok(());
    };
    if headers.contains_key("retry-after") != (error == "temporarily_unavailable") {
        return Err(format!("{error}, which contradicts Retry-After"));
    }
    let id = headers.get("x-request-id").and_then(|id| id.to_str().ok());
    if body.get("request_id").and_then(Value::as_str) != id {
        return Err(format!("request_id is not that of the header, {id:?}"));
    }
    Ok(())
}

#[expect(
    clippy::panic,
    reason = "a test cannot go on without the document it tests against"
)]
fn unreadable(name: &str, why: &str) -> ! {
    panic!("{name}: {why}")
}
