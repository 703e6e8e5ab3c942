//! `namely completions`: scripts for shells, made from the command tree.

use std::io::Write as _;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::args::Cli;
use crate::context::Context;
use crate::failure::Failure;

/// Print shell completions.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely completions bash > ~/.local/share/bash-completion/completions/namely\n  namely completions bash --program namelyd > ~/.local/share/bash-completion/completions/namelyd"
)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
    /// The program that the completions are for.
    #[arg(long, value_enum, default_value = "namely")]
    program: Program,
}

/// A program of this project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// This one.
    Namely,
    /// The router.
    Namelyd,
}

impl Completions {
    /// Prints the script.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        // The generators panic on a closed pipe, so they write to memory.
        let mut out: Vec<u8> = Vec::new();
        match self.program {
            Program::Namelyd => {
                clap_complete::generate(self.shell, &mut namely_daemon::command(), "namelyd", &mut out);
            }
            Program::Namely => {
                clap_complete::generate(self.shell, &mut Cli::command(), "namely", &mut out);
                out.extend_from_slice(values_of(self.shell).as_bytes());
                out.push(b'\n');
            }
        }
        // The output reports a failure at the end of the command.
        let _ = ctx.out.content().write_all(&out);
        Ok(())
    }
}

/// Returns the part of a script in which a shell calls `namely complete` for values.
fn values_of(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => {
            r#"
_namely_with_values() {
    local value cur="${COMP_WORDS[COMP_CWORD]}" values=()
    while IFS= read -r value; do
        values+=("$value")
    done < <(namely complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#values[@]} -gt 0 && $cur != -* ]]; then
        COMPREPLY=("${values[@]}")
    else
        _namely "$@"
    fi
}
complete -F _namely_with_values -o nosort -o bashdefault -o default namely"#
        }
        Shell::Zsh => {
            r#"
_namely_with_values() {
    local -a values
    values=(${(f)"$(namely complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    (( $#values )) && compadd -a values
    [[ $#values -gt 0 && $words[CURRENT] != -* ]] || _namely "$@"
}
compdef _namely_with_values namely"#
        }
        Shell::Fish => {
            r#"
complete -c namely -k -a '(namely complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'"#
        }
        _ => "",
    }
}
