//! A scope string is accepted exactly if it matches the grammar, and a granted scope was requested and
//! is permitted.

#![no_main]

use auth_gateway_fuzz::is_scope_name;
use iam_adapters::scope::{SCOPE_BYTES_MAX, SCOPE_NAMES_MAX};
use iam_adapters::{Permission, Permissions, Scope};
use libfuzzer_sys::fuzz_target;

// The part before the first NUL is the requested scope, each part after it the name of a permission.
fuzz_target!(|text: &str| {
    let mut parts = text.split('\0');
    let requested = parts.next().unwrap_or_default();
    let names: Vec<_> = requested.split(' ').collect();
    let legal = requested.is_empty()
        || requested.len() <= SCOPE_BYTES_MAX
            && names.len() <= SCOPE_NAMES_MAX
            && names.iter().all(|name| is_scope_name(name));
    let Ok(scope) = Scope::parse(requested) else {
        assert!(!legal);
        return;
    };
    assert!(legal);
    let held: Permissions = parts
        .filter_map(|name| {
            let permission = Permission::parse(name).ok();
            let fit = is_scope_name(name) && name.len() <= SCOPE_BYTES_MAX;
            assert_eq!(permission.is_some(), fit);
            permission
        })
        .collect();
    let granted = scope.granted(&held, None);
    assert!(granted.len() <= requested.len());
    let again = Scope::parse(&granted).expect("what is granted can be asked for");
    assert_eq!(again.granted(&held, None), granted);
    let mut granted: Vec<_> = again.names().collect();
    let mut both: Vec<_> = names
        .into_iter()
        .filter(|name| held.iter().any(|permission| permission.as_str() == *name))
        .collect();
    for list in [&mut granted, &mut both] {
        list.sort_unstable();
    }
    both.dedup();
    assert_eq!(granted, both);
});
