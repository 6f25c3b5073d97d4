//! A strict reader of the exposition format (`OpenMetrics` 1.0).

use std::collections::{BTreeMap, BTreeSet};

/// Every series by its name and labels, with its value as text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exposition(BTreeMap<String, String>);

#[derive(Debug, Default)]
struct Family {
    name: String,
    kind: String,
    unit: String,
}

impl Exposition {
    /// Panics if the text breaks a rule of the format.
    #[track_caller]
    pub(crate) fn parse(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").expect("an explicit end");
        let (mut series, mut seen) = (BTreeMap::new(), BTreeSet::new());
        let mut family = Family::default();
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let (what, rest) = rest.split_once(' ').expect(line);
                let (name, value) = rest.split_once(' ').expect(line);
                if name != family.name {
                    assert!(seen.insert(name.to_owned()), "{name} in two places");
                    family = Family {
                        name: name.to_owned(),
                        ..Family::default()
                    };
                }
                match what {
                    "HELP" => {}
                    "TYPE" => value.clone_into(&mut family.kind),
                    "UNIT" => value.clone_into(&mut family.unit),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (name, value) = line.rsplit_once(' ').expect(line);
            family.owns(name);
            value.parse::<f64>().expect(line);
            assert!(
                series.insert(sorted(name), value.to_owned()).is_none(),
                "{name} twice"
            );
        }
        let all = Self(series);
        all.histograms_add_up();
        all
    }

    /// The value of a series, as text.
    #[track_caller]
    pub(crate) fn value(&self, series: &str) -> &str {
        let value = self.0.get(&sorted(series));
        value.unwrap_or_else(|| panic!("no {series}: {:#?}", self.names()))
    }

    /// The value of a counter.
    #[track_caller]
    pub(crate) fn count(&self, series: &str) -> u64 {
        self.value(series).parse().expect("a whole number")
    }

    /// The only series of this metric with this label.
    #[track_caller]
    pub(crate) fn only(&self, metric: &str, label: &str) -> &str {
        let of_metric = |series: &&str| {
            let labels = series.strip_prefix(metric);
            labels.is_some_and(|labels| labels.starts_with('{') && labels.contains(label))
        };
        let mut found = self.names().into_iter().filter(of_metric);
        let series = found.next();
        let series = series.unwrap_or_else(|| panic!("no {metric}: {:#?}", self.names()));
        assert_eq!(found.next(), None, "more than one {metric} with {label}");
        series
    }

    /// Every series.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Buckets are cumulative, and the last one contains all observations.
    fn histograms_add_up(&self) {
        let mut buckets = BTreeMap::<String, Vec<(f64, u64)>>::new();
        for name in self.0.keys() {
            if let Some((before, rest)) = name.split_once("le=\"") {
                let (bound, after) = rest.split_once('"').expect(name);
                let of = format!("{before}{}", after.trim_start_matches(','));
                let bucket = (bound.parse().expect(name), self.count(name));
                buckets.entry(of).or_default().push(bucket);
            }
        }
        for (of, mut buckets) in buckets {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            let grow = buckets.is_sorted_by(|one, other| one.1 <= other.1);
            let (bound, last) = buckets.last().expect("a bucket");
            let count = of.replace("_bucket{", "_count{").replace(",}", "}");
            assert!(grow && bound.is_infinite(), "{of}: {buckets:?}");
            assert_eq!(*last, self.count(&count), "{of}: {buckets:?}");
        }
    }
}

impl Family {
    #[track_caller]
    fn owns(&self, series: &str) {
        let name = series.split('{').next().expect("a name");
        let rest = name
            .strip_prefix(&self.name)
            .unwrap_or_else(|| panic!("{series} among {self:?}"));
        let fits: &[&str] = match self.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_sum", "_count", "_bucket"],
            _ => panic!("{self:?}"),
        };
        assert!(fits.contains(&rest), "{series} among {self:?}");
        assert!(
            self.unit.is_empty() || self.name.ends_with(&self.unit),
            "{self:?}"
        );
    }
}

/// The labels in alphabetical order, because their order has no meaning.
fn sorted(series: &str) -> String {
    let Some((name, labels)) = series.split_once('{') else {
        return series.to_owned();
    };
    let labels = labels.strip_suffix('}').expect("an end of the labels");
    let mut labels: Vec<_> = labels.split(',').collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}
