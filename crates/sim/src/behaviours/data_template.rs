//! Data that differ in their names only.

use namely_wire::tlv::{self, Writer, tlv_octets};
use namely_wire::types::{DATA, NAME};
use namely_wire::{DataBuilder, Name, NameRef, SignatureInfo};

/// Octets of an empty Name element.
const EMPTY_NAME_OCTETS: usize = 2;

/// Writes Data of one content under any name, with the null signature.
#[derive(Clone, Debug)]
pub(crate) struct DataTemplate {
    /// The fields after Name.
    tail: Vec<u8>,
}

impl DataTemplate {
    pub(crate) fn new(content: &[u8], freshness_ms: u64) -> Self {
        let name = Name::new();
        let builder = DataBuilder::new(name.as_name()).freshness_ms(freshness_ms);
        let mut tail = builder.build(content, &SignatureInfo::null()).finish(&[]);
        let header_octets = tlv::read_header(&tail).map_or(0, |(_, _, octets)| octets);
        tail.drain(..header_octets + EMPTY_NAME_OCTETS);
        DataTemplate { tail }
    }

    /// Appends the Data of `name`.
    pub(crate) fn write(&self, name: NameRef<'_>, out: &mut Vec<u8>) {
        let name = name.as_bytes();
        let mut w = Writer::from_vec(std::mem::take(out));
        w.header(DATA, tlv_octets(NAME, name.len()) + self.tail.len()).tlv(NAME, name).raw(&self.tail);
        *out = w.into_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_writes_the_builders_octets() {
        for octets in [0, 1, 200, 300, 8000] {
            let (content, mut out) = (vec![7; octets], Vec::new());
            for text in ["/a", "/a/longer/name/seg=70000"] {
                let name: Name = text.parse().unwrap();
                let builder = DataBuilder::new(name.as_name()).freshness_ms(10);
                let expected = builder.build(&content, &SignatureInfo::null()).finish(&[]);
                out.clear();
                DataTemplate::new(&content, 10).write(name.as_name(), &mut out);
                assert_eq!(out, expected);
            }
        }
    }
}
