use super::*;

fn response(rc: u32, text: &str, controls: &[(&str, &[u8])]) -> LdapResult {
    let controls = controls.iter().map(|(oid, value)| {
        let raw = RawControl {
            ctype: (*oid).to_owned(),
            crit: false,
            val: Some(value.to_vec()),
        };
        Control(None, raw)
    });
    LdapResult {
        rc,
        matched: String::new(),
        text: text.to_owned(),
        refs: Vec::new(),
        ctrls: controls.collect(),
    }
}

/// Values that OpenLDAP and 389 Directory Server send.
#[test]
fn errors_of_the_policy_are_read_in_both_forms_of_the_length() {
    for (value, expected) in [
        (&[0x30, 0x00][..], Some(None)),
        (
            &[0x30, 0x03, 0x81, 0x01, 0x00],
            Some(Some(PolicyError::PasswordExpired)),
        ),
        (
            &[0x30, 0x03, 0x81, 0x01, 0x01],
            Some(Some(PolicyError::AccountLocked)),
        ),
        (
            &[0x30, 0x84, 0, 0, 0, 3, 0x81, 0x01, 0x02],
            Some(Some(PolicyError::ChangeAfterReset)),
        ),
        (
            &[0x30, 0x84, 0, 0, 0, 6, 0x81, 0x84, 0, 0, 0, 0x01, 0x02],
            None,
        ),
        (&[0x30, 0x05, 0xa0, 0x03, 0x80, 0x01, 0x3c], Some(None)),
        (
            &[0x30, 0x08, 0xa0, 0x03, 0x80, 0x01, 0x3c, 0x81, 0x01, 0x02],
            Some(Some(PolicyError::ChangeAfterReset)),
        ),
        (
            &[0x30, 0x03, 0x81, 0x01, 0x08],
            Some(Some(PolicyError::Other)),
        ),
        (&[], None),
        (&[0x30], None),
        (&[0x30, 0x80, 0, 0], None),
        (&[0x30, 0x85, 0, 0, 0, 0, 0], Some(None)),
        (&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0], None),
        (&[0x30, 0x04, 0x81, 0x01, 0x00], None),
        (&[0x30, 0x02, 0x81, 0x00], None),
        (&[0x30, 0x00, 0x00], None),
        (&[0x31, 0x00], None),
    ] {
        assert_eq!(error_in(value), expected, "{value:02x?}");
    }
}

#[test]
fn each_response_to_a_bind_has_its_meaning() {
    use Flavour::{ActiveDirectory, OpenLdap};
    const NONE: &[(&str, &[u8])] = &[];
    const RESET: &[(&str, &[u8])] = &[(PASSWORD_POLICY, &[0x30, 0x03, 0x81, 0x01, 0x02])];
    const LOCKED: &[(&str, &[u8])] = &[(PASSWORD_POLICY, &[0x30, 0x03, 0x81, 0x01, 0x01])];
    const EXPIRED: &[(&str, &[u8])] = &[(PASSWORD_EXPIRED, b"0")];
    const NO_ERROR: &[(&str, &[u8])] = &[(PASSWORD_POLICY, &[0x30, 0x00])];
    let refused = |refusal| Err(IamError::Refused(refusal));
    for (rc, controls, is_disabled, expected) in [
        (0, NONE, false, Ok(())),
        (0, NO_ERROR, false, Ok(())),
        (0, RESET, false, refused(Refusal::Incomplete)),
        (0, EXPIRED, false, refused(Refusal::Incomplete)),
        (49, NONE, false, refused(Refusal::InvalidCredentials)),
        (49, EXPIRED, false, refused(Refusal::Incomplete)),
        (49, LOCKED, false, refused(Refusal::Locked)),
        (49, LOCKED, true, refused(Refusal::Disabled)),
        (19, LOCKED, false, refused(Refusal::Locked)),
        (53, LOCKED, true, refused(Refusal::Disabled)),
        (48, NONE, false, refused(Refusal::InvalidCredentials)),
        (32, NONE, false, refused(Refusal::InvalidCredentials)),
    ] {
        let response = response(rc, "", controls);
        assert_eq!(
            check(&response, OpenLdap, is_disabled),
            expected,
            "{response:?}"
        );
    }
    for rc in [1, 2, 3, 8, 10, 13, 19, 50, 51, 52, 53, 80, 4711] {
        let fault = check(&response(rc, "Pa55 word", NONE), OpenLdap, true).expect_err("a fault");
        assert!(!matches!(fault, IamError::Refused(_)), "{rc}: {fault:?}");
        assert!(
            !format!("{fault:#}{fault:?}").contains("Pa55"),
            "{rc}: {fault}"
        );
    }
    let unreadable = response(0, "", &[(PASSWORD_POLICY, &[0x30, 0x09])]);
    assert_eq!(
        check(&unreadable, OpenLdap, false).map_err(|fault| fault.kind()),
        Err("unreadable")
    );
    for (code, refusal) in [
        ("52e", Refusal::InvalidCredentials),
        ("525", Refusal::InvalidCredentials),
        ("530", Refusal::Disabled),
        ("531", Refusal::Disabled),
        ("532", Refusal::Incomplete),
        ("533", Refusal::Disabled),
        ("701", Refusal::Disabled),
        ("773", Refusal::Incomplete),
        ("775", Refusal::Locked),
        ("", Refusal::InvalidCredentials),
    ] {
        let text = format!(
            "80090308: LdapErr: DSID-0C0903A9, comment: AcceptSecurityContext error, data {code}, v1db1"
        );
        assert_eq!(
            check(&response(49, &text, NONE), ActiveDirectory, false),
            refused(refusal)
        );
    }
}
