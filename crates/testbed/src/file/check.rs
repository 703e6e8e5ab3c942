//! Constraints on a file that its types do not express.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;

use super::{NETWORKS_MAX, NODES_MAX, Testbed};

/// Minimum and maximum MTU of the kernel's veth devices.
const MTU_OCTETS: Range<u32> = 68..65_536;

/// Longest name of a node, link or program: names are parts of paths.
const NAME_OCTETS_MAX: usize = 32;

/// Offset in the file, and the reason.
type FileFault = (Option<usize>, String);

fn wrong<T>(at: &Spanned<T>, reason: String) -> FileFault {
    (Some(at.span().start), reason)
}

impl Testbed {
    /// Checks that names are well formed and unique, and that each use refers to a known name.
    pub(super) fn check(&self) -> Result<(), FileFault> {
        if self.nodes.is_empty() {
            return Err((None, "no [[node]]; `namely testbed init` prints an example".to_owned()));
        }
        if self.nodes.len() > NODES_MAX {
            return Err((None, format!("{} nodes; {NODES_MAX} are the most", self.nodes.len())));
        }
        if self.links.len() + self.segments.len() > NETWORKS_MAX {
            return Err((None, format!("more than {NETWORKS_MAX} links and segments")));
        }
        let mut nodes = BTreeSet::new();
        for node in &self.nodes {
            named(&node.name)?;
            if !nodes.insert(node.name.get_ref().as_str()) {
                return Err(wrong(&node.name, format!("there are two nodes `{}`", node.name.get_ref())));
            }
        }
        self.check_networks(&nodes)?;
        for node in &self.nodes {
            let settings = self.settings(node);
            if let Some(file) = settings.files.keys().find(|file| !is_name(file)) {
                return Err(wrong(&node.name, format!("`{file}` is no name of a file in the node's folder")));
            }
            let texts = settings.arguments.into_iter().flatten().chain(settings.config);
            for text in texts {
                crate::text::fill(self, Path::new(""), node.name.get_ref(), &text)
                    .map_err(|reason| wrong(&node.name, reason))?;
            }
        }
        self.check_programs(&nodes)?;
        self.check_events(&nodes)
    }

    fn check_networks(&self, nodes: &BTreeSet<&str>) -> Result<(), FileFault> {
        for link in &self.links {
            link.between.iter().try_for_each(|end| known(end, nodes, "node"))?;
            link.name.as_ref().map_or(Ok(()), named)?;
            let [a, b] = &link.between;
            if a.get_ref() == b.get_ref() {
                return Err(wrong(b, format!("a link from `{}` to itself", b.get_ref())));
            }
            let ends: BTreeSet<&str> = link.between.iter().map(|end| end.get_ref().as_str()).collect();
            sized(link.mtus.iter().map(|(node, mtu)| (Some(node), *mtu)), &ends)?;
            sized(link.mtu.map(|mtu| (Some(a), mtu)).into_iter(), &ends)?;
        }
        for segment in &self.segments {
            named(&segment.name)?;
            let mut here = BTreeSet::new();
            for node in &segment.nodes {
                known(node, nodes, "node")?;
                if !here.insert(node.get_ref().as_str()) {
                    return Err(wrong(node, format!("`{}` is on it twice", node.get_ref())));
                }
            }
            sized(segment.mtus.iter().map(|(node, mtu)| (Some(node), *mtu)), &here)?;
            sized(segment.mtu.map(|mtu| (segment.nodes.first(), mtu)).into_iter(), &here)?;
        }
        let mut names = BTreeSet::new();
        for (n, network) in self.networks().into_iter().enumerate() {
            if !names.insert(network.name.clone()) {
                let at = match n.checked_sub(self.links.len()) {
                    Some(segment) => self.segments.get(segment).map(|s| s.name.span().start),
                    None => self.links.get(n).map(|link| link.between[0].span().start),
                };
                let what = format!("there are two links `{}`; give one a `name`", network.name);
                return Err((at, what));
            }
        }
        Ok(())
    }

    fn check_programs(&self, nodes: &BTreeSet<&str>) -> Result<(), FileFault> {
        let titles: BTreeSet<&str> = self.programs.iter().map(super::Program::title).collect();
        let mut taken = BTreeSet::new();
        for program in &self.programs {
            program.name.as_ref().map_or(Ok(()), named)?;
            if program.places().next().is_none() {
                return Err(wrong(&program.run, "a program needs a `node`, or `nodes`".to_owned()));
            }
            for place in program.places() {
                known(place, nodes, "node")?;
                crate::text::fill(self, Path::new(""), place.get_ref(), program.run.get_ref())
                    .map_err(|reason| wrong(&program.run, reason))?;
                if !taken.insert((program.title().to_owned(), place.get_ref().clone())) {
                    let what = format!(
                        "two programs `{}` on `{}`; give one a `name`",
                        program.title(),
                        place.get_ref()
                    );
                    return Err(wrong(place, what));
                }
            }
            for before in &program.after {
                known(before, &titles, "program")?;
                if before.get_ref() == program.title() {
                    return Err(wrong(before, "a program after itself never starts".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn check_events(&self, nodes: &BTreeSet<&str>) -> Result<(), FileFault> {
        let titles: BTreeSet<&str> = self.programs.iter().map(super::Program::title).collect();
        let names: Vec<String> = self.networks().into_iter().map(|network| network.name).collect();
        let networks: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        for event in &self.events {
            let deeds = [&event.down, &event.up, &event.kill, &event.start];
            let deeds: Vec<_> = deeds.into_iter().flatten().collect();
            if deeds.len() != 1 {
                let at = deeds.first().map(|deed| deed.span().start);
                return Err((at, "an event needs one of `down`, `up`, `kill` and `start`".to_owned()));
            }
            event.after.iter().try_for_each(|before| known(before, &titles, "program"))?;
            let links = event.down.iter().chain(&event.up);
            links.into_iter().try_for_each(|link| known(link, &networks, "link or segment"))?;
            let places = event.kill.iter().chain(&event.start);
            places.into_iter().try_for_each(|node| known(node, nodes, "node"))?;
        }
        Ok(())
    }
}

/// Checks that a name can be part of a path and of a command line.
fn named(name: &Spanned<String>) -> Result<(), FileFault> {
    let text = name.get_ref();
    if !is_name(text) {
        let rule = format!("at most {NAME_OCTETS_MAX} letters, digits, `-`, `_` and `.`");
        return Err(wrong(
            name,
            format!("`{text}` is no name; it has {rule}, and begins with no `-` or `.`"),
        ));
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    !text.is_empty() && text.len() <= NAME_OCTETS_MAX && is_plain && !text.starts_with(['-', '.'])
}

fn known(name: &Spanned<String>, all: &BTreeSet<&str>, what: &str) -> Result<(), FileFault> {
    if all.contains(name.get_ref().as_str()) {
        return Ok(());
    }
    let some: Vec<&str> = all.iter().copied().take(20).collect();
    let there =
        if some.is_empty() { "there is none".to_owned() } else { format!("there are {}", some.join(", ")) };
    Err(wrong(name, format!("no {what} is called `{}`; {there}", name.get_ref())))
}

fn sized<'a>(
    mut mtus: impl Iterator<Item = (Option<&'a Spanned<String>>, u32)>,
    here: &BTreeSet<&str>,
) -> Result<(), FileFault> {
    mtus.try_for_each(|(node, mtu)| {
        node.map_or(Ok(()), |node| known(node, here, "node of it"))?;
        if MTU_OCTETS.contains(&mtu) {
            return Ok(());
        }
        let at = node.map(|node| node.span().start);
        Err((at, format!("an MTU of {mtu}; the kernel takes {} to {}", MTU_OCTETS.start, MTU_OCTETS.end - 1)))
    })
}
