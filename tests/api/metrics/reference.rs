//! `docs/metrics.md` describes exactly the metrics of a running gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use test_support::files::write_private;
use test_support::gateway::TestGateway;
use test_support::wire::{Connection, get};

const PAGE: &str = include_str!("../../../docs/metrics.md");

/// Labels whose values differ between installations. The page describes them in words.
const OPEN: [&str; 4] = ["commit", "iam", "kid", "version"];

#[derive(Debug, Default)]
struct Metric<'a> {
    name: String,
    kind: &'a str,
    unit: &'a str,
    help: &'a str,
    labels: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// The rows of the table that describe these metrics, by name. A metric begins with its help text.
fn rows(exposition: &str) -> Vec<String> {
    let mut metrics = Vec::<Metric<'_>>::new();
    for line in exposition.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            let (name, help) = described.split_once(' ').expect(line);
            metrics.push(Metric {
                name: name.to_owned(),
                help: help.trim_end_matches('.'),
                ..Metric::default()
            });
            continue;
        }
        let Some(metric) = metrics.last_mut() else {
            panic!("{line} of no metric");
        };
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            (_, metric.kind) = typed.split_once(' ').expect(line);
            if metric.kind == "counter" {
                metric.name += "_total";
            }
        } else if let Some(measured) = line.strip_prefix("# UNIT ") {
            (_, metric.unit) = measured.split_once(' ').expect(line);
        } else if let Some((_, rest)) = line.split_once('{') {
            let (labels, _) = rest.rsplit_once('}').expect(line);
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
    metrics.sort_by(|one, other| one.name.cmp(&other.name));
    let row = |metric: &Metric<'_>| {
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
        let cells = [
            "",
            &format!("`{}`", metric.name),
            metric.kind,
            metric.unit,
            &labels.join("; "),
            metric.help,
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
    write_private(&key, signing_key.serialize_pem());
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
    let text = "# HELP b Things.\n# TYPE b counter\nb_total{iam=\"c\",of=\"d\"} 0\n\
                # HELP a_seconds Some time.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                a_seconds_bucket{le=\"1\",route=\"x\"} 1\na_seconds_sum{route=\"y\"} 1\n# EOF\n";
    assert_eq!(
        rows(text),
        [
            "| `a_seconds` | histogram | seconds | `route`: `x`, `y` | Some time |",
            "| `b_total` | counter | | `iam`; `of`: `d` | Things |",
        ]
    );
}
