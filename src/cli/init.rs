//! `init`: writes settings to start from, and the key of identifiers.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{self, Path, PathBuf};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use iam_adapters::files;
use zeroize::Zeroizing;

use super::{Exit, UserError};
use crate::config::Registry;

/// The settings that do not depend on the IAM.
const SETTINGS: &str = include_str!("init/settings.toml");

/// Sections that are left out if the example of the IAM has its own.
const SECTIONS: [(&str, &str); 2] = [
    ("\n[permissions]\n", include_str!("init/permissions.toml")),
    ("\n[redis]\n", include_str!("init/redis.toml")),
];

/// The line of the settings that names the key of identifiers.
const KEY_SETTING: &str = "identifier_key_file = \"/etc/auth-gateway/secrets/identifier-key\"";

#[derive(Debug, PartialEq, Eq, Args)]
pub struct Init {
    /// The kind of IAM
    #[arg(long, value_name = "KIND")]
    pub iam: String,
    /// The file to write, which must not exist, beside the folder `secrets` with the key of identifiers; default:
    /// standard output, without a key
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Writes the settings and, with a file, the key of identifiers.
pub(super) fn init(
    Init { iam, output }: &Init,
    registry: &Registry,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let Some(example) = registry.kind(iam).and_then(|kind| kind.example) else {
        let kinds = registry.kinds.iter();
        let kinds = kinds.filter_map(|kind| kind.example.and(Some(kind.name)));
        let kinds: Vec<_> = kinds.collect();
        let problem = format!(
            "--iam {iam}: there is no such kind; there are: {}",
            kinds.join(", ")
        );
        return Err(UserError::Request(problem).into());
    };
    let sections = SECTIONS.iter();
    let sections = sections.filter(|(header, _)| !example.contains(header));
    let sections: String = sections.map(|(_, section)| *section).collect();
    let text = format!("{SETTINGS}{sections}{example}");
    let Some(path) = output else {
        out.write_all(text.as_bytes())?;
        return Ok(Exit::Ok);
    };
    let shown = path.display();
    let cannot_write = |error| UserError::File(path.clone(), error);
    let absolute = path::absolute(path).map_err(cannot_write)?;
    let key = absolute.with_file_name("secrets/identifier-key");
    let setting = toml::Value::from(key.display().to_string());
    let text = text.replace(KEY_SETTING, &format!("identifier_key_file = {setting}"));
    if path.symlink_metadata().is_ok() {
        let problem = format!("--output {shown}: the file exists, and is not replaced");
        return Err(UserError::Request(problem).into());
    }
    // The settings last: once they exist, no further run makes what is missing.
    let has_key = key.exists();
    if !has_key {
        make_key(&key)?;
    }
    write_new(path, 0o666, None, &text).map_err(cannot_write)?;
    let key = key.display();
    let written = if has_key {
        format!("{shown} written; {key} exists and was kept")
    } else {
        format!("{shown} and {key} written")
    };
    writeln!(
        out,
        "{written}; all replicas share the key; \
         test the settings with `auth-gateway check --config {shown}`"
    )?;
    Ok(Exit::Ok)
}

/// Makes the key of identifiers. It belongs to the owner of its folder: root makes it for the user of the gateway.
fn make_key(path: &Path) -> anyhow::Result<()> {
    let cannot_write = |error| UserError::File(path.to_owned(), error);
    let folder = path.parent().unwrap_or(path);
    if !folder.exists() {
        let made = fs::DirBuilder::new().mode(0o700).create(folder);
        made.map_err(cannot_write)?;
    }
    let mut bytes = Zeroizing::new([0; 32]);
    rand::fill(&mut *bytes).map_err(|_| anyhow::anyhow!("no random numbers"))?;
    let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(*bytes) + "\n");
    Ok(write_new(path, 0o600, Some(folder), &text).map_err(cannot_write)?)
}

/// Writes a file that does not exist, for the owner of this folder if one is given. An error leaves no file, because
/// the next run would not replace it.
fn write_new(path: &Path, mode: u32, folder: Option<&Path>, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    let given = folder.map_or(Ok(()), |folder| {
        files::give_to_owner_of_folder(&file, folder)
    });
    let written = given.and_then(|()| file.write_all(text.as_bytes()));
    let written = written.and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(path)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::config;

    /// The problems of these settings.
    fn problems(text: &str) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        let loaded = config::load(Some(file.path()), &BTreeMap::new(), &Registry::default());
        loaded.unwrap_err().problems
    }

    fn run(iam: &str, output: Option<PathBuf>) -> (anyhow::Result<Exit>, String) {
        let mut out = Vec::new();
        let arguments = Init {
            iam: iam.to_owned(),
            output,
        };
        let result = init(&arguments, &Registry::default(), &mut out);
        (result, String::from_utf8(out).unwrap())
    }

    #[test]
    fn settings_of_every_kind_lack_only_the_files_that_they_name() {
        for kind in Registry::default().kinds {
            let (result, text) = run(kind.name, None);
            assert_eq!(result.unwrap(), Exit::Ok);
            for problem in problems(&text) {
                assert!(problem.contains("no such file"), "{}: {problem}", kind.name);
            }
            // With every line that is commented out as well.
            let all = text.lines().map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
                _ => line,
            });
            let all = all.collect::<Vec<_>>().join("\n");
            for problem in problems(&all) {
                assert!(problem.contains("no such file"), "{}: {problem}", kind.name);
            }
        }
    }

    #[test]
    fn lifetime_of_tokens_is_the_default_because_there_is_one_recommendation() {
        let (_, text) = run("keycloak", None);
        let settings: toml::Table = text.parse().unwrap();
        let default = config::Settings::default().token.lifetime;
        let default = humantime_serde::re::humantime::format_duration(default).to_string();
        assert_eq!(settings["token"]["lifetime"].as_str(), Some(&*default));
    }

    #[test]
    fn key_of_identifiers_is_made_beside_the_settings_and_no_existing_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth-gateway.toml");
        let (result, out) = run("keycloak", Some(path.clone()));
        assert_eq!(result.unwrap(), Exit::Ok);
        assert!(out.contains("check --config"), "{out}");
        assert!(out.contains("secrets/identifier-key written;"), "{out}");
        let written = std::fs::read_to_string(&path).unwrap();
        let key_file = folder.path().join("secrets/identifier-key");
        let named = format!("identifier_key_file = \"{}\"", key_file.display());
        let expected = run("keycloak", None).1.replace(KEY_SETTING, &named);
        assert_eq!(written, expected);
        assert!(
            problems(&written)
                .iter()
                .all(|one| !one.contains("identifier"))
        );
        let key = std::fs::read_to_string(&key_file).unwrap();
        assert_eq!(key.trim().len(), 43);
        let mode = std::fs::metadata(&key_file).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "mine").unwrap();
        let (result, _) = run("keycloak", Some(path.clone()));
        let error = result.unwrap_err().downcast::<UserError>().unwrap();
        assert!(error.to_string().contains("exists"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        // The key of the replicas that there are.
        std::fs::remove_file(&path).unwrap();
        let (result, out) = run("keycloak", Some(path));
        assert_eq!(result.unwrap(), Exit::Ok);
        assert!(out.contains("auth-gateway.toml written;"), "{out}");
        let kept = "secrets/identifier-key exists and was kept;";
        assert!(out.contains(kept), "{out}");
        assert_eq!(std::fs::read_to_string(&key_file).unwrap(), key);
    }

    #[test]
    fn run_after_one_whose_key_could_not_be_written_makes_the_key_and_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth-gateway.toml");
        let secrets = folder.path().join("secrets");
        std::fs::write(&secrets, "no folder").unwrap();
        let error = run("keycloak", Some(path.clone())).0.unwrap_err();
        let error = error.downcast::<UserError>().unwrap().to_string();
        let key = secrets.join("identifier-key");
        let expected = format!("cannot write {}: not a directory", key.display());
        assert_eq!(error, expected);
        std::fs::remove_file(&secrets).unwrap();
        assert_eq!(run("keycloak", Some(path.clone())).0.unwrap(), Exit::Ok);
        assert!(path.exists() && secrets.join("identifier-key").exists());
    }

    #[test]
    fn file_that_cannot_be_written_is_an_error_of_the_user_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = run("keycloak", Some(missing.join("a.toml"))).0.unwrap_err();
        let error = error.downcast::<UserError>().unwrap().to_string();
        let key = missing.join("secrets/identifier-key");
        let expected = format!("cannot write {}: no such file or directory", key.display());
        assert_eq!(error, expected);
        // A folder, by the slash at the end.
        let path = folder.path().join("settings/");
        let error = run("keycloak", Some(path.clone())).0.unwrap_err();
        let error = error.downcast::<UserError>().unwrap().to_string();
        let begin = format!("cannot write {}: ", path.display());
        assert!(error.starts_with(&begin), "{error}");
    }

    #[test]
    fn existing_settings_get_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth-gateway.toml");
        std::fs::write(&path, "mine").unwrap();
        let error = run("keycloak", Some(path)).0.unwrap_err();
        assert!(error.is::<UserError>(), "{error}");
        assert!(!folder.path().join("secrets").exists());
    }

    #[test]
    fn unknown_kind_is_refused_with_the_kinds_that_exist() {
        let error = run("keycloack", None)
            .0
            .unwrap_err()
            .downcast::<UserError>();
        let error = error.unwrap().to_string();
        assert!(
            error.contains("keycloack") && error.contains("there are: keycloak"),
            "{error}"
        );
    }
}
