//! Errors of decoding and parsing, one enum for the whole crate.

use core::fmt;

/// A reason to refuse octets or text. A malformed packet is the sender's fault, and the receiver
/// counts it by [`DecodeError::label`]. A malformed text is the fault of its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeError {
    /// The input ends before the element does.
    Truncated,
    /// Octets remain after the packet.
    TrailingOctets,
    /// A TYPE or LENGTH is not in its shortest form (packet spec, TLV encoding).
    NonMinimalNumber,
    /// TYPE 0, or above 2^32-1.
    BadType,
    /// A LENGTH larger than any packet.
    LengthTooLarge,
    /// A NonNegativeInteger whose length is not 1, 2, 4 or 8.
    BadInteger,
    /// An element of fixed size has another size.
    ///
    /// The field is the TYPE of the element.
    BadLength(u32),
    /// The packet has another TYPE than expected.
    ///
    /// The field is the TYPE that was found.
    UnexpectedType(u32),
    /// A required element is absent.
    ///
    /// The field is the TYPE of the element.
    Missing(u32),
    /// An unrecognized or out-of-order element of a critical TYPE.
    UnknownCritical(u32),
    /// A recognized element occurs more than once where it may occur once.
    Repeated(u32),
    /// A name component's TYPE is outside 1..=65535.
    BadComponentType,
    /// A digest component is not 32 octets long.
    BadDigestLength,
    /// More than [`crate::name::COMPONENTS_MAX`] components.
    TooManyComponents,
    /// An Interest with an empty name.
    EmptyName,
    /// A name that does not have the form that its packet requires, such as the name of a
    /// certificate.
    BadName,
    /// ApplicationParameters without a parameters digest component in the name.
    MissingParametersDigest,
    /// Text that is not a name URI.
    BadUri,
    /// Text that is not a name URI, because it does not begin with a slash.
    NoSlash,
    /// A text or a time that does not have the form that its field requires.
    BadText,
    /// A number is outside its permitted range.
    ///
    /// The field is the TYPE of the number's element.
    OutOfRange(u32),
}

impl DecodeError {
    /// Names of the counters for drops, indexed by [`DecodeError::number`].
    pub const LABELS: [&'static str; 20] = [
        "truncated",
        "trailing_octets",
        "non_minimal_number",
        "bad_type",
        "length_too_large",
        "bad_integer",
        "bad_length",
        "unexpected_type",
        "missing_element",
        "unknown_critical",
        "repeated_element",
        "bad_component_type",
        "bad_digest_length",
        "too_many_components",
        "empty_name",
        "bad_name",
        "missing_parameters_digest",
        "bad_uri",
        "bad_text",
        "out_of_range",
    ];

    /// Returns the name of the counter for drops with this reason.
    pub fn label(&self) -> &'static str {
        Self::LABELS[self.number()]
    }

    /// Returns the index of the variant, for counters in an array. The TYPE in a variant does not
    /// change it.
    pub fn number(&self) -> usize {
        match self {
            DecodeError::Truncated => 0,
            DecodeError::TrailingOctets => 1,
            DecodeError::NonMinimalNumber => 2,
            DecodeError::BadType => 3,
            DecodeError::LengthTooLarge => 4,
            DecodeError::BadInteger => 5,
            DecodeError::BadLength(_) => 6,
            DecodeError::UnexpectedType(_) => 7,
            DecodeError::Missing(_) => 8,
            DecodeError::UnknownCritical(_) => 9,
            DecodeError::Repeated(_) => 10,
            DecodeError::BadComponentType => 11,
            DecodeError::BadDigestLength => 12,
            DecodeError::TooManyComponents => 13,
            DecodeError::EmptyName => 14,
            DecodeError::BadName => 15,
            DecodeError::MissingParametersDigest => 16,
            DecodeError::BadUri | DecodeError::NoSlash => 17,
            DecodeError::BadText => 18,
            DecodeError::OutOfRange(_) => 19,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("the input ends inside an element"),
            DecodeError::TrailingOctets => f.write_str("octets remain after the packet"),
            DecodeError::NonMinimalNumber => f.write_str("a TYPE or LENGTH is not in its shortest form"),
            DecodeError::BadType => f.write_str("TYPE 0 or above 2^32-1"),
            DecodeError::LengthTooLarge => f.write_str("a LENGTH exceeds the packet limit"),
            DecodeError::BadInteger => f.write_str("an integer is not 1, 2, 4 or 8 octets long"),
            DecodeError::BadLength(t) => write!(f, "element of TYPE {t} has a wrong length"),
            DecodeError::UnexpectedType(t) => write!(f, "unexpected TYPE {t}"),
            DecodeError::Missing(t) => write!(f, "element of TYPE {t} is missing"),
            DecodeError::UnknownCritical(t) => {
                write!(f, "critical element of TYPE {t} is unknown or out of order")
            }
            DecodeError::Repeated(t) => write!(f, "element of TYPE {t} is repeated"),
            DecodeError::BadComponentType => f.write_str("a name component's TYPE is outside 1..65535"),
            DecodeError::BadDigestLength => f.write_str("a digest component is not 32 octets long"),
            DecodeError::TooManyComponents => f.write_str("the name has too many components"),
            DecodeError::EmptyName => f.write_str("an Interest needs at least one name component"),
            DecodeError::BadName => f.write_str("the name is not of the form that this packet asks for"),
            DecodeError::MissingParametersDigest => {
                f.write_str("ApplicationParameters without a parameters digest in the name")
            }
            DecodeError::BadUri => f.write_str("not a name URI"),
            DecodeError::NoSlash => f.write_str("a name begins with a slash"),
            DecodeError::BadText => f.write_str("text in the wrong form"),
            DecodeError::OutOfRange(t) => write!(f, "the number in TYPE {t} is out of range"),
        }
    }
}

impl core::error::Error for DecodeError {}
