//! Byte ranges and catalogues, and the names in them.

use namely_catalogue::import::{Import, Source};
use namely_catalogue::{Limits, read};
use namely_wire::lfn::{Dataset, Lfn, parse_block};
use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{ByteRange, Component, Name, RANGE_COMPONENT};

use crate::group::Group;

/// The size of a file in eight octets, followed by the component of a byte range.
pub(crate) fn byte_range(octets: &[u8]) {
    let (file, text) =
        octets.split_first_chunk().map_or((1000, octets), |(size, text)| (u64::from_be_bytes(*size), text));
    let component = Component { typ: GENERIC_COMPONENT, value: text };
    let Ok(range) = ByteRange::from_component(component) else { return };
    assert_eq!(range.to_string().as_bytes(), text, "one spelling");
    let name = range.name_of(Name::new().as_name());
    let parts: Vec<_> = name.components().collect();
    assert_eq!(parts, [RANGE_COMPONENT, component]);
    match range.within(file) {
        Some((first, octets)) => {
            assert!(first == range.first() && octets > 0 && octets <= file - first);
            assert!(range.last().is_none_or(|last| first + (octets - 1) <= last));
        }
        None => assert!(range.first() >= file),
    }
}

/// A catalogue, the lists from which one can be imported, and names of CMS.
pub(crate) fn catalogue(octets: &[u8]) {
    let limits = Limits { blocks_max: 64, files_max: 256 };
    if let Ok(catalogue) = read(octets, limits) {
        assert!(catalogue.blocks.len() <= limits.blocks_max && catalogue.files() <= limits.files_max);
        for block in &catalogue.blocks {
            assert_eq!(block.octets, block.files.iter().map(|file| file.octets).sum::<u64>());
        }
        let mut text = Vec::new();
        catalogue.write(&mut text).expect("memory has room");
        assert_eq!(read(&text[..], limits).expect("it was written"), catalogue);
    }
    for (source, block) in [(Source::Dbs, None), (Source::Rucio, Some("/b#1"))] {
        let mut import = Import::new(limits);
        let _ = import.add(octets, source, block);
        if let Ok(catalogue) = import.end(1) {
            let mut text = Vec::new();
            catalogue.write(&mut text).expect("memory has room");
            assert_eq!(read(&text[..], limits).expect("it was written"), catalogue);
        }
    }
    let Ok(text) = std::str::from_utf8(octets) else { return };
    if let Ok(lfn) = Lfn::parse(text) {
        let dataset = lfn.dataset().to_string();
        assert_eq!(Dataset::parse(&dataset), Ok(lfn.dataset()));
        assert!(text.starts_with(&lfn.dataset().directory(lfn.kind())));
    }
    if let Ok((dataset, id)) = parse_block(text) {
        assert_eq!(format!("{dataset}#{id}"), text);
    }
}

pub(crate) fn range_seeds() -> Group {
    let of = |size: u64, text: &str| [&size.to_be_bytes()[..], text.as_bytes()].concat();
    vec![
        ("first", of(10, "0-0")),
        ("to-the-end", of(10, "5-")),
        ("past-the-end", of(10, "10-12")),
        ("largest", of(u64::MAX, "0-18446744073709551615")),
        ("too-large", of(10, "0-18446744073709551616")),
        ("leading-zero", of(10, "0-09")),
        ("reversed", of(10, "9-0")),
        ("empty", of(10, "")),
    ]
}

pub(crate) fn catalogue_seeds() -> Group {
    let text = "catalogue\t7\n# two blocks\n/P/R-v1/T#1\t30\n\t/store/data/R/P/T/v1/a.root\t10\n\
                \t/store/data/R/P/T/v1/b.root\t20\t00a0ff17\n/P/R-v1/T#2\t1\n\t/store/data/R/P/T/v1/c.root\t1\n";
    let dbs = r#"[{"logical_file_name": "/f", "block_name": "/b#2", "file_size": 5, "adler32": "1"}]"#;
    let rucio = r#"{"name": "/f", "parent_name": "/b#2", "bytes": 5} {"name": "/g", "bytes": 6}"#;
    let dump = r#"{"block": {"block_name": "/b#3"}, "files": [{"logical_file_name": "/f", "file_size": 5}]}"#;
    let inputs = [
        ("text", text),
        ("twice", "catalogue\t1\n/a\t1\n\t/f\t1\n/b\t1\n\t/f\t1\n"),
        ("dbs", dbs),
        ("rucio", rucio),
        ("blockdump", dump),
        ("lfn", "/store/data/Run2017F/SingleMuon/MINIAOD/17Nov2017-v1/60000/x.root"),
        ("block", "/SingleMuon/Run2017F-17Nov2017-v1/MINIAOD#13f6ce2c"),
    ];
    inputs.map(|(name, input)| (name, input.as_bytes().to_vec())).to_vec()
}
