//! The reference of the commands (docs/commands.md) and the manual pages (deploy/man) are those of the arguments. With the
//! variable `WRITE_REFERENCE`, this test writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::Command;

const HEADER: &str = "\
# Commands

<!-- Written by `WRITE_REFERENCE=1 cargo test --locked -p auth-gateway are_current`. -->

For operators. The options of each command, as `--help` prints them. `auth-gateway` without a command is `auth-gateway serve`.
";

/// The command with all commands in it, without `help`.
fn commands() -> Vec<Command> {
    fn add(command: &Command, commands: &mut Vec<Command>) {
        commands.push(command.clone());
        for inner in command.get_subcommands() {
            add(inner, commands);
        }
    }
    // The commit would make each page differ.
    let mut root = auth_gateway::cli::command()
        .bin_name("auth-gateway")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true);
    root.build();
    let mut commands = Vec::new();
    add(&root, &mut commands);
    commands
}

fn reference() -> String {
    let section = |mut command: Command| {
        let name = command.get_bin_name().expect("built").to_owned();
        let help = command.render_long_help().to_string();
        let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
        format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"))
    };
    let sections: String = commands().into_iter().map(section).collect();
    format!("{HEADER}{sections}")
}

fn manual_page(command: Command) -> (PathBuf, String) {
    let page = clap_mangen::Man::new(command).manual("auth-gateway");
    let mut text = Vec::new();
    page.render(&mut text).expect("rendered");
    let name = Path::new("deploy/man").join(page.get_filename());
    (name, String::from_utf8(text).expect("text"))
}

#[test]
fn reference_and_manual_pages_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("deploy/man");
    let mut files: BTreeMap<_, _> = commands().into_iter().map(manual_page).collect();
    files.insert("docs/commands.md".into(), reference());
    if env::var_os("WRITE_REFERENCE").is_some() {
        fs::remove_dir_all(&folder).expect("removed");
        fs::create_dir(&folder).expect("a folder");
        for (name, text) in &files {
            fs::write(root.join(name), text).expect("written");
        }
    }
    for file in fs::read_dir(&folder).expect("a folder") {
        let name = Path::new("deploy/man").join(file.expect("a file").file_name());
        assert!(
            files.contains_key(&name),
            "{}: no such command",
            name.display()
        );
    }
    for (name, text) in files {
        let written = fs::read_to_string(root.join(&name)).unwrap_or_default();
        assert_eq!(written, text, "{} is not current", name.display());
    }
}
