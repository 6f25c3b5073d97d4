//! Checks of claims of access tokens.

use iam_adapters::claims::ClaimType;
use iam_adapters::{ClaimSources, Claims, IamError, Introspection, PermissionAge, UpstreamSession};
use serde_json::{Map, Value, json};

use super::adapter_under_test::{AdapterUnderTest, READ, ensure, failure};
use super::{Account, CheckFailure, CheckResult, ClaimMembers, Fixture};

/// A member that no IAM states.
const ABSENT: &str = "conformance_absent";

/// The members of [`attributes`].
const ATTRIBUTES: &[(&str, ClaimType)] = &[
    ("conformance_text", ClaimType::Text),
    ("conformance_integer", ClaimType::Integer),
    ("conformance_boolean", ClaimType::Boolean),
    ("conformance_list", ClaimType::ListOfTexts),
    ("/conformance_address/country", ClaimType::Text),
];

/// Attributes of a user, of every type of claims. No value of one kind is that of the other.
fn attributes(changed: bool) -> Map<String, Value> {
    let (text, integer, list) = if changed {
        ("Käse & \"Brot\"", 40_417, ["delta", "epsilon"])
    } else {
        ("Zoë O'Neil, R&D", 90_171, ["beta gamma", "ümlaut"])
    };
    let members = [
        ("conformance_text", json!(text)),
        ("conformance_integer", json!(integer)),
        ("conformance_boolean", json!(changed)),
        ("conformance_list", json!(list)),
        (
            "conformance_address",
            json!({"country": format!("of {text}")}),
        ),
    ];
    Map::from_iter(members.map(|(name, value)| (name.to_owned(), value)))
}

fn members(fixture: &dyn Fixture) -> &'static [(&'static str, ClaimType)] {
    match fixture.claim_members() {
        ClaimMembers::Attributes => ATTRIBUTES,
        ClaimMembers::Fixed(members) => members,
    }
}

/// A new user, with attributes if the administrator can set them.
async fn new_user(fixture: &dyn Fixture) -> Result<Account, CheckFailure> {
    let user = Account::create(fixture, &[READ]).await?;
    if matches!(fixture.claim_members(), ClaimMembers::Attributes) {
        fixture.set_attributes(&user, &attributes(false)).await;
    }
    Ok(user)
}

/// A login, if it reports the user's data, and introspection return each claim with its type. A claim that the
/// IAM does not state is left out.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn claims_have_the_values_and_types_of_the_iam(fixture: &dyn Fixture) -> CheckResult {
    let user = new_user(fixture).await?;
    let adapter = with_all_members(fixture)?;
    let begun = adapter
        .try_log_in(&user.email, &user.password)
        .await
        .map_err(|error| failure(format!("a login with claims failed: {error:#}")))?;
    let response = fixture.introspection_response(&begun.session).await;
    if begun.permissions.is_some() {
        are_those_of(&begun.claims, &response, members(fixture))?;
    }
    states(&adapter, &begun.session, &response, members(fixture)).await
}

/// A missing required claim is a fault that names it; a user is never refused for it.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn missing_required_claim_is_a_fault_that_names_it(fixture: &dyn Fixture) -> CheckResult {
    let table = json!({"wanted": {"member": ABSENT, "required": true}});
    is_fault_of("wanted", &table, None, fixture).await
}

/// A value of another type is a fault that names the claim and does not contain the value.
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn claim_of_another_type_is_a_fault_without_its_value(
    fixture: &dyn Fixture,
) -> CheckResult {
    for (member, r#type) in members(fixture) {
        let other = match r#type {
            ClaimType::Text | ClaimType::ListOfTexts => "integer",
            ClaimType::Integer | ClaimType::Boolean => "text",
        };
        let table = json!({"mistyped": {"member": member, "type": other}});
        is_fault_of("mistyped", &table, Some(member), fixture).await?;
    }
    Ok(())
}

/// Changed values are in the next introspection; if permissions are those of the login, only in sessions of later
/// logins. Not tested if no administrator can change them ([`ClaimMembers::Fixed`]).
///
/// # Errors
///
/// [`CheckFailure`] if the adapter violates the rule.
pub async fn claims_have_the_age_of_permissions(fixture: &dyn Fixture) -> CheckResult {
    if let ClaimMembers::Fixed(_) = fixture.claim_members() {
        return Ok(());
    }
    let adapter = with_all_members(fixture)?;
    let user = new_user(fixture).await?;
    let session = adapter.log_in(&user).await?;
    let before = fixture.introspection_response(&session).await;
    states(&adapter, &session, &before, ATTRIBUTES).await?;
    fixture.set_attributes(&user, &attributes(true)).await;
    let later = adapter.log_in(&user).await?;
    let after = fixture.introspection_response(&later).await;
    for (member, _) in ATTRIBUTES {
        ensure(
            value_at(&before, member) != value_at(&after, member),
            "the fixture did not change the values at the IAM",
        )?;
    }
    let of_session = match fixture.adapter().capabilities().permissions {
        PermissionAge::Current => &after,
        PermissionAge::Login => &before,
    };
    states(&adapter, &session, of_session, ATTRIBUTES).await?;
    states(&adapter, &later, &after, ATTRIBUTES).await
}

/// An adapter with a claim for each member of the suite, named after its position, and one for a member that is
/// absent.
fn with_all_members(fixture: &dyn Fixture) -> Result<AdapterUnderTest, CheckFailure> {
    let members = members(fixture);
    ensure(!members.is_empty(), "the fixture has no members for claims")?;
    let mut table = Map::new();
    for (position, (member, r#type)) in members.iter().enumerate() {
        let source = json!({"member": member, "type": r#type});
        table.insert(format!("claim_{position}"), source);
    }
    table.insert("absent".to_owned(), json!({"member": ABSENT}));
    with_table(fixture, &table.into())
}

/// Introspection has to state these members of the response as claims.
async fn states(
    adapter: &AdapterUnderTest,
    session: &UpstreamSession,
    response: &Value,
    members: &[(&str, ClaimType)],
) -> CheckResult {
    match adapter.introspect(session).await? {
        Introspection::Active { claims, .. } => are_those_of(&claims, response, members),
        Introspection::Inactive => Err(failure("a session with claims is not active")),
    }
}

fn are_those_of(claims: &Claims, response: &Value, members: &[(&str, ClaimType)]) -> CheckResult {
    let mut expected = Map::new();
    for (position, (member, r#type)) in members.iter().enumerate() {
        let stated = value_at(response, member);
        let stated = stated.ok_or_else(|| failure(format!("the IAM does not state {member}")))?;
        let value = match (r#type, stated) {
            (ClaimType::ListOfTexts, text @ Value::String(_)) => json!([text]),
            _ => stated.clone(),
        };
        expected.insert(format!("claim_{position}"), value);
    }
    let (claims, expected) = (Value::from(claims.to_json()), Value::from(expected));
    ensure(
        claims == expected,
        &format!("the claims are {claims}, not {expected}"),
    )
}

/// A login succeeds without the user's data or is a fault; introspection is a fault. Each names the claim and does
/// not contain the value of the member.
async fn is_fault_of(
    claim: &str,
    table: &Value,
    member: Option<&str>,
    fixture: &dyn Fixture,
) -> CheckResult {
    let user = new_user(fixture).await?;
    let session = AdapterUnderTest::of(fixture).log_in(&user).await?;
    let response = fixture.introspection_response(&session).await;
    let value = member.and_then(|member| value_at(&response, member));
    let adapter = with_table(fixture, table)?;
    let login = adapter.try_log_in(&user.email, &user.password).await;
    let fault = match login {
        Ok(begun) => {
            ensure(
                begun.permissions.is_none(),
                "a login reports the user's data without a claim that cannot be read",
            )?;
            None
        }
        Err(fault) => Some(fault),
    };
    let introspected = adapter.0.introspect(&session).await.err();
    let introspected = introspected
        .ok_or_else(|| failure("introspection has no fault for an unreadable claim"))?;
    for fault in fault.iter().chain([&introspected]) {
        ensure(
            matches!(fault, IamError::UnreadableSession(_)),
            "an unreadable claim is not reported as an unreadable response about one session",
        )?;
        let text = format!("{fault:#} {fault:?}");
        ensure(text.contains(claim), "a fault does not name its claim")?;
        let shown = value.is_some_and(|value| contains(&text, value));
        ensure(!shown, "a fault contains the value of a claim")?;
    }
    Ok(())
}

/// An adapter of the IAM with this table of claims.
fn with_table(fixture: &dyn Fixture, table: &Value) -> Result<AdapterUnderTest, CheckFailure> {
    let claims: ClaimSources = serde_json::from_value(table.clone())
        .map_err(|invalid| failure(format!("the suite: {invalid}")))?;
    Ok(AdapterUnderTest(fixture.adapter_with_claims(claims)))
}

/// The member with this name, or at this JSON pointer.
fn value_at<'v>(response: &'v Value, member: &str) -> Option<&'v Value> {
    if member.starts_with('/') {
        response.pointer(member)
    } else {
        response.get(member)
    }
}

/// Whether a text contains a text or number of the value. A boolean says nothing.
fn contains(text: &str, value: &Value) -> bool {
    match value {
        Value::String(value) => text.contains(value.as_str()),
        Value::Number(value) => text.contains(&value.to_string()),
        Value::Array(values) => values.iter().any(|value| contains(text, value)),
        Value::Object(_) | Value::Bool(_) | Value::Null => false,
    }
}
