//! Packets as text, for people: every element with its name, its number and the meaning of its
//! VALUE.
//!
//! [`dissect`] takes any octets and never fails: unreadable octets are shown in their position. It
//! also shows packets that a view would refuse, with the reason of the refusal.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod schema;
mod summary;
mod value;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use namely_wire::DecodeError;
use namely_wire::tlv::{Reader, Tlv};
use schema::{Block, Value, field};

pub use summary::summary;

/// Levels of nested elements in a dissection.
///
/// # Limit
/// Elements at deeper levels appear as octets.
/// - Tests: `shown_nesting_is_limited`
pub const DEPTH_MAX: usize = 24;

/// Elements in a dissection.
///
/// # Limit
/// The dissection states only the number of octets of the rest.
/// - Tests: `shown_elements_and_octets_are_limited`
pub const NODES_MAX: usize = 20_000;

/// Octets of one VALUE in a dissection.
///
/// # Limit
/// The VALUE is cut and ends with `…`.
/// - Tests: `shown_elements_and_octets_are_limited`
pub const OCTETS_SHOWN_MAX: usize = 256;

/// One element, as text and as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// TYPE; 0 for octets that are no element.
    pub typ: u32,
    /// The specification's name of the element in its block; empty if there is none.
    pub name: &'static str,
    /// Offset of the element in the input. Elements inside a name component have one, too.
    pub offset: usize,
    /// LENGTH.
    pub length: usize,
    /// The meaning of the VALUE; empty if the children have it.
    pub text: String,
    /// The elements inside.
    pub children: Vec<Node>,
}

/// The elements of `octets`: one packet, or several behind each other.
pub fn dissect(octets: &[u8]) -> Vec<Node> {
    Dissector { input: octets, nodes_left: NODES_MAX }.elements(octets, Block::Packets, Value::Octets, 0)
}

/// The elements that [`dissect`] finds, as indented lines.
///
/// ```
/// let text = namely_dissect::to_text(&[5, 9, 7, 3, 8, 1, b'a', 18, 0, 33, 0]);
/// let why = "critical element of TYPE 33 is unknown or out of order";
/// assert_eq!(text.lines().next(), Some(&*format!("Interest (5), 9 octets: invalid: {why}")));
/// assert_eq!(text.lines().nth(1), Some("  Name (7), 3 octets: /a"));
/// ```
pub fn to_text(octets: &[u8]) -> String {
    use fmt::Write;
    let mut text = String::new();
    for node in dissect(octets) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{node}");
    }
    text
}

impl fmt::Display for Node {
    /// The element and everything inside it, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_indented(f, 0)
    }
}

impl Node {
    fn fmt_indented(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", 2 * depth)?;
        match (self.typ, self.name) {
            (0, name) => write!(f, "{name}")?,
            (typ, "") => write!(f, "TYPE {typ}")?,
            (typ, name) => write!(f, "{name} ({typ})")?,
        }
        write!(f, ", {} octet{}", self.length, if self.length == 1 { "" } else { "s" })?;
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        writeln!(f)?;
        self.children.iter().try_for_each(|child| child.fmt_indented(f, depth + 1))
    }
}

struct Dissector<'a> {
    input: &'a [u8],
    nodes_left: usize,
}

impl<'a> Dissector<'a> {
    /// The elements of `octets`, which are the VALUE of `block`. The form of some elements depends
    /// on their siblings; `depends` is that form in this block.
    fn elements(&mut self, octets: &'a [u8], block: Block, depends: Value, depth: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut reader = Reader::new(octets);
        loop {
            let rest = reader.rest();
            if rest.is_empty() {
                return nodes;
            }
            if self.nodes_left == 0 {
                nodes.push(self.leftover("more elements", rest, String::new()));
                return nodes;
            }
            self.nodes_left -= 1;
            match reader.next_tlv() {
                Ok(Some(tlv)) => nodes.push(self.element(tlv, block, depends, depth)),
                Ok(None) => return nodes,
                Err(error) => {
                    nodes.push(self.leftover("not an element", rest, reason(error, rest)));
                    return nodes;
                }
            }
        }
    }

    fn element(&mut self, tlv: Tlv<'a>, block: Block, depends: Value, depth: usize) -> Node {
        let known = field(block, tlv.typ);
        let value = match known.map(|f| f.value) {
            Some(Value::Depends) => depends,
            Some(value) => value,
            None => Value::Octets,
        };
        let mut text = value::text(value, &tlv);
        let mut children = Vec::new();
        if let Some((octets, inner)) = value::inside(value, &tlv) {
            if depth + 1 < DEPTH_MAX {
                let depends = value::depends(inner, octets);
                children = self.elements(octets, inner, depends, depth + 1);
            } else {
                text = value::text(Value::Octets, &tlv);
            }
        }
        Node {
            typ: tlv.typ,
            name: known.map_or("", |f| f.name),
            offset: self.offset(tlv.raw),
            length: tlv.value.len(),
            text,
            children,
        }
    }

    fn leftover(&self, name: &'static str, octets: &[u8], text: String) -> Node {
        Node { typ: 0, name, offset: self.offset(octets), length: octets.len(), text, children: Vec::new() }
    }

    /// Returns the offset in the input at which its slice `part` starts.
    fn offset(&self, part: &[u8]) -> usize {
        part.as_ptr() as usize - self.input.as_ptr() as usize
    }
}

fn reason(error: DecodeError, octets: &[u8]) -> String {
    alloc::format!("{error}: {}", value::octets(octets))
}
