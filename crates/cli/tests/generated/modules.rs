//! The table of modules in docs/management.md, from the declarations of commands and datasets.

use std::fmt::Write;

use namely_messages::{Command, Dataset, RequestOrigin};

use super::{compare, root};

const PAGE: &str = "docs/management.md";

/// The lines around the table.
const START: &str = "<!-- modules: written from crates/messages/src/request.rs -->\n";
const END: &str = "<!-- end of modules -->\n";

/// A request: module, verb and origin.
type Declared = (&'static str, &'static str, RequestOrigin);

/// The verbs of a module: NFD's, then namely's own.
fn verbs(of: &str, requests: &[Declared]) -> String {
    let verbs = |origin| {
        let own = requests.iter().filter(move |request| request.0 == of && request.2 == origin);
        own.map(|request| format!("`{}`", request.1)).collect::<Vec<_>>().join(" ")
    };
    match (verbs(RequestOrigin::Nfd), verbs(RequestOrigin::Namely)) {
        (nfd, own) if own.is_empty() => nfd,
        (nfd, own) if nfd.is_empty() => format!("own: {own}"),
        (nfd, own) => format!("{nfd}; own: {own}"),
    }
}

fn table() -> String {
    let declared = |(module, verb): (_, _), origin| (module, verb, origin);
    let commands: Vec<_> = Command::ALL.iter().map(|one| declared(one.words(), one.origin())).collect();
    let datasets: Vec<_> = Dataset::ALL.iter().map(|one| declared(one.words(), one.origin())).collect();
    let mut modules: Vec<&str> = Vec::new();
    for (module, ..) in commands.iter().chain(&datasets) {
        if !modules.contains(module) {
            modules.push(module);
        }
    }
    let mut table = String::from("| module | commands | datasets |\n| --- | --- | --- |\n");
    for module in modules {
        let cells = [&commands, &datasets].map(|requests| verbs(module, requests));
        writeln!(table, "| `{module}` | {} | {} |", cells[0], cells[1]).expect("a string can be written to");
    }
    table
}

#[test]
fn management_lists_declared_commands_and_datasets() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the page can be read");
    let (head, rest) = page.split_once(START).expect("the page has the start of the table");
    let (_, tail) = rest.split_once(END).expect("the page has the end of the table");
    compare(PAGE, &format!("{head}{START}{}{END}{tail}", table()));
}
