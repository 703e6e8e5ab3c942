//! Sizes of types and of parameter lists.

use syn::visit::{self, Visit};
use syn::{
    FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMacro, ItemMod, ItemStruct, Signature, TraitItemFn, Type,
};

use super::super::each_source;
use super::modules::is_test;

/// Fields that a struct may have before it counts as large.
const FIELDS_MAX: usize = 20;

/// Structs that may be large: tables of counters and of keys, and formats that others read.
const LARGE_STRUCTS_MAX: usize = 6;

/// Parameters that may be tuples.
const TUPLE_PARAMETERS_MAX: usize = 0;

/// Methods of `Forwarder`, with the functions that take `&Forwarder`.
const FORWARDER_METHODS_MAX: usize = 31;

/// Declarations of one source outside its tests.
#[derive(Debug, Default)]
struct Shapes {
    tuple_parameters: Vec<String>,
    large_structs: Vec<String>,
    forwarder_methods: Vec<String>,
    in_forwarder: bool,
}

impl Shapes {
    fn count_fields(&mut self, name: &str, fields: usize) {
        if fields > FIELDS_MAX {
            self.large_structs.push(format!("{name} ({fields})"));
        }
    }

    fn function(&mut self, signature: &Signature) {
        let types = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(&*typed.ty),
            FnArg::Receiver(_) => None,
        });
        let mut takes_forwarder = self.in_forwarder && signature.receiver().is_some();
        for of in types {
            let plain = without_reference(of);
            if matches!(plain, Type::Tuple(tuple) if !tuple.elems.is_empty()) {
                self.tuple_parameters.push(signature.ident.to_string());
            }
            takes_forwarder |= matches!(of, Type::Reference(_)) && names_forwarder(plain);
        }
        if takes_forwarder {
            self.forwarder_methods.push(signature.ident.to_string());
        }
    }
}

/// The struct that `block!` of the management messages makes, with the number of its fields.
fn struct_of_block(called: &syn::Macro) -> Option<(String, usize)> {
    called.path.is_ident("block").then_some(())?;
    let text = called.tokens.to_string();
    let (_, declared) = text.split_once("pub struct ")?;
    let name = declared.split(|c: char| !c.is_alphanumeric()).next()?;
    Some((name.to_owned(), declared.matches("pub ").count()))
}

fn without_reference(of: &Type) -> &Type {
    if let Type::Reference(reference) = of { &reference.elem } else { of }
}

fn names_forwarder(of: &Type) -> bool {
    let Type::Path(path) = of else { return false };
    path.path.segments.last().is_some_and(|segment| segment.ident == "Forwarder")
}

impl<'ast> Visit<'ast> for Shapes {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.function(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let before = self.in_forwarder;
        self.in_forwarder = names_forwarder(&item.self_ty);
        visit::visit_item_impl(self, item);
        self.in_forwarder = before;
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        if let Some((name, fields)) = struct_of_block(&item.mac) {
            self.count_fields(&name, fields);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        if !is_test(&item.attrs) {
            self.count_fields(&item.ident.to_string(), item.fields.len());
        }
    }
}

/// The shapes of all sources, each with its path.
fn all_shapes() -> Vec<(String, Shapes)> {
    let mut all = Vec::new();
    each_source(&mut |path, text| {
        let is_test = path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/examples/");
        if is_test || path.starts_with("fuzz/") {
            return;
        }
        let file = syn::parse_file(text).unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut shapes = Shapes::default();
        shapes.visit_file(&file);
        all.push((path.to_owned(), shapes));
    });
    all
}

fn listed(all: &[(String, Shapes)], part: impl Fn(&Shapes) -> &[String]) -> Vec<String> {
    all.iter()
        .flat_map(|(path, shapes)| part(shapes).iter().map(move |name| format!("{path}: {name}")))
        .collect()
}

fn at_most(max: usize, names: &[String], advice: &str) {
    assert!(names.len() <= max, "{} instead of {max}; {advice}:\n{}", names.len(), names.join("\n"));
}

#[test]
fn management_blocks_count_their_fields() {
    let file =
        syn::parse_file("block! { pub struct Ten: ENTRY { pub a: u64 = A; pub b: bool = B, number; } }");
    let Ok(syn::Item::Macro(item)) = file.map(|mut file| file.items.remove(0)) else { panic!("one macro") };
    assert_eq!(struct_of_block(&item.mac), Some(("Ten".to_owned(), 2)));
}

#[test]
fn parameters_are_not_hidden_in_tuples() {
    let tuples = listed(&all_shapes(), |shapes| &shapes.tuple_parameters);
    at_most(TUPLE_PARAMETERS_MAX, &tuples, "give each parameter a name, or give them a struct");
}

#[test]
fn few_structs_are_large() {
    let large = listed(&all_shapes(), |shapes| &shapes.large_structs);
    at_most(LARGE_STRUCTS_MAX, &large, "group the fields that change together");
}

#[test]
fn the_forwarder_delegates_to_its_tables() {
    let methods = listed(&all_shapes(), |shapes| &shapes.forwarder_methods);
    at_most(FORWARDER_METHODS_MAX, &methods, "give the method to the table that it works on");
}
