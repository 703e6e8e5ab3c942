//! Reads the counters that an item of a source declares.

use std::collections::BTreeMap;

use syn::parse::ParseStream;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Ident, Item, Lit, LitStr, Member, Pat, Token};

use super::super::limits::{documentation, joined};
use super::Counter;
use super::sections::Part;

/// A variant, field, row or constant that may be a counter.
struct Row {
    ident: String,
    meaning: String,
    /// The label that the declaration itself has.
    label: Option<String>,
}

impl Row {
    fn new(ident: &Ident, attributes: &[Attribute]) -> Self {
        Row { ident: ident.to_string(), meaning: meaning(&documentation(attributes)), label: None }
    }

    /// A constant whose value is the label.
    fn of_const(item: &syn::ItemConst) -> Self {
        Row { label: string(&item.expr), ..Row::new(&item.ident, &item.attrs) }
    }
}

/// The labels that the functions of an item give to its variants or fields.
#[derive(Default)]
struct Labels {
    labels: BTreeMap<String, String>,
    /// Indices into an array of labels.
    numbers: BTreeMap<String, usize>,
}

impl<'a> Visit<'a> for Labels {
    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let (Some(variant), Expr::Lit(body)) = (variant(&arm.pat), &*arm.body) {
            if let Lit::Str(label) = &body.lit {
                self.labels.insert(variant, label.value());
            } else if let Lit::Int(number) = &body.lit
                && let Ok(number) = number.base10_parse()
            {
                self.numbers.insert(variant, number);
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_tuple(&mut self, tuple: &'a syn::ExprTuple) {
        let mut parts = tuple.elems.iter();
        if let (Some(label), Some(value), None) = (parts.next(), parts.next(), parts.next())
            && let (Some(label), Some(field)) = (string(label), field(value))
        {
            self.labels.insert(field, label);
        }
        visit::visit_expr_tuple(self, tuple);
    }
}

/// The first array of strings in a source.
#[derive(Default)]
struct Strings(Vec<String>);

impl<'a> Visit<'a> for Strings {
    fn visit_expr_array(&mut self, array: &'a syn::ExprArray) {
        let strings: Option<Vec<_>> = array.elems.iter().map(string).collect();
        if let Some(strings) = strings.filter(|_| self.0.is_empty()) {
            self.0 = strings;
        }
    }
}

fn string(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The name of the variant that a pattern matches.
fn variant(pattern: &Pat) -> Option<String> {
    let path = match pattern {
        Pat::Path(of) => &of.path,
        Pat::TupleStruct(of) => &of.path,
        Pat::Struct(of) => &of.path,
        _ => return None,
    };
    Some(path.segments.last()?.ident.to_string())
}

/// The name of the field that an expression reads.
fn field(value: &Expr) -> Option<String> {
    match value {
        Expr::Field(of) => match &of.member {
            Member::Named(name) => Some(name.to_string()),
            Member::Unnamed(_) => None,
        },
        Expr::Call(call) => field(call.args.last()?),
        Expr::Reference(of) => field(&of.expr),
        _ => None,
    }
}

/// The rows of `counters!` and of `counts!`: a documented name, with its label or without.
fn rows_of_macro(input: ParseStream<'_>) -> syn::Result<Vec<Row>> {
    let mut rows = Vec::new();
    while !input.is_empty() {
        let attributes = input.call(Attribute::parse_outer)?;
        let mut row = Row::new(&input.parse()?, &attributes);
        if input.peek(Token![in]) {
            // The names of the types.
            input.parse::<Token![in]>()?;
            input.parse::<Ident>()?;
            input.parse::<Token![;]>()?;
            continue;
        }
        if input.peek(Token![=>]) {
            input.parse::<Token![=>]>()?;
            row.label = Some(input.parse::<LitStr>()?.value());
        }
        rows.push(row);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(rows)
}

/// The rows of the item `name`; `None` if the source has no such item.
fn rows(items: &[Item], name: &str) -> Option<Vec<Row>> {
    items.iter().find_map(|item| match item {
        Item::Enum(of) if of.ident == name => {
            Some(of.variants.iter().map(|variant| Row::new(&variant.ident, &variant.attrs)).collect())
        }
        Item::Struct(of) if of.ident == name => {
            let fields = of.fields.iter();
            Some(fields.filter_map(|field| Some(Row::new(field.ident.as_ref()?, &field.attrs))).collect())
        }
        Item::Macro(of) if of.mac.path.is_ident(name) => of.mac.parse_body_with(rows_of_macro).ok(),
        Item::Const(of) if of.ident == name => Some(vec![Row::of_const(of)]),
        Item::Mod(of) if of.ident == name => {
            let consts = of.content.iter().flat_map(|(_, items)| items);
            let row = |item: &Item| match item {
                Item::Const(of) => Some(Row::of_const(of)),
                _ => None,
            };
            Some(consts.filter_map(row).collect())
        }
        _ => None,
    })
}

/// The labels from the functions of the item `name`; empty if it has none with labels.
fn labels(file: &syn::File, name: &str) -> BTreeMap<String, String> {
    let mut found = Labels::default();
    for item in &file.items {
        if let Item::Impl(of) = item
            && of.trait_.is_none()
            && let syn::Type::Path(path) = &*of.self_ty
            && path.path.segments.last().is_some_and(|segment| segment.ident == name)
        {
            found.visit_item_impl(of);
        }
    }
    if found.labels.is_empty() && !found.numbers.is_empty() {
        let mut strings = Strings::default();
        strings.visit_file(file);
        let named =
            found.numbers.iter().filter_map(|(name, n)| Some((name.clone(), strings.0.get(*n)?.clone())));
        found.labels.extend(named);
    }
    found.labels
}

/// `TooLarge` as `too_large`.
fn snake_case(ident: &str) -> String {
    let mut name = String::new();
    for letter in ident.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The first paragraph of a documentation on one line, without the links of rustdoc.
fn meaning(docs: &str) -> String {
    let paragraph = joined(docs.trim().split("\n\n").next().unwrap_or_default());
    let (mut text, mut rest) = (String::new(), paragraph.as_str());
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        let name = name.rsplit("::").next().unwrap_or_default();
        text.push_str(&format!("{before}`{name}`"));
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(after, |(_, after)| after);
    }
    text.push_str(rest);
    text.trim_end_matches('.').to_owned()
}

/// The rows from the first to the last that the part names.
fn in_range(part: &Part, rows: Vec<Row>, faults: &mut Vec<String>) -> Vec<Row> {
    let mut at = |ident: &str, otherwise: usize| {
        let found = rows.iter().position(|row| row.ident == ident);
        if found.is_none() && !ident.is_empty() {
            faults.push(format!("{}: {} has no {ident}", part.source, part.item));
        }
        found.unwrap_or(otherwise)
    };
    let (first, last) = (at(part.first, 0), at(part.last, usize::MAX));
    let rows = rows.into_iter().enumerate().filter(|(n, _)| (first..=last).contains(n));
    rows.map(|(_, row)| row).collect()
}

/// The counters of a part, and what is wrong with their declarations.
pub(super) fn read(part: &Part, source: &str) -> (Vec<Counter>, Vec<String>) {
    let (mut counters, mut faults) = (Vec::new(), Vec::new());
    let file = syn::parse_file(source).expect("a source of items");
    let Some(rows) = rows(&file.items, part.item) else {
        return (counters, vec![format!("{}: there is no {}", part.source, part.item)]);
    };
    let labels = labels(&file, part.item);
    for row in in_range(part, rows, &mut faults) {
        // If functions give the labels, an item without a label is no counter.
        let label = match row.label.or_else(|| labels.get(&row.ident).cloned()) {
            Some(label) => label,
            None if labels.is_empty() => snake_case(&row.ident),
            None => continue,
        };
        let meaning = row.meaning;
        if meaning.is_empty() || meaning.contains('|') || meaning.contains("](") {
            faults.push(format!("{}: {label} has no documentation for a table", part.source));
        }
        counters.push(Counter { section: String::new(), name: format!("{}{label}", part.scope), meaning });
    }
    (counters, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(part: &Part, source: &str) -> String {
        let (counters, faults) = read(part, source);
        assert_eq!(faults, Vec::<String>::new());
        counters.iter().map(Counter::line).collect()
    }

    #[test]
    fn each_kind_of_declaration_is_read() {
        let source = "/// A.\n///\n/// B.\nconst X: &str = \"x\";\nmod m { /// C\nconst Y: &str = \"y\"; }
            counters! { /// Of.\nName in Names; /// D [`E`](f), [`g::H`].\nTwoWords => \"two\", }
            counts! { /// I.\nj, /// K.\nl }
            struct S { /// M.\nn_o: u64, p: u64 } impl S { fn all(&self) { [(\"n\", of(&self.n_o))]; } }
            struct T { /// Q.\nr: u64 }
            enum U { /// V.\nWx(u8), Y } impl U { fn label(&self) { match self { U::Wx(_) => \"w\", _ => \"\" } } }
            enum N { /// Z.\nAb } impl N { fn number(&self) { match self { N::Ab => 1 } } }
            const LABELS: [&str; 2] = [\"0\", \"ab\"];";
        for (item, wanted) in [
            ("X", "- `s.x`: A\n"),
            ("m", "- `s.y`: C\n"),
            ("counters", "- `s.two`: D `E`, `H`\n"),
            ("counts", "- `s.j`: I\n- `s.l`: K\n"),
            ("S", "- `s.n`: M\n"),
            ("T", "- `s.r`: Q\n"),
            ("U", "- `s.w`: V\n"),
            ("N", "- `s.ab`: Z\n"),
        ] {
            assert_eq!(lines(&Part::all("", item).scope("s."), source), wanted, "{item}");
        }
    }

    #[test]
    fn a_label_without_documentation_is_found() {
        let faults = |part: &Part| read(part, "counts! { a, /// B.\nb, /// C.\nc }").1;
        assert_eq!(faults(&Part::all("x.rs", "counts")), ["x.rs: a has no documentation for a table"]);
        assert_eq!(faults(&Part::all("x.rs", "counts").from("b").to("c")), Vec::<String>::new());
        assert_eq!(faults(&Part::all("x.rs", "counts").from("b").to("d")), ["x.rs: counts has no d"]);
        assert_eq!(faults(&Part::all("x.rs", "Gone")), ["x.rs: there is no Gone"]);
    }
}
