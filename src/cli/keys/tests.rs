use super::*;
use crate::cli::Command;
use crate::cli::tests::{Stop, parse_line};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn parsed(arguments: &str) -> Result<Command, Stop> {
    parse_line(&format!("auth-gateway keys {arguments}"))
}

fn rotation(directory: Option<&str>, times: KeyTimes) -> RotateKeys {
    RotateKeys {
        directory: directory.map(PathBuf::from),
        purpose: None,
        times,
        algorithm: None,
        every: 30 * DAY,
    }
}

fn config(file: &str) -> ConfigFile {
    let config = Some(file.into());
    ConfigFile { config }
}

#[test]
fn rotation_takes_its_times_from_the_configuration_or_from_arguments() {
    let times_of_arguments = KeyTimes {
        config: config("c"),
        jwks_max_age: Some(Duration::from_secs(60)),
        token_lifetime: Some(Duration::from_secs(300)),
        session_max_lifetime: Some(8 * Duration::from_secs(3600)),
    };
    let times_of_file = KeyTimes {
        config: config("c"),
        ..KeyTimes::default()
    };
    for (arguments, expected) in [
        ("", rotation(None, KeyTimes::default())),
        ("--dir d", rotation(Some("d"), KeyTimes::default())),
        ("--config c", rotation(None, times_of_file)),
        (
            "--config c --jwks-max-age 1m --token-lifetime 5m --session-max-lifetime 8h",
            rotation(None, times_of_arguments),
        ),
        (
            "--dir d --every 7d --alg EdDSA",
            RotateKeys {
                algorithm: Some(Algorithm::EdDsa),
                every: 7 * DAY,
                ..rotation(Some("d"), KeyTimes::default())
            },
        ),
    ] {
        let expected = Command::Keys(KeyCommand::Rotate(expected));
        let command = parsed(&format!("rotate {arguments}"));
        assert_eq!(command, Ok(expected), "{arguments}");
    }
}

#[test]
fn algorithm_of_sealing_keys_cannot_be_selected() {
    for command in ["generate --dir d", "rotate --dir d", "rotate"] {
        let line = format!("{command} --use sealing --alg ES256");
        assert!(parsed(&line).is_err(), "{line}");
        assert!(parsed(&format!("{command} --use sealing")).is_ok());
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
        assert!(parsed(arguments).is_err(), "{arguments}");
    }
    for kid in ["k", "-0k", "--k"] {
        let removal = RemoveKey {
            directory: "d".into(),
            kid: kid.to_owned(),
        };
        let command = parsed(&format!("remove --dir d --kid {kid}"));
        assert_eq!(command, Ok(Command::Keys(KeyCommand::Remove(removal))));
    }
}
