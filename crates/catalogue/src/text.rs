//! Reads the text of a catalogue, line by line.

use std::io::{BufRead, Read};

use crate::{Block, Catalogue, CatalogueError, Fault, File, Limits, SIZE_MAX, block_id, is_name, same_id};

/// Octets of a line of a catalogue, with its end.
///
/// # Limit
/// The catalogue is refused, and the error names the line.
/// - Tests: `a_catalogue_ends_at_its_limits`
pub const LINE_OCTETS_MAX: u64 = 4096;

/// Octets of the text of a catalogue.
///
/// # Limit
/// The catalogue is refused, and the error names the line.
/// - Tests: `a_catalogue_ends_at_its_limits`
pub const TEXT_OCTETS_MAX: u64 = 512 << 20;

/// Reads a catalogue.
///
/// # Errors
/// [`CatalogueError`]: the first faulty line. The whole catalogue is refused then.
pub fn read(text: impl BufRead, limits: Limits) -> Result<Catalogue, CatalogueError> {
    let mut reading = Reading { limits, ..Reading::default() };
    let mut text = text.take(TEXT_OCTETS_MAX + 1);
    let (mut octets, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let number = reading.line + 1;
        let read = (&mut text).take(LINE_OCTETS_MAX + 1).read_until(b'\n', &mut line);
        let read = read.map_err(|error| Fault::Read(error).at(number))? as u64;
        if read == 0 {
            return reading.end();
        }
        octets += read;
        if read > LINE_OCTETS_MAX {
            return Err(Fault::TooLong(LINE_OCTETS_MAX).at(number));
        }
        if octets > TEXT_OCTETS_MAX {
            return Err(Fault::TooLong(TEXT_OCTETS_MAX).at(number));
        }
        reading.line = number;
        let line = std::str::from_utf8(&line).map_err(|_| Fault::NotText.at(number))?;
        let line = line.strip_suffix('\n').unwrap_or(line);
        reading.take(line.strip_suffix('\r').unwrap_or(line)).map_err(|fault| fault.at(number))?;
    }
}

#[derive(Debug, Default)]
struct Reading {
    limits: Limits,
    line: u64,
    version: Option<u64>,
    blocks: Vec<Block>,
    /// The line of each block, and those of its files.
    lines: Vec<(u64, Vec<u64>)>,
    files: usize,
}

impl Reading {
    fn take(&mut self, line: &str) -> Result<(), Fault> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let mut fields = line.split('\t');
        if self.version.is_none() {
            let (Some("catalogue"), Some(version), None) = (fields.next(), fields.next(), fields.next())
            else {
                return Err(Fault::NoVersion);
            };
            self.version = Some(number(version).ok_or(Fault::NoVersion)?);
            return Ok(());
        }
        let (first, second) = (fields.next().unwrap_or_default(), fields.next().ok_or(Fault::Fields)?);
        match (first, fields.next(), fields.next(), fields.next()) {
            ("", Some(octets), sum, None) => self.file(second, octets, sum),
            (block, None, None, None) if !block.is_empty() => self.block(block, second),
            _ => Err(Fault::Fields),
        }
    }

    fn block(&mut self, name: &str, octets: &str) -> Result<(), Fault> {
        if self.blocks.len() >= self.limits.blocks_max {
            return Err(Fault::TooManyBlocks(self.limits.blocks_max));
        }
        let name = checked(name)?;
        let octets = size(octets)?;
        self.blocks.push(Block { id: block_id(&name), name, octets, files: Vec::new() });
        self.lines.push((self.line, Vec::new()));
        Ok(())
    }

    fn file(&mut self, name: &str, octets: &str, sum: Option<&str>) -> Result<(), Fault> {
        let (Some(block), Some((_, lines))) = (self.blocks.last_mut(), self.lines.last_mut()) else {
            return Err(Fault::NoBlock);
        };
        if self.files >= self.limits.files_max {
            return Err(Fault::TooManyFiles(self.limits.files_max));
        }
        let adler32 = sum.map(checksum).transpose()?;
        block.files.push(File { name: checked(name)?, octets: size(octets)?, adler32 });
        lines.push(self.line);
        self.files += 1;
        Ok(())
    }

    fn end(self) -> Result<Catalogue, CatalogueError> {
        let version = self.version.ok_or_else(|| Fault::NoVersion.at(self.line.max(1)))?;
        for (block, (line, _)) in self.blocks.iter().zip(&self.lines) {
            let said = block.octets;
            let files = block.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.octets));
            match files.unwrap_or(u64::MAX) {
                0 => return Err(Fault::NoFiles(block.name.clone()).at(*line)),
                files if files != said => {
                    return Err(Fault::Sum { block: block.name.clone(), said, files }.at(*line));
                }
                _ => {}
            }
        }
        self.check_blocks()?;
        self.check_files()?;
        Ok(Catalogue { version, blocks: self.blocks })
    }

    fn check_blocks(&self) -> Result<(), CatalogueError> {
        let mut order: Vec<usize> = (0..self.blocks.len()).collect();
        order.sort_by_key(|at| &self.blocks[*at].name);
        let same = |pair: &&[usize]| self.blocks[pair[0]].name == self.blocks[pair[1]].name;
        if let Some(pair) = order.windows(2).filter(same).min_by_key(|pair| pair[1]) {
            let before = self.lines[pair[0]].0;
            return Err(
                Fault::BlockTwice(self.blocks[pair[1]].name.clone(), before).at(self.lines[pair[1]].0)
            );
        }
        match same_id(&self.blocks) {
            None => Ok(()),
            Some((a, b)) => {
                let before = self.lines[a].0;
                Err(Fault::SameId(self.blocks[a].name.clone(), before).at(self.lines[b].0))
            }
        }
    }

    fn check_files(&self) -> Result<(), CatalogueError> {
        let positions = |(at, block): (usize, &Block)| (0..block.files.len()).map(move |file| (at, file));
        let mut order: Vec<(usize, usize)> = self.blocks.iter().enumerate().flat_map(positions).collect();
        let name = |(block, file): (usize, usize)| &self.blocks[block].files[file].name;
        order.sort_by_key(|position| name(*position));
        let twice = order.windows(2).filter(|pair| name(pair[0]) == name(pair[1])).min_by_key(|pair| pair[1]);
        let Some(&[(block, file), again]) = twice.and_then(|pair| pair.first_chunk()) else { return Ok(()) };
        let (before, line) = (self.lines[block].1[file], self.lines[again.0].1[again.1]);
        Err(Fault::FileTwice(name(again).clone(), before, self.blocks[block].name.clone()).at(line))
    }
}

/// A number of decimal digits, without leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain = text == "0" || !text.starts_with('0');
    (is_plain && text.bytes().all(|octet| octet.is_ascii_digit())).then(|| text.parse().ok())?
}

fn size(text: &str) -> Result<u64, Fault> {
    let size = number(text).filter(|size| (1..=SIZE_MAX).contains(size));
    size.ok_or_else(|| Fault::Size(text.to_owned()))
}

fn checked(name: &str) -> Result<String, Fault> {
    if is_name(name) { Ok(name.to_owned()) } else { Err(Fault::Name(name.to_owned())) }
}

/// Eight hexadecimal digits.
fn checksum(text: &str) -> Result<u32, Fault> {
    let is_hex = text.len() == 8 && text.bytes().all(|octet| octet.is_ascii_hexdigit());
    let sum = is_hex.then(|| u32::from_str_radix(text, 16).ok()).flatten();
    sum.ok_or_else(|| Fault::Checksum(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Catalogue, CatalogueError> {
        read(text.as_bytes(), Limits::default())
    }

    /// Returns the error of a catalogue with these lines after the first.
    fn said(lines: &str) -> String {
        parse(&format!("catalogue\t1\n{lines}")).unwrap_err().of_file("c.tsv".as_ref())
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_place() {
        for (lines, what) in [
            ("/b#1", "c.tsv:2: write a block as `name TAB octets`"),
            ("/b#1\t1\tx", "c.tsv:2: write a block"),
            ("/b#1\t1\n\t/f\t1\t00000001\tx", "c.tsv:3: write a block"),
            ("/b#1\t1\n\t/f", "c.tsv:3: write a block"),
            ("b\t1", "c.tsv:2: `b` is no name"),
            ("/b//c\t1", "c.tsv:2: `/b//c` is no name"),
            ("/b/../c\t1", "c.tsv:2: `/b/../c` is no name"),
            ("/b c\t1", "c.tsv:2: `/b c` is no name"),
            ("/b\t0", "c.tsv:2: `0` is no size: write a decimal number of octets, 1 to 9223372036854775807"),
            ("/b\t9223372036854775808", "c.tsv:2: `9223372036854775808` is no size"),
            ("/b\t18446744073709551616", "c.tsv:2: `18446744073709551616` is no size"),
            ("/b\t01", "c.tsv:2: `01` is no size"),
            ("/b\t+1", "c.tsv:2: `+1` is no size"),
            ("/b\t1\n\t/f\t0", "c.tsv:3: `0` is no size"),
            ("/b\t1\n\t/f\t1\t123", "c.tsv:3: `123` is no Adler-32"),
            ("\t/f\t1", "c.tsv:2: a file before any block"),
            ("/b\t1\n# more\n\n/c\t1\n\t/f\t1", "c.tsv:2: /b has no files"),
            ("/b\t1\n\t/f\t2", "c.tsv:2: /b has 1 octets and its files have 2: write 2"),
            ("/b\t1\n\t/f\t1\n/b\t1\n\t/g\t1", "c.tsv:4: /b is in line 2 too"),
            (
                "/b\t1\n\t/f\t1\n/c\t1\n\t/f\t1",
                "c.tsv:5: /f is in line 3 too, in /b: a file is in one block, remove one of them",
            ),
            ("/b\t2\n\t/f\t1\n\t/f\t1", "c.tsv:4: /f is in line 3 too"),
        ] {
            let said = said(lines);
            assert!(said.starts_with(what), "{lines:?}: {said}");
        }
        for text in ["", "\n", "/b\t1\n", "catalogue\t1\t2\n", "catalogue\tx\n", "catalogue 1\n"] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains("a catalogue begins with the line `catalogue`"), "{text:?}: {said}");
        }
        let error = read(&b"catalogue\t1\n/\xff\t1\n"[..], Limits::default()).unwrap_err();
        assert!(matches!(error, CatalogueError { line: 2, fault: Fault::NotText }));
    }

    #[test]
    fn sizes_are_accepted_up_to_their_limit() {
        let text =
            format!("# made today\r\n\r\ncatalogue\t0\r\n/b\t{SIZE_MAX}\r\n\t/f\t{SIZE_MAX}\tFFffFFff");
        let catalogue = parse(&text).unwrap();
        assert_eq!(catalogue.blocks[0].files[0].octets, SIZE_MAX);
        assert_eq!(catalogue.blocks[0].files[0].adler32, Some(u32::MAX));
        // Two of them exceed a block's limit, and three exceed 2^64.
        let files: String = (0..3).map(|n| format!("\t/f{n}\t{SIZE_MAX}\n")).collect();
        assert!(said(&format!("/b\t{SIZE_MAX}\n{files}")).contains("its files have 18446744073709551615"));
    }

    #[test]
    fn a_catalogue_ends_at_its_limits() {
        let limits = Limits { blocks_max: 3, files_max: 5 };
        let text = |blocks: usize, files: usize| {
            let mut text = "catalogue\t1\n".to_owned();
            for block in 0..blocks {
                let of: Vec<usize> = (0..files).filter(|file| file % blocks == block).collect();
                text += &format!("/b{block}\t{}\n", of.len());
                of.iter().for_each(|file| text += &format!("\t/f{file}\t1\n"));
            }
            text
        };
        let at = |blocks, files| read(text(blocks, files).as_bytes(), limits);
        assert_eq!(at(3, 5).unwrap().files(), 5);
        assert!(matches!(at(4, 5).unwrap_err().fault, Fault::TooManyBlocks(3)));
        assert!(matches!(at(3, 6).unwrap_err().fault, Fault::TooManyFiles(5)));
        let line = |octets: usize| format!("catalogue\t1\n#{}\n", "x".repeat(octets - 2));
        assert!(parse(&line(LINE_OCTETS_MAX as usize)).is_ok());
        let error = parse(&line(LINE_OCTETS_MAX as usize + 1)).unwrap_err();
        assert!(matches!(error, CatalogueError { line: 2, fault: Fault::TooLong(LINE_OCTETS_MAX) }));
        // A line without an end is read no further than the limit.
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        assert!(matches!(read(endless, limits).unwrap_err().fault, Fault::TooLong(LINE_OCTETS_MAX)));
    }

    /// The id is set by hand, because a collision of the hash cannot be found.
    #[test]
    fn blocks_with_equal_ids_are_refused() {
        let mut reading = Reading { limits: Limits::default(), ..Reading::default() };
        for line in ["catalogue\t1", "/a\t1", "\t/f\t1", "/b\t1", "\t/g\t1"] {
            reading.line += 1;
            reading.take(line).unwrap();
        }
        reading.blocks[1].id = reading.blocks[0].id;
        let error = reading.end().unwrap_err();
        assert!(error.to_string().starts_with("4: routers confuse it with /a in line 2"), "{error}");
    }

    #[test]
    fn a_block_id_is_its_names_hash() {
        // SHA-256 of the TLV 07 06 08 01 61 08 01 62.
        let tlv = [7, 6, 8, 1, b'a', 8, 1, b'b'];
        let digest = namely_security::sha256(&tlv);
        assert_eq!(block_id("/a/b").to_be_bytes(), digest[..8]);
    }

    proptest! {
        #[test]
        fn a_catalogue_survives_a_round_trip(
            blocks in prop::collection::vec((1..9_usize, any::<bool>()), 0..6),
            version: u64,
        ) {
            let mut catalogue = Catalogue { version, blocks: Vec::new() };
            for (at, (files, has_sums)) in blocks.into_iter().enumerate() {
                let name = format!("/d/{at}#x");
                let file = |n: usize| File {
                    name: format!("/store/{at}/{n}.root"),
                    octets: n as u64 + 1,
                    adler32: has_sums.then_some(n as u32),
                };
                let files: Vec<File> = (0..files).map(file).collect();
                let octets = files.iter().map(|file| file.octets).sum();
                catalogue.blocks.push(Block { id: block_id(&name), name, octets, files });
            }
            let mut text = Vec::new();
            catalogue.write(&mut text).unwrap();
            prop_assert_eq!(read(&text[..], Limits::default()).unwrap(), catalogue);
        }

        #[test]
        fn arbitrary_catalogue_text_never_panics(text in "(catalogue\t1\n)?([/a#\t\n0-9]|\\PC){0,80}") {
            let _ = parse(&text);
        }
    }
}
