use std::collections::BTreeMap;
use std::ffi::OsString;

use super::*;
use crate::cli::parse;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn parsed(arguments: &str, variable: Option<&str>) -> Result<Command, EarlyExit> {
    let line = format!("auth-gateway keys {arguments}");
    let variable = variable.map(|file| ("AUTH_GATEWAY_CONFIG".to_owned(), file.to_owned()));
    let environment: BTreeMap<_, _> = variable.into_iter().collect();
    parse(line.split_whitespace().map(OsString::from), &environment)
}

fn rotation(folder: KeyFolder) -> RotateKeys {
    RotateKeys {
        folder,
        algorithm: None,
        every: 30 * DAY,
    }
}

fn in_folder(directory: Option<&str>) -> KeyFolder {
    KeyFolder {
        directory: directory.map(PathBuf::from),
        purpose: None,
        times: KeyTimes::default(),
    }
}

#[test]
fn rotation_takes_its_times_from_the_configuration_or_from_arguments() {
    let times_of_arguments = KeyTimes {
        config: Some("c".into()),
        jwks_max_age: Some(Duration::from_secs(60)),
        token_lifetime: Some(Duration::from_secs(300)),
        session_max_lifetime: Some(8 * Duration::from_secs(3600)),
    };
    let folder = |directory, times| KeyFolder {
        times,
        ..in_folder(directory)
    };
    let config = |file: &str| KeyTimes {
        config: Some(file.into()),
        ..KeyTimes::default()
    };
    for (arguments, variable, expected) in [
        ("", None, rotation(in_folder(None))),
        ("--dir d", None, rotation(in_folder(Some("d")))),
        ("--config c", Some("v"), rotation(folder(None, config("c")))),
        ("", Some("v"), rotation(folder(None, config("v")))),
        (
            "--config c --jwks-max-age 1m --token-lifetime 5m --session-max-lifetime 8h",
            None,
            rotation(folder(None, times_of_arguments)),
        ),
        (
            "--dir d --every 7d --alg EdDSA",
            None,
            RotateKeys {
                algorithm: Some(SigningAlgorithm::EdDsa),
                every: 7 * DAY,
                ..rotation(in_folder(Some("d")))
            },
        ),
    ] {
        let command = parsed(&format!("rotate {arguments}"), variable);
        assert_eq!(command, Ok(Command::RotateKeys(expected)), "{arguments}");
    }
}

#[test]
fn algorithm_of_sealing_keys_cannot_be_selected() {
    for command in ["generate --dir d", "rotate --dir d", "rotate"] {
        let line = format!("{command} --use sealing --alg ES256");
        assert!(parsed(&line, None).is_err(), "{line}");
        assert!(parsed(&format!("{command} --use sealing"), None).is_ok());
    }
}

#[test]
fn invalid_arguments_of_key_commands_are_refused() {
    for arguments in [
        "rotate --every soon",
        "rotate --every -1d",
        "rotate --use both",
        "remove --dir d",
        "remove --kid k",
    ] {
        assert!(parsed(arguments, None).is_err(), "{arguments}");
    }
    for kid in ["k", "-0k", "--k"] {
        let removal = RemoveKey {
            directory: "d".into(),
            kid: kid.to_owned(),
        };
        let command = parsed(&format!("remove --dir d --kid {kid}"), None);
        assert_eq!(command, Ok(Command::RemoveKey(removal)));
    }
}
