//! Imports a catalogue from the databases of CMS: DBS's `files` with `detail`, or its `blockdump`,
//! and Rucio's files of datasets (`dids/bulkfiles`, or `dids/<scope>/<block>/files` with the block
//! given separately). Each is JSON: one list, or one record after the other.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::{Map, Value};

use crate::{Block, Catalogue, CatalogueError, Fault, File, Limits, SIZE_MAX, block_id, is_name, same_id};

/// Octets of JSON per answer that is imported into a catalogue.
///
/// # Limit
/// The import is refused.
/// - Tests: `a_catalogue_ends_at_its_limits`
pub const JSON_OCTETS_MAX: u64 = 512 << 20;

/// The database that an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// DBS 3: `logical_file_name`, `block_name`, `file_size`, `adler32`.
    Dbs,
    /// Rucio: `name`, `parent_name`, `bytes`, `adler32`.
    Rucio,
}

/// An import of one answer after the other.
#[derive(Debug, Default)]
pub struct Import {
    limits: Limits,
    /// Files by block and name.
    blocks: BTreeMap<String, BTreeMap<String, File>>,
    /// The block of each file.
    files: BTreeMap<String, String>,
    /// Number of files that DBS marks as invalid; they are left out.
    pub invalid: u64,
}

impl Import {
    /// Creates an empty import.
    pub fn new(limits: Limits) -> Self {
        Import { limits, ..Import::default() }
    }

    /// Adds an answer. `block` is the block of files without one of their own.
    ///
    /// # Errors
    /// [`CatalogueError`] with the faulty record; the records before it have been added.
    pub fn add(
        &mut self,
        json: impl Read,
        source: Source,
        block: Option<&str>,
    ) -> Result<(), CatalogueError> {
        let json = json.take(JSON_OCTETS_MAX + 1);
        let mut record = 0;
        for value in serde_json::Deserializer::from_reader(json).into_iter::<Value>() {
            let value = value.map_err(|error| Fault::Json(format!("no JSON: {error}")).at(record + 1))?;
            self.take(value, source, block, &mut record)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        value: Value,
        source: Source,
        block: Option<&str>,
        record: &mut u64,
    ) -> Result<(), CatalogueError> {
        match value {
            Value::Array(values) => {
                for value in values {
                    if !value.is_object() {
                        return Err(
                            Fault::Json("a list of something else than records".into()).at(*record + 1)
                        );
                    }
                    self.take(value, source, block, record)?;
                }
                Ok(())
            }
            // A blockdump.
            Value::Object(mut fields) if source == Source::Dbs && fields.contains_key("files") => {
                let of =
                    fields.get("block").and_then(|block| block.get("block_name")).and_then(Value::as_str);
                let of = of.map(str::to_owned);
                let files = fields.remove("files").unwrap_or_default();
                self.take(files, source, of.as_deref().or(block), record)
            }
            Value::Object(fields) => {
                *record += 1;
                self.file(&fields, source, block).map_err(|fault| fault.at(*record))
            }
            _ => Err(Fault::Json("neither a list nor a record".into()).at(*record + 1)),
        }
    }

    fn file(
        &mut self,
        fields: &Map<String, Value>,
        source: Source,
        block: Option<&str>,
    ) -> Result<(), Fault> {
        let [name, parent, octets] = match source {
            Source::Dbs => ["logical_file_name", "block_name", "file_size"],
            Source::Rucio => ["name", "parent_name", "bytes"],
        };
        if source == Source::Dbs && fields.get("is_file_valid").and_then(Value::as_u64) == Some(0) {
            self.invalid += 1;
            return Ok(());
        }
        let lacks = |field: &str| Fault::Json(format!("a record without `{field}`: ask for all details"));
        let name = fields.get(name).and_then(Value::as_str).ok_or_else(|| lacks(name))?;
        let block = fields.get(parent).and_then(Value::as_str).or(block);
        let block = block.ok_or_else(|| Fault::Json(format!("{name} has no `{parent}`: name its block")))?;
        for text in [block, name] {
            if !is_name(text) {
                return Err(Fault::Name(text.to_owned()));
            }
        }
        let size = fields.get(octets).ok_or_else(|| lacks(octets))?;
        let octets = size.as_u64().filter(|octets| (1..=SIZE_MAX).contains(octets));
        let octets = octets.ok_or_else(|| Fault::Size(size.to_string()))?;
        self.enter(block, File { name: name.to_owned(), octets, adler32: checksum(fields) })
    }

    fn enter(&mut self, block: &str, file: File) -> Result<(), Fault> {
        match self.files.get(&file.name) {
            Some(other) if other != block => {
                let message = format!("{} is in {other} and in {block}: a file is in one block", file.name);
                return Err(Fault::Json(message));
            }
            // The same file again, as for a file with several replicas.
            Some(_) => {
                let known = self.blocks.get(block).and_then(|files| files.get(&file.name));
                let is_same = known.is_some_and(|known| known.octets == file.octets);
                let message = || format!("{} appeared with another size before", file.name);
                return if is_same { Ok(()) } else { Err(Fault::Json(message())) };
            }
            None => {}
        }
        if self.files.len() >= self.limits.files_max {
            return Err(Fault::TooManyFiles(self.limits.files_max));
        }
        if !self.blocks.contains_key(block) && self.blocks.len() >= self.limits.blocks_max {
            return Err(Fault::TooManyBlocks(self.limits.blocks_max));
        }
        self.files.insert(file.name.clone(), block.to_owned());
        self.blocks.entry(block.to_owned()).or_default().insert(file.name.clone(), file);
        Ok(())
    }

    /// Returns the imported catalogue, sorted by name.
    ///
    /// # Errors
    /// A block is too large, or two have one id; the line is that of the block in the text.
    pub fn end(self, version: u64) -> Result<Catalogue, CatalogueError> {
        let mut blocks = Vec::new();
        let mut lines = Vec::new();
        let mut line = 2;
        for (name, files) in self.blocks {
            let files: Vec<File> = files.into_values().collect();
            let octets = files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.octets));
            let octets = octets.filter(|octets| *octets <= SIZE_MAX);
            let octets = octets.ok_or_else(|| Fault::Size(format!("{name}: more")).at(line))?;
            lines.push(line);
            line += 1 + files.len() as u64;
            blocks.push(Block { id: block_id(&name), name, octets, files });
        }
        match same_id(&blocks) {
            None => Ok(Catalogue { version, blocks }),
            Some((a, b)) => Err(Fault::SameId(blocks[a].name.clone(), lines[a]).at(lines[b])),
        }
    }
}

/// Returns the checksum of a file, if it has one: some have `NOTSET`.
fn checksum(fields: &Map<String, Value>) -> Option<u32> {
    let text = fields.get("adler32")?.as_str()?;
    (1..=8).contains(&text.len()).then(|| u32::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(json: &str, source: Source, block: Option<&str>) -> Result<Catalogue, CatalogueError> {
        let mut import = Import::new(Limits::default());
        import.add(json.as_bytes(), source, block)?;
        import.end(7)
    }

    const DBS: &str = r#"[
        {"logical_file_name": "/store/data/R/P/T/v1/b.root", "block_name": "/P/R-v1/T#2", "file_size": 20,
         "adler32": "a0ff17", "is_file_valid": 1, "event_count": 5},
        {"logical_file_name": "/store/data/R/P/T/v1/a.root", "block_name": "/P/R-v1/T#1", "file_size": 10,
         "adler32": "NOTSET"},
        {"logical_file_name": "/store/data/R/P/T/v1/gone.root", "block_name": "/P/R-v1/T#1", "file_size": 1,
         "is_file_valid": 0}
    ]"#;
    const TEXT: &str = "catalogue\t7\n/P/R-v1/T#1\t10\n\t/store/data/R/P/T/v1/a.root\t10\n/P/R-v1/T#2\t20\n\
                        \t/store/data/R/P/T/v1/b.root\t20\t00a0ff17\n";

    fn text(catalogue: &Catalogue) -> String {
        let mut text = Vec::new();
        catalogue.write(&mut text).unwrap();
        assert_eq!(&crate::read(&text[..], Limits::default()).unwrap(), catalogue);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_dbs_listing_becomes_a_catalogue() {
        assert_eq!(text(&imported(DBS, Source::Dbs, None).unwrap()), TEXT);
        // One record after the other, and dumps of blocks.
        let lines = r#"{"logical_file_name": "/store/data/R/P/T/v1/a.root", "block_name": "/P/R-v1/T#1", "file_size": 10}
            {"block": {"block_name": "/P/R-v1/T#2", "block_size": 20},
             "files": [{"logical_file_name": "/store/data/R/P/T/v1/b.root", "file_size": 20, "adler32": "00a0ff17"}]}"#;
        assert_eq!(text(&imported(lines, Source::Dbs, None).unwrap()), TEXT);
        let mut import = Import::new(Limits::default());
        import.add(DBS.as_bytes(), Source::Dbs, None).unwrap();
        assert_eq!(import.invalid, 1);
        assert_eq!(text(&import.end(7).unwrap()), TEXT);
    }

    #[test]
    fn a_rucio_listing_becomes_a_catalogue() {
        let bulk = r#"
            {"parent_scope": "cms", "parent_name": "/P/R-v1/T#2", "scope": "cms", "bytes": 20, "adler32": "00a0ff17",
             "name": "/store/data/R/P/T/v1/b.root", "guid": null, "events": null}
            {"parent_scope": "cms", "parent_name": "/P/R-v1/T#1", "scope": "cms", "bytes": 10, "adler32": null,
             "name": "/store/data/R/P/T/v1/a.root"}
            {"parent_scope": "cms", "parent_name": "/P/R-v1/T#1", "scope": "cms", "bytes": 10, "adler32": null,
             "name": "/store/data/R/P/T/v1/a.root"}"#;
        assert_eq!(text(&imported(bulk, Source::Rucio, None).unwrap()), TEXT);
        let of_one = r#"[{"scope": "cms", "name": "/f", "bytes": 1}]"#;
        assert_eq!(imported(of_one, Source::Rucio, Some("/b#1")).unwrap().blocks[0].name, "/b#1");
        let said = imported(of_one, Source::Rucio, None).unwrap_err().to_string();
        assert_eq!(said, "1: /f has no `parent_name`: name its block");
    }

    #[test]
    fn an_invalid_record_is_reported_by_number() {
        let record = |name: &str, block: &str, size: &str| {
            format!(r#"{{"logical_file_name": "{name}", "block_name": "{block}", "file_size": {size}}}"#)
        };
        let good = record("/f", "/b#1", "1");
        for (json, what) in [
            ("{".to_owned(), "1: no JSON"),
            ("7".to_owned(), "1: neither a list nor a record"),
            ("[[]]".to_owned(), "1: a list of something else than records"),
            ("{}".to_owned(), "1: a record without `logical_file_name`: ask for all details"),
            (
                r#"{"logical_file_name": "/f", "block_name": "/b"}"#.to_owned(),
                "1: a record without `file_size`",
            ),
            (record("/f", "/b#1", "0"), "1: `0` is no size"),
            (record("/f", "/b#1", "9223372036854775808"), "1: `9223372036854775808` is no size"),
            (record("/f", "/b#1", "1e3"), "1: `1000.0` is no size"),
            (record("/f", "/b#1", "-1"), "1: `-1` is no size"),
            (record("f", "/b#1", "1"), "1: `f` is no name"),
            (record("/f", "/b\\t", "1"), "1: `/b\t` is no name"),
            (good.clone() + &record("/f", "/b#2", "1"), "2: /f is in /b#1 and in /b#2"),
            (good.clone() + &record("/f", "/b#1", "2"), "2: /f appeared with another size before"),
        ] {
            let said = imported(&json, Source::Dbs, None).unwrap_err().to_string();
            assert!(said.starts_with(what), "{json}: {said}");
        }
    }

    #[test]
    fn an_import_ends_at_its_limits() {
        let record = |n: usize, block: usize| {
            format!(r#"{{"name": "/f{n}", "parent_name": "/b{block}", "bytes": 1}}"#)
        };
        let limits = Limits { blocks_max: 2, files_max: 3 };
        let at = |indices: &[usize]| {
            let json: String = indices.iter().enumerate().map(|(n, block)| record(n, *block)).collect();
            Import::new(limits).add(json.as_bytes(), Source::Rucio, None).map_err(|error| error.fault)
        };
        assert!(at(&[0, 1, 1]).is_ok());
        assert!(matches!(at(&[0, 1, 2]), Err(Fault::TooManyBlocks(2))));
        assert!(matches!(at(&[0, 1, 1, 1]), Err(Fault::TooManyFiles(3))));
        // The sum of a block's octets.
        let half = SIZE_MAX / 2 + 1;
        let json = format!(r#"[{{"name": "/f", "bytes": {half}}}, {{"name": "/g", "bytes": {half}}}]"#);
        assert!(matches!(imported(&json, Source::Rucio, Some("/b")).unwrap_err().fault, Fault::Size(_)));
    }
}
