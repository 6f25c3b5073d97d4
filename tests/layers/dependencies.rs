//! Which modules of the service, and which crates, may use which others. The order is that of
//! `docs/architecture.md`: each entry uses entries above it only, so that there is no cycle.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of `src`, each with those that it may use.
const MODULES: [(&str, &[&str]); 10] = [
    ("server", &[]),
    ("gateway", &[]),
    ("config", &["gateway"]),
    ("telemetry", &["gateway", "config"]),
    ("audit", &["gateway", "config", "telemetry"]),
    ("health", &["gateway", "telemetry"]),
    ("replication", &["gateway", "telemetry", "health"]),
    (
        "http",
        &[
            "server",
            "gateway",
            "config",
            "telemetry",
            "audit",
            "health",
        ],
    ),
    (
        "startup",
        &[
            "server",
            "gateway",
            "config",
            "telemetry",
            "audit",
            "health",
            "replication",
            "http",
        ],
    ),
    (
        "cli",
        &[
            "gateway",
            "config",
            "telemetry",
            "audit",
            "health",
            "startup",
        ],
    ),
];

/// Crates of the workspace by their folder, each with those that it may depend on. Dependencies for
/// tests alone are free.
const CRATES: [(&str, &str, &[&str]); 4] = [
    ("iam-adapters", "iam-adapters", &[]),
    (
        "iam-adapters/conformance",
        "iam-conformance",
        &["iam-adapters"],
    ),
    (".", "auth-gateway", &["iam-adapters"]),
    (
        "iam-adapters/mock",
        "mock-iam",
        &["iam-adapters", "iam-conformance", "auth-gateway"],
    ),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a folder, except those of unit tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let stem = stem.expect("a name").to_owned();
        if stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The code without comments and without the unit tests at its end.
fn production_code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = code.unwrap_or_default().lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// The names that a path continues with: one, or several in braces.
fn continuations(rest: &str) -> Vec<String> {
    let name = |text: &str| {
        let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let Some(list) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let mut names = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(name(list[start..at].trim_start()));
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// The items of the crate's root that the code names, `depth` modules below the root.
fn root_items(code: &str, depth: usize) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || "_:".contains(letter)) {
                continue;
            }
            let path = &code[at..];
            let rest = path.trim_start_matches(start);
            let levels = (path.len() - rest.len()) / start.len();
            if start == "crate::" || levels == depth {
                items.extend(continuations(rest));
            }
        }
    }
    items
}

#[test]
fn module_uses_only_modules_below_it() {
    for (at, (module, allowed)) in MODULES.iter().enumerate() {
        let below: Vec<_> = MODULES[..at].iter().map(|(below, _)| below).collect();
        for used in *allowed {
            assert!(below.contains(&used), "{module} may not use {used}");
        }
    }
    let folder = root().join("src");
    let mut seen = BTreeSet::new();
    let mut back_edges = Vec::new();
    for file in sources(&folder) {
        let module = file
            .strip_prefix(&folder)
            .expect("below")
            .with_extension("");
        let depth = module.components().count();
        let module = module.iter().next().and_then(|name| name.to_str());
        let Some((module, allowed)) = MODULES.iter().find(|(name, _)| Some(*name) == module) else {
            continue;
        };
        seen.insert(*module);
        let code = production_code(&fs::read_to_string(&file).expect("text"));
        for used in root_items(&code, depth) {
            let is_module = MODULES.iter().any(|(name, _)| *name == used);
            if is_module && used != *module && !allowed.contains(&&*used) {
                back_edges.push(format!("{}: {module} uses {used}", file.display()));
            }
        }
    }
    assert_eq!(back_edges, [""; 0]);
    // A module that is missing in the table would not be checked.
    let modules = fs::read_to_string(folder.join("lib.rs")).expect("text");
    let modules: BTreeSet<_> = modules
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    assert_eq!(seen, modules);
}

#[test]
fn crate_depends_only_on_crates_below_it() {
    let names: Vec<_> = CRATES.iter().map(|(_, name, _)| *name).collect();
    for (folder, name, allowed) in CRATES {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("text");
        let manifest: toml::Table = manifest.parse().expect("TOML");
        assert_eq!(manifest["package"]["name"].as_str(), Some(name));
        let dependencies = manifest["dependencies"].as_table().expect("a table");
        for dependency in dependencies.keys() {
            let ours = names.contains(&dependency.as_str());
            assert!(
                !ours || allowed.contains(&dependency.as_str()),
                "{name} may not depend on {dependency}"
            );
        }
    }
}

#[test]
fn every_form_of_a_path_is_found() {
    let code = "use crate::http::AppState;\nuse crate::{config::{A, B}, cli};\nsuper::super::health::f();\n\
                super::near::g(); other_crate::startup::h();";
    let found = root_items(code, 2);
    let expected = ["cli", "config", "health", "http"].map(str::to_owned);
    assert_eq!(found, expected.into());
}
