//! `jeton completions`: shell completions.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::output;

/// Print the completion script of a shell
#[derive(Args)]
#[command(after_help = "bash: source <(jeton completions bash)\n\
                        zsh:  jeton completions zsh > \"${fpath[1]}/_jeton\"\n\
                        fish: jeton completions fish > ~/.config/fish/completions/jeton.fish")]
pub struct Completions {
    /// Name of the shell
    shell: Shell,
}

impl Completions {
    pub fn run(&self, mut command: clap::Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "jeton", &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end())
    }
}
