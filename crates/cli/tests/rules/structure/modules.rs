//! The modules of a crate, as its sources declare them: the definitions, imports and re-exports of
//! each. They lead from a path to the file that defines its last segment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree};

/// Segments of a module's path below the crate's root.
pub(super) type ModulePath = Vec<String>;

/// Maximum number of re-exports that the search for a path follows.
const REEXPORTS_MAX: usize = 16;

/// A module and the file that holds it.
#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    /// Names that a `use` brings into the module, with the segments that they stand for.
    imported: BTreeMap<String, Vec<String>>,
    /// Modules of which all names are imported.
    globs: Vec<Vec<String>>,
    defined: BTreeSet<String>,
    /// Each path that the module's code mentions.
    mentioned: BTreeSet<Vec<String>>,
}

/// The modules of one crate.
#[derive(Debug, Default)]
pub(super) struct Modules {
    modules: BTreeMap<ModulePath, Module>,
}

impl Modules {
    /// Reads a crate from its root file, `src/lib.rs` or `src/main.rs`, without its tests.
    pub(super) fn read(file: &Path) -> Self {
        let mut modules = Modules::default();
        modules.add_file(file, Vec::new());
        modules
    }

    /// The files that each file imports from.
    pub(super) fn imports(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut imports: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for (path, module) in &self.modules {
            let imported = imports.entry(&module.file).or_default();
            let mentioned = module.mentioned.iter().chain(module.imported.values()).chain(&module.globs);
            imported.extend(mentioned.filter_map(|segments| self.file_of(path, segments, REEXPORTS_MAX)));
            imported.remove(&*module.file);
        }
        imports
    }

    fn add_file(&mut self, file: &Path, path: ModulePath) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.add(file, path, parsed.items);
    }

    fn add(&mut self, file: &Path, path: ModulePath, items: Vec<Item>) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items.into_iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(inner) => {
                    let below: ModulePath = path.iter().cloned().chain([inner.ident.to_string()]).collect();
                    module.children.insert(inner.ident.to_string());
                    match inner.content {
                        Some((_, items)) => self.add(file, below, items),
                        None => self.add_file(&file_of_child(file, &path, &inner.attrs, &below), below),
                    }
                }
                Item::Use(item) => module.import(&item),
                item => {
                    module.defined.extend(name(&item));
                    Mentions(&mut module.mentioned).visit_item(&item);
                }
            }
        }
        self.modules.insert(path, module);
    }

    /// The file that defines the last segment of a path that the module at `from` mentions; `None`
    /// for other crates' names.
    fn file_of(&self, from: &[String], segments: &[String], passes_left: usize) -> Option<&Path> {
        let passes_left = passes_left.checked_sub(1)?;
        let (first, rest) = segments.split_first()?;
        match &**first {
            "crate" => self.below(&[], rest, passes_left),
            "self" => self.below(from, rest, passes_left),
            "super" => self.below(&from[..from.len().checked_sub(1)?], rest, passes_left),
            _ => self.below(from, segments, passes_left),
        }
    }

    fn below(&self, module: &[String], segments: &[String], passes_left: usize) -> Option<&Path> {
        let here = self.modules.get(module)?;
        let Some((first, rest)) = segments.split_first() else { return Some(&here.file) };
        if first == "super" {
            return self.below(&module[..module.len().checked_sub(1)?], rest, passes_left);
        }
        if here.children.contains(first) {
            let child: ModulePath = module.iter().chain([first]).cloned().collect();
            return self.below(&child, rest, passes_left);
        }
        if here.defined.contains(first) {
            return Some(&here.file);
        }
        if let Some(stands_for) = here.imported.get(first) {
            let longer: Vec<String> = stands_for.iter().chain(rest).cloned().collect();
            return self.file_of(module, &longer, passes_left);
        }
        here.globs.iter().find_map(|glob| {
            let longer: Vec<String> = glob.iter().chain(segments).cloned().collect();
            self.file_of(module, &longer, passes_left)
        })
    }
}

impl Module {
    fn import(&mut self, item: &ItemUse) {
        self.import_tree(&mut Vec::new(), &item.tree);
    }

    fn import_tree(&mut self, before: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import_tree(before, &path.tree);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import_tree(before, tree)),
            UseTree::Glob(_) => self.globs.push(before.clone()),
            UseTree::Name(name) => self.import_name(before, &name.ident, &name.ident),
            UseTree::Rename(rename) => self.import_name(before, &rename.ident, &rename.rename),
        }
    }

    fn import_name(&mut self, before: &[String], name: &syn::Ident, alias: &syn::Ident) {
        let (name, alias) = (name.to_string(), alias.to_string());
        let own = if name == "self" { None } else { Some(name) };
        let alias = if alias == "self" { before.last().cloned().unwrap_or(alias) } else { alias };
        let segments: Vec<String> = before.iter().cloned().chain(own).collect();
        // `use anyhow;` and `pub use item;` would lead back to themselves.
        if segments.len() > 1 {
            self.imported.insert(alias, segments);
        }
    }
}

/// Collects paths of more than one segment; a single one is an import or a name of the module.
struct Mentions<'a>(&'a mut BTreeSet<Vec<String>>);

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.0.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

fn file_of_child(file: &Path, path: &[String], attributes: &[Attribute], child: &[String]) -> PathBuf {
    let folder = file.parent().expect("a source is in a folder");
    if let Some(named) = attributes.iter().find_map(path_attribute) {
        return folder.join(named);
    }
    let name = child.last().expect("a child has a name");
    let stem = file.file_stem().unwrap_or_default();
    let holds_children = path.is_empty() || stem == "mod";
    let folder = if holds_children { folder.to_owned() } else { folder.join(stem) };
    let flat = folder.join(format!("{name}.rs"));
    if flat.is_file() { flat } else { folder.join(name).join("mod.rs") }
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("path").then(|| text.value())
}

/// Returns true if the item is for tests only.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list().ok().filter(|list| list.path.is_ident("cfg"));
        list.is_some_and(|list| {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test") || condition.starts_with("all(test")
        })
    })
}

/// The attributes of an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => return item.ident.as_ref().map(ToString::to_string),
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::rings::rings;
    use super::*;

    /// The files of the only ring of a crate with these sources.
    fn ring(sources: &[(&str, &str)]) -> Option<Vec<String>> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in sources {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a source");
        }
        let modules = Modules::read(&folder.path().join("lib.rs"));
        let rings = rings(&modules.imports());
        assert!(rings.len() < 2, "{rings:?}");
        let name = |file: &&Path| file.strip_prefix(folder.path()).expect("below").display().to_string();
        rings.first().map(|files| files.iter().map(name).collect())
    }

    const LIB: (&str, &str) = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::g;");
    const A: (&str, &str) = ("a.rs", "use std::fmt;\nuse crate::{b::B, c};\npub fn g(_: B) {}");
    const B: (&str, &str) = ("b/mod.rs", "mod inner;\npub use inner::B;");
    const INNER: (&str, &str) = ("b/inner.rs", "use super::super::c::C as Other;\npub struct B(Other);");

    #[test]
    fn a_reexport_resolves_to_its_definition() {
        // `c` names `g` by the root, which exports it from `a`; `b/mod.rs` is passed through.
        let c = ("c.rs", "pub struct C;\nfn f() { crate::g() }");
        let expected = ["a.rs", "b/inner.rs", "c.rs"].map(str::to_owned);
        assert_eq!(ring(&[LIB, A, B, INNER, c]), Some(expected.to_vec()));
    }

    #[test]
    fn test_and_comment_imports_are_ignored() {
        let c = ("c.rs", "pub struct C;\n// use crate::g;\n#[cfg(test)]\nmod tests { use crate::g; }");
        assert_eq!(ring(&[LIB, A, B, INNER, c]), None);
    }
}
