//! TYPE-LENGTH-VALUE encoding (packet spec, `tlv.rst`): a strict reader over borrowed octets and a
//! writer.
//!
//! Numbers must be in their shortest form. Names are compared and hashed as octets, so two
//! encodings of one name must not exist.

use alloc::vec::Vec;

use crate::error::DecodeError;

/// One element: its TYPE, its VALUE, and the octets of the whole element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// TYPE, 1..=2^32-1.
    pub typ: u32,
    /// VALUE.
    pub value: &'a [u8],
    /// TYPE, LENGTH and VALUE.
    pub raw: &'a [u8],
}

impl<'a> Tlv<'a> {
    /// Decodes the VALUE as a NonNegativeInteger.
    ///
    /// # Errors
    /// [`DecodeError::BadInteger`] if its length is not 1, 2, 4 or 8.
    pub fn nni(&self) -> Result<u64, DecodeError> {
        decode_nni(self.value)
    }

    /// Returns true for an element whose presence is its meaning, and whose VALUE must be empty.
    ///
    /// # Errors
    /// [`DecodeError::BadLength`] if the VALUE is not empty.
    pub(crate) fn is_flag(&self) -> Result<bool, DecodeError> {
        if self.value.is_empty() { Ok(true) } else { Err(DecodeError::BadLength(self.typ)) }
    }

    /// Returns a reader of the elements in the VALUE.
    pub fn children(&self) -> Reader<'a> {
        Reader::new(self.value)
    }
}

/// Returns true if an unrecognized element of this TYPE must make the packet invalid.
pub(crate) fn is_critical(typ: u32) -> bool {
    typ <= 31 || typ & 1 == 1
}

/// Applies the evolvability rule to an unrecognized element.
///
/// # Errors
/// [`DecodeError::UnknownCritical`] if the TYPE is critical.
pub fn ignore_unknown(typ: u32) -> Result<(), DecodeError> {
    if is_critical(typ) { Err(DecodeError::UnknownCritical(typ)) } else { Ok(()) }
}

/// Reads a VAR-NUMBER. Returns the number and its size in octets.
///
/// # Errors
/// [`DecodeError::Truncated`] if `buf` ends within it, [`DecodeError::NonMinimalNumber`] if a
/// shorter form holds the number.
pub(crate) fn read_var_number(buf: &[u8]) -> Result<(u64, usize), DecodeError> {
    let first = *buf.first().ok_or(DecodeError::Truncated)?;
    let (size, least) = match first {
        0..=252 => return Ok((u64::from(first), 1)),
        253 => (2, 253),
        254 => (4, 0x1_0000),
        255 => (8, 0x1_0000_0000),
    };
    let octets = buf.get(1..=size).ok_or(DecodeError::Truncated)?;
    let number = octets.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    if number < least { Err(DecodeError::NonMinimalNumber) } else { Ok((number, 1 + size)) }
}

/// Reads the header of the element at the start of `buf`: TYPE, LENGTH, and the size of both. The
/// VALUE may be incomplete, so that a stream can be split into packets.
///
/// # Errors
/// [`DecodeError`]: `buf` ends within the header, a number is not in its shortest form, the TYPE is
/// outside 1..=2^32-1, or the LENGTH is larger than memory.
#[inline]
pub fn read_header(buf: &[u8]) -> Result<(u32, usize, usize), DecodeError> {
    // Most elements of a packet have a TYPE and a LENGTH of one octet each.
    match *buf {
        [typ @ 1..=252, length @ 0..=252, ..] => Ok((u32::from(typ), usize::from(length), 2)),
        _ => read_long_header(buf),
    }
}

/// [`read_header`] for TYPEs and LENGTHs of any size.
fn read_long_header(buf: &[u8]) -> Result<(u32, usize, usize), DecodeError> {
    let (typ, typ_octets) = read_var_number(buf)?;
    let typ = u32::try_from(typ).map_err(|_| DecodeError::BadType)?;
    if typ == 0 {
        return Err(DecodeError::BadType);
    }
    let (length, length_octets) = read_var_number(&buf[typ_octets..])?;
    let length = usize::try_from(length).map_err(|_| DecodeError::LengthTooLarge)?;
    if length > isize::MAX as usize {
        return Err(DecodeError::LengthTooLarge);
    }
    Ok((typ, length, typ_octets + length_octets))
}

/// Reads the element at the start of `buf`, and ignores the octets after it.
///
/// # Errors
/// [`DecodeError`]: as [`read_header`], or `buf` ends within the VALUE.
#[inline]
pub fn read_tlv(buf: &[u8]) -> Result<Tlv<'_>, DecodeError> {
    let (typ, length, header) = read_header(buf)?;
    let end = header.checked_add(length).ok_or(DecodeError::LengthTooLarge)?;
    let raw = buf.get(..end).ok_or(DecodeError::Truncated)?;
    Ok(Tlv { typ, value: &raw[header..], raw })
}

/// Reads `buf` as exactly one element of TYPE `typ`.
///
/// # Errors
/// [`DecodeError`]: as [`read_tlv`]; [`DecodeError::UnexpectedType`] if the TYPE is another;
/// [`DecodeError::TrailingOctets`] if something follows.
pub fn read_exactly(buf: &[u8], typ: u32) -> Result<Tlv<'_>, DecodeError> {
    let tlv = read_tlv(buf)?;
    if tlv.typ != typ {
        return Err(DecodeError::UnexpectedType(tlv.typ));
    }
    if tlv.raw.len() != buf.len() {
        return Err(DecodeError::TrailingOctets);
    }
    Ok(tlv)
}

/// Maximum octets of TYPE and LENGTH.
const HEADER_OCTETS_MAX: usize = 18;

/// Decodes a NonNegativeInteger of 1, 2, 4 or 8 octets.
///
/// # Errors
/// [`DecodeError::BadInteger`] if it has another length.
pub fn decode_nni(value: &[u8]) -> Result<u64, DecodeError> {
    match value.len() {
        1 | 2 | 4 | 8 => Ok(value.iter().fold(0, |n, b| n << 8 | u64::from(*b))),
        _ => Err(DecodeError::BadInteger),
    }
}

/// Returns the octets of `n` as a VAR-NUMBER.
pub(crate) fn var_number_octets(n: u64) -> usize {
    match n {
        0..=252 => 1,
        253..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Returns the octets of an element with a VALUE of `length` octets.
pub fn tlv_octets(typ: u32, length: usize) -> usize {
    var_number_octets(u64::from(typ)) + var_number_octets(length as u64) + length
}

/// Writes TYPE and LENGTH to the start of `buffer`, which has to have room for them. Returns their
/// octets.
pub(crate) fn put_header(buffer: &mut [u8], typ: u32, length: usize) -> usize {
    let mut position = 0;
    for n in [u64::from(typ), length as u64] {
        let octets = var_number_octets(n);
        let place = &mut buffer[position..position + octets];
        match octets {
            1 => place[0] = n as u8,
            3 => place[0] = 253,
            5 => place[0] = 254,
            _ => place[0] = 255,
        }
        place[1..].copy_from_slice(&n.to_be_bytes()[9 - octets..]);
        position += octets;
    }
    position
}

/// Returns the octets of `n` as a NonNegativeInteger.
pub fn nni_octets(n: u64) -> usize {
    match n {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// Reads a sequence of elements.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    buf: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `buf`.
    pub fn new(buf: &'a [u8]) -> Self {
        Reader { buf, position: 0 }
    }

    /// Returns the number of octets read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the unread octets.
    pub fn rest(&self) -> &'a [u8] {
        &self.buf[self.position..]
    }

    /// Returns the next element, or `None` at the end.
    ///
    /// # Errors
    /// [`DecodeError`]: the next octets are not a complete element.
    pub fn next_tlv(&mut self) -> Result<Option<Tlv<'a>>, DecodeError> {
        if self.position == self.buf.len() {
            return Ok(None);
        }
        let tlv = read_tlv(&self.buf[self.position..])?;
        self.position += tlv.raw.len();
        Ok(Some(tlv))
    }

    /// Returns the next element, which has to exist and be of TYPE `typ`.
    ///
    /// # Errors
    /// [`DecodeError::Missing`] at the end, [`DecodeError::UnexpectedType`] if another element
    /// follows; otherwise as [`Reader::next_tlv`].
    pub fn require(&mut self, typ: u32) -> Result<Tlv<'a>, DecodeError> {
        match self.next_tlv()? {
            Some(tlv) if tlv.typ == typ => Ok(tlv),
            _ => Err(DecodeError::Missing(typ)),
        }
    }
}

/// Appends elements to a growing buffer.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    buf: Vec<u8>,
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty writer with room for `octets`.
    pub fn with_capacity(octets: usize) -> Self {
        Writer { buf: Vec::with_capacity(octets) }
    }

    /// Creates a writer that appends to `buf`.
    pub fn from_vec(buf: Vec<u8>) -> Self {
        Writer { buf }
    }

    /// Appends raw octets.
    pub fn raw(&mut self, octets: &[u8]) -> &mut Self {
        self.buf.extend_from_slice(octets);
        self
    }

    /// Appends a VAR-NUMBER in its shortest form.
    pub fn var_number(&mut self, n: u64) -> &mut Self {
        match n {
            0..=252 => self.buf.push(n as u8),
            253..=0xffff => {
                self.buf.push(253);
                self.buf.extend_from_slice(&(n as u16).to_be_bytes());
            }
            0x1_0000..=0xffff_ffff => {
                self.buf.push(254);
                self.buf.extend_from_slice(&(n as u32).to_be_bytes());
            }
            _ => {
                self.buf.push(255);
                self.buf.extend_from_slice(&n.to_be_bytes());
            }
        }
        self
    }

    /// Appends TYPE and LENGTH; the caller appends the VALUE.
    pub fn header(&mut self, typ: u32, length: usize) -> &mut Self {
        self.var_number(u64::from(typ)).var_number(length as u64)
    }

    /// Appends an element.
    pub fn tlv(&mut self, typ: u32, value: &[u8]) -> &mut Self {
        self.header(typ, value.len()).raw(value)
    }

    /// Appends an element that holds a NonNegativeInteger in its shortest form.
    pub fn nni(&mut self, typ: u32, n: u64) -> &mut Self {
        let octets = n.to_be_bytes();
        self.tlv(typ, &octets[8 - nni_octets(n)..])
    }

    /// Appends an element whose VALUE `fill` writes.
    pub fn nested(&mut self, typ: u32, fill: impl FnOnce(&mut Writer)) -> &mut Self {
        let start = self.buf.len();
        fill(self);
        let length = self.buf.len() - start;
        self.header_at(start, typ, length)
    }

    /// Inserts TYPE and LENGTH at `position`, before the octets written after it. It allocates only
    /// if the buffer grows, because link headers are created for each packet sent.
    pub(crate) fn header_at(&mut self, position: usize, typ: u32, length: usize) -> &mut Self {
        let written = self.buf.len();
        self.header(typ, length);
        let mut header = [0; HEADER_OCTETS_MAX];
        let octets = self.buf.len() - written;
        header[..octets].copy_from_slice(&self.buf[written..]);
        // Without `rotate`, which uses more stack than a kernel has to spare.
        self.buf.copy_within(position..written, position + octets);
        self.buf[position..position + octets].copy_from_slice(&header[..octets]);
        self
    }

    /// Returns the written octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf
    }

    /// Returns the number of written octets.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns true if nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Returns the buffer.
    pub fn into_vec(self) -> Vec<u8> {
        self.buf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn var_numbers_take_the_shortest_form() {
        for n in [0, 1, 252, 253, 255, 256, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX] {
            let mut w = Writer::new();
            w.var_number(n);
            assert_eq!(w.len(), var_number_octets(n));
            assert_eq!(read_var_number(w.as_bytes()), Ok((n, w.len())));
            assert_eq!(read_var_number(&w.as_bytes()[..w.len() - 1]), Err(DecodeError::Truncated));
        }
        assert_eq!(read_var_number(&[253, 0, 252]), Err(DecodeError::NonMinimalNumber));
        assert_eq!(read_var_number(&[254, 0, 0, 255, 255]), Err(DecodeError::NonMinimalNumber));
        assert_eq!(
            read_var_number(&[255, 0, 0, 0, 0, 255, 255, 255, 255]),
            Err(DecodeError::NonMinimalNumber)
        );
    }

    #[test]
    fn both_header_writers_agree() {
        for typ in [5, 252, 253, 65_535, 65_536, u32::MAX] {
            for length in [0, 252, 253, 65_535, 65_536, usize::MAX] {
                let (mut w, mut buffer) = (Writer::new(), [0; 18]);
                w.header(typ, length);
                let octets = put_header(&mut buffer, typ, length);
                assert_eq!(&buffer[..octets], w.as_bytes());
            }
        }
    }

    #[test]
    fn out_of_range_types_are_refused() {
        assert_eq!(read_header(&[0, 0]), Err(DecodeError::BadType));
        assert_eq!(read_header(&[255, 0, 0, 0, 1, 0, 0, 0, 0, 0]), Err(DecodeError::BadType));
        assert_eq!(read_header(&[254, 255, 255, 255, 255, 0]), Ok((u32::MAX, 0, 6)));
    }

    #[test]
    fn a_huge_length_is_refused_unread() {
        for length in [1u64 << 28, 1 << 32, 1 << 40, 1 << 60, u64::MAX] {
            let mut w = Writer::new();
            w.var_number(6).var_number(length).raw(&[0; 16]);
            assert!(read_tlv(w.as_bytes()).is_err());
        }
    }

    #[test]
    fn integers_have_one_of_four_sizes() {
        for n in [0u64, 255, 256, 65535, 65536, 0xffff_ffff, 1 << 32, u64::MAX] {
            let mut w = Writer::new();
            w.nni(9, n);
            assert_eq!(read_tlv(w.as_bytes()).unwrap().nni(), Ok(n));
        }
        for length in [0, 3, 5, 6, 7, 9] {
            assert_eq!(decode_nni(&[0; 9][..length]), Err(DecodeError::BadInteger));
        }
    }

    #[test]
    fn nested_elements_get_their_length() {
        let mut w = Writer::new();
        w.nested(100, |w| {
            w.nested(80, |w| {
                w.raw(&[7; 300]);
            });
        });
        let outer = read_exactly(w.as_bytes(), 100).unwrap();
        assert_eq!(outer.children().require(80).unwrap().value, &[7; 300]);
    }
}
