//! Finds the known name nearest to a misspelt one.

use strsim::osa_distance;

/// The known name that is nearest to what was written: by edits, where what stands before a dot
/// of the known name may be left out for one edit. None where no name is known.
#[must_use]
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits = |name: &str| {
        let tails = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let tails = tails.map(|tail| osa_distance(written, tail) + 1);
        tails.fold(osa_distance(written, name), usize::min)
    };
    known.into_iter().min_by_key(|name| edits(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_has_the_fewest_edits_and_may_lack_its_sections() {
        let known = [
            "http.listen",
            "iam.keycloak.url",
            "redis.url",
            "token.lifetime",
            "token",
        ];
        for (written, nearest_name) in [
            ("http.listn", "http.listen"),
            ("http_listen", "http.listen"),
            ("listen", "http.listen"),
            ("keycloak.url", "iam.keycloak.url"),
            ("tokn", "token"),
            ("token.lifetmie", "token.lifetime"),
        ] {
            assert_eq!(nearest(written, known), Some(nearest_name), "{written}");
        }
        assert_eq!(nearest("a", []), None);
    }
}
