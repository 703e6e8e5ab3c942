//! `namely completions` and `namely man`: files made from the command tree.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::args::Cli;
use crate::context::Context;
use crate::failure::{Failure, io_failure};

/// The sample file, which explains every key of the configuration.
const SAMPLE: &str = include_str!("../../texts/namely.toml");

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
        // A closed pipe is no failure.
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

/// Write the man pages.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely man ~/.local/share/man")]
pub struct Man {
    /// The directory for man1/namely.1, man1/namely-get.1 and so on, man5/namely.toml.5 and
    /// man8/namelyd.8; created if it is missing.
    dir: PathBuf,
}

impl Man {
    /// Writes one page for each command, one for the router and one for its configuration.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let section = |number: &str| {
            let dir = self.dir.join(number);
            std::fs::create_dir_all(&dir).map_err(|e| io_failure("make", &dir, e)).map(|()| dir)
        };
        let (commands, formats, daemons) = (section("man1")?, section("man5")?, section("man8")?);
        clap_mangen::generate_to(Cli::command(), &commands)
            .map_err(|e| io_failure("write to", &commands, e))?;
        let mut page = Vec::new();
        let daemon = clap_mangen::Man::new(namely_daemon::command()).section("8");
        daemon.render(&mut page).map_err(|e| io_failure("write to", &daemons, e))?;
        write(&daemons.join("namelyd.8"), &page)?;
        write(&formats.join("namely.toml.5"), configuration_page().as_bytes())?;
        ctx.out.remark(format!("man pages written to {}", self.dir.display()));
        Ok(())
    }
}

fn write(path: &Path, page: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|e| io_failure("write", path, e))
}

/// Returns the page of the configuration file. It contains the sample file, and a test compares the
/// keys of the sample with those of the router.
fn configuration_page() -> String {
    let mut page = format!(
        ".TH namely.toml 5 \"\" \"namely {}\"\n.SH NAME\nnamely.toml \\- configuration of namelyd\n\
         .SH DESCRIPTION\nThe file that \\fBnamelyd\\fR(8) and \\fBnamely up\\fR read: ~/.config/namely/namely.toml, or\n\
         /etc/namely/namely.toml for root, or the file of \\fB\\-\\-config\\fR. It is TOML. Every key has a default, and no file is\n\
         needed. \\fBnamelyd \\-\\-check\\fR reports errors in a file; on SIGHUP a router reads it again.\n\
         .SH FILE\nEvery key, with its effect. Lines that begin with \"#= \" show defaults.\n.PP\n.nf\n",
        env!("CARGO_PKG_VERSION")
    );
    for line in SAMPLE.lines() {
        let text = line.replace('\\', "\\e").replace('-', "\\-");
        // A dot or a quote at the start of a line would be a request of roff.
        let guard = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
        let _ = writeln!(page, "{guard}{text}");
    }
    page + ".fi\n.SH SEE ALSO\n.BR namelyd (8),\n.BR namely (1)\n"
}
