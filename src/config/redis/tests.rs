use super::super::load_tests::{load_text, problems};

/// The problems of these lines under `[redis]`.
fn redis_problems(lines: &str) -> Vec<String> {
    problems(&format!("[redis]\n{lines}"), &[])
}

/// The same in production, without the problems of other settings.
fn redis_problems_in_production(lines: &str) -> Vec<String> {
    let text = format!("environment = 'production'\n[redis]\n{lines}");
    let about_redis = |problem: &String| problem.starts_with("redis");
    problems(&text, &[])
        .into_iter()
        .filter(about_redis)
        .collect()
}

#[test]
fn redis_is_configured_by_its_address_and_absent_by_default() {
    assert!(load_text("", &[]).unwrap().redis.is_none());
    let by_environment = [("REDIS__URL", "rediss://[::1]:7000/3")];
    let settings = load_text("", &by_environment).unwrap();
    let redis = settings.redis.unwrap();
    let redis = redis.address(None);
    assert_eq!((redis.host.as_str(), redis.port), ("::1", 7000));
    assert_eq!((redis.tls, redis.database), (true, 3));
    let settings = load_text("redis.url = 'redis://redis.test'", &[]).unwrap();
    let redis = settings.redis.unwrap();
    let redis = redis.address(None);
    assert_eq!((redis.host.as_str(), redis.port), ("redis.test", 6379));
    assert_eq!((redis.tls, redis.database), (false, 0));
}

#[test]
fn address_that_is_not_one_of_a_redis_is_refused() {
    for url in [
        "http://redis.test",
        "redis:",
        "redis:///1",
        "unix:///run/redis.sock",
        "redis://redis.test/one",
        "redis://redis.test/-1",
        "redis://redis.test/1/2",
        "redis://redis.test/?protocol=3",
        "rediss://redis.test/#insecure",
        "redis://user@redis.test",
        "redis://:canary@redis.test",
        "rediss://canary-user:canary@redis.test",
        "rediss://:canary@[redis.test",
        "rediss://:canary@redis.test:port",
        "canary",
        "redis://redis.test/canary",
        "redis://redis.test?password=canary",
    ] {
        let found = redis_problems(&format!("url = '{url}'"));
        assert!(!found.is_empty(), "{url}");
        for problem in found {
            assert!(problem.starts_with("redis.url: "), "{problem}");
            assert!(!problem.contains("canary"), "{problem}");
        }
    }
    let found = redis_problems("username = 'gateway'");
    assert!(found[0].contains("redis.url: is missing"), "{found:?}");
}

#[test]
fn password_has_one_source_and_appears_in_no_message() {
    let url = "url = 'redis://redis.test'\n";
    let found = redis_problems(&format!(
        "{url}password = 'canary'\npassword_file = '/canary'"
    ));
    assert!(found[0].contains("exclude each other"), "{found:?}");
    let found = redis_problems(&format!("{url}password_file = '/no/such/file'"));
    assert!(
        found[0].contains("password_file: /no/such/file: no such file"),
        "{found:?}"
    );
    assert!(redis_problems(&format!("{url}password = ''"))[0].contains("must not be empty"));
    let found = redis_problems(&format!("{url}ca_file = '/ca.pem'"));
    assert!(found[0].contains("only used with rediss://"), "{found:?}");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "canary\n").unwrap();
    let text = format!("[redis]\n{url}password_file = {:?}", file.path());
    let redis = load_text(&text, &[]).unwrap().redis.unwrap();
    let secret = redis.password.as_ref().unwrap();
    assert_eq!(secrecy::ExposeSecret::expose_secret(secret), "canary");
    assert!(!format!("{redis:?}").contains("canary"));
}

#[test]
fn production_requires_tls_except_on_loopback_and_always_a_password() {
    let password = "password = 'canary'\n";
    for loopback in ["localhost", "127.0.0.1", "[::1]", "127.9.9.9:7000/2"] {
        let found = redis_problems_in_production(&format!("{password}url = 'redis://{loopback}'"));
        assert!(found.is_empty(), "{loopback}: {found:?}");
        let found = redis_problems_in_production(&format!("url = 'redis://{loopback}'"));
        assert!(found[0].starts_with("redis.password: "), "{found:?}");
    }
    let found = redis_problems_in_production("password = 'Redis'\nurl = 'redis://127.0.0.1'");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("redis.password: a well-known one"),
        "{found:?}"
    );
    for remote in ["redis.test", "10.0.0.1", "[2001:db8::1]", "localhost.test"] {
        let found = redis_problems_in_production(&format!("{password}url = 'redis://{remote}'"));
        assert_eq!(found.len(), 1, "{remote}: {found:?}");
        assert!(found[0].contains("rediss://"), "{found:?}");
        let found = redis_problems_in_production(&format!("{password}url = 'rediss://{remote}'"));
        assert!(found.is_empty(), "{remote}: {found:?}");
        assert!(redis_problems(&format!("url = 'redis://{remote}'")).is_empty());
    }
}

#[test]
fn prefix_is_that_of_the_public_url_unless_it_is_set() {
    let prefix = |text: &str| {
        let settings = load_text(text, &[]).unwrap();
        settings.redis.unwrap().prefix.unwrap()
    };
    let url = "redis.url = 'redis://redis.test'\n";
    assert_eq!(prefix(url), "auth-gateway:localhost:8080");
    let public = "http.public_url = 'https://login.example.test/shop/'\n";
    let text = format!("{url}{public}");
    assert_eq!(prefix(&text), "auth-gateway:login.example.test/shop");
    assert_eq!(prefix(&format!("{url}redis.prefix = 'staging'")), "staging");
    for invalid in ["", "a b", "ä", "a\\u0000", &"x".repeat(129)] {
        let found = problems(&format!("{url}redis.prefix = \"{invalid}\""), &[]);
        assert!(found[0].starts_with("redis.prefix: "), "{found:?}");
    }
}

#[test]
fn sentinels_are_configured_by_their_addresses_and_the_name_of_the_primary() {
    let text = "[redis]\nurl = 'redis://primary'\n[redis.sentinel]\n";
    let good = format!("{text}addresses = ['one.test', '[::1]:7']\nmaster = 'primary'");
    let redis = load_text(&good, &[]).unwrap().redis.unwrap();
    let sentinel = redis.address(None).sentinels.unwrap();
    let expected = [("one.test", 26_379), ("::1", 7)];
    assert_eq!(
        sentinel.addresses,
        expected.map(|(host, port)| (host.to_owned(), port))
    );
    assert_eq!(sentinel.master, "primary");
    for (lines, key) in [
        ("master = 'primary'", "redis.sentinel.addresses"),
        ("addresses = ['one.test']", "redis.sentinel.master"),
        (
            "addresses = []\nmaster = 'primary'",
            "redis.sentinel.addresses",
        ),
        (
            "addresses = ['one.test']\nmaster = ''",
            "redis.sentinel.master",
        ),
        (
            "addresses = ['a/b']\nmaster = 'primary'",
            "redis.sentinel.addresses",
        ),
        (
            "addresses = ['u@a']\nmaster = 'primary'",
            "redis.sentinel.addresses",
        ),
        (
            "addresses = ['a:b']\nmaster = 'primary'",
            "redis.sentinel.addresses",
        ),
        (
            "addresses = ['']\nmaster = 'primary'",
            "redis.sentinel.addresses",
        ),
    ] {
        let found = problems(&format!("{text}{lines}"), &[]);
        assert!(found[0].starts_with(key), "{lines}: {found:?}");
    }
}

#[test]
fn production_with_sentinels_requires_tls_wherever_they_are() {
    for sentinels in ["'one.test'", "'localhost'", "'127.0.0.1', '[::1]:7'"] {
        let lines = |scheme| {
            format!(
                "password = 'canary'\nurl = '{scheme}://localhost'\n[redis.sentinel]\n\
                 addresses = [{sentinels}]\nmaster = 'primary'"
            )
        };
        let found = redis_problems_in_production(&lines("redis"));
        assert_eq!(found.len(), 1, "{sentinels}: {found:?}");
        let problem = "redis.url: must begin with rediss:// in production";
        assert!(found[0].starts_with(problem), "{found:?}");
        let found = redis_problems_in_production(&lines("rediss"));
        assert_eq!(found, [""; 0], "{sentinels}");
    }
}
