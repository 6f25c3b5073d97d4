use super::*;

#[test]
fn published_signing_key_is_for_loopback_only_and_excludes_other_keys() {
    let files = Files::new();
    let fixed = ("IAM__SAMPLE__FIXED_SIGNING_KEY", "true");
    let users = files.users();
    assert_eq!(problems(&users, &[fixed]), [""; 0]);

    let reached = problems(&users, &[fixed, ("HTTP__LISTEN", "0.0.0.0:8080")]);
    assert_eq!(reached.len(), 1, "{reached:?}");
    assert!(reached[0].starts_with("http.listen: 0.0.0.0:8080 can be reached"));
    assert!(
        reached[0].contains("remove iam.sample.fixed_signing_key"),
        "{reached:?}"
    );

    let both = problems(&format!("{users}{}", files.keys()), &[fixed]);
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(
        both[0].starts_with("iam.sample.fixed_signing_key: cannot be true if keys.signing_dir"),
        "{both:?}"
    );

    let production = "environment = 'production'\nhttp.public_url = 'https://auth.example.test'\n";
    let refused = problems(&format!("{production}{users}"), &[fixed]);
    assert!(
        refused
            .iter()
            .any(|problem| problem.starts_with("iam.sample: ")),
        "{refused:?}"
    );
}
