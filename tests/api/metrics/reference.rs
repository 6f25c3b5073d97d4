//! `docs/metrics.md` describes exactly the metrics of a running gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use test_support::gateway::TestGateway;
use test_support::wire::{Connection, get};

const PAGE: &str = include_str!("../../../docs/metrics.md");

/// Labels whose values differ between installations. The page describes them in words.
const OPEN: [&str; 4] = ["commit", "iam", "kid", "version"];

#[derive(Debug, Default)]
struct Metric<'a> {
    kind: &'a str,
    help: &'a str,
    labels: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// The rows of the table that describe these metrics.
fn rows(exposition: &str) -> Vec<String> {
    let mut metrics = BTreeMap::<&str, Metric<'_>>::new();
    for line in exposition.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            let (name, help) = described.split_once(' ').expect(line);
            metrics.entry(name).or_default().help = help.trim_end_matches('.');
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').expect(line);
            metrics.entry(name).or_default().kind = kind;
        } else if let Some((name, rest)) = line.split_once('{') {
            let (labels, _) = rest.rsplit_once('}').expect(line);
            let name = name.trim_end_matches("_bucket");
            let name = name.trim_end_matches("_sum").trim_end_matches("_count");
            let metric = metrics.get_mut(name).expect(line);
            for label in labels.split("\",") {
                let (label, value) = label.split_once("=\"").expect(line);
                metric
                    .labels
                    .entry(label)
                    .or_default()
                    .insert(value.trim_end_matches('"'));
            }
        }
    }
    let row = |(name, metric): (&&str, &Metric<'_>)| {
        let unit = ["seconds", "bytes"].into_iter().find(|unit| {
            name.trim_end_matches("_total")
                .ends_with(&format!("_{unit}"))
        });
        let labels = metric.labels.iter().filter(|(label, _)| **label != "le");
        let labels: Vec<_> = labels
            .map(|(label, values)| match *label {
                label if OPEN.contains(&label) => format!("`{label}`"),
                label => {
                    let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
                    format!("`{label}`: {}", values.join(", "))
                }
            })
            .collect();
        let (kind, help) = (metric.kind, metric.help);
        let cells = [
            "",
            &format!("`{name}`"),
            kind,
            unit.unwrap_or_default(),
            &labels.join("; "),
            help,
            "",
        ];
        cells.join(" | ").replace("  ", " ").trim().to_owned()
    };
    metrics.iter().map(row).collect()
}

#[test]
fn reference_page_has_every_metric_with_its_type_unit_labels_and_meaning() {
    let folder = tempfile::tempdir().expect("a folder");
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let [chain, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&chain, cert.pem()).expect("written");
    fs::write(&key, signing_key.serialize_pem()).expect("written");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("permissions");
    let gateway = TestGateway::start(&[
        ("http.tls.certificate_file", chain.to_str().expect("a path")),
        ("http.tls.key_file", key.to_str().expect("a path")),
    ]);
    let mut connection = Connection::to(gateway.addresses().management);
    let expected = rows(&connection.send(get("/metrics")).answer().body);
    assert!(expected.len() > 40, "{expected:#?}");
    let is_row =
        |line: &&str| line.starts_with("| `auth_gateway_") || line.starts_with("| `process_");
    let documented: Vec<_> = PAGE.lines().filter(is_row).collect();
    assert!(
        documented == expected,
        "the rows of docs/metrics.md must be\n{}",
        expected.join("\n")
    );
}

#[test]
fn row_has_the_name_type_unit_values_of_labels_and_meaning() {
    let text = "# HELP a_seconds Some time.\n# TYPE a_seconds histogram\n\
                a_seconds_bucket{le=\"1\",route=\"x\"} 1\na_seconds_sum{route=\"y\"} 1\n\
                # HELP b_total Things.\n# TYPE b_total counter\nb_total{iam=\"c\",of=\"d\"} 0\n";
    assert_eq!(
        rows(text),
        [
            "| `a_seconds` | histogram | seconds | `route`: `x`, `y` | Some time |",
            "| `b_total` | counter | | `iam`; `of`: `d` | Things |",
        ]
    );
}
