//! The fields of management's blocks. Each kind of value is decoded and encoded in one place.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use namely_wire::DecodeError;
use namely_wire::fields::Fields;
use namely_wire::tlv::Writer;
use namely_wire::types::NAME;
use namely_wire::{Name, NameRef};

/// A value that a block encodes in elements of one TYPE.
pub(super) trait Field: Sized {
    /// Reads the value from the block's elements of TYPE `typ`.
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError>;

    /// Appends the value's elements.
    fn write(&self, w: &mut Writer, typ: u32);
}

impl Field for u64 {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        fields.nni(typ)
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        w.nni(typ, *self);
    }
}

/// True if the empty element is present.
impl Field for bool {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        Ok(fields.find(typ).is_some())
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        if *self {
            w.tlv(typ, &[]);
        }
    }
}

impl Field for String {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        fields.text(typ)
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        w.tlv(typ, self.as_bytes());
    }
}

impl Field for Cow<'static, str> {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        fields.text(typ).map(Cow::Owned)
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        w.tlv(typ, self.as_bytes());
    }
}

/// A Name element, or a Name inside an element of another TYPE, such as Strategy.
impl Field for Name {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        let tlv = fields.find(typ).ok_or(DecodeError::Missing(typ))?;
        if typ == NAME {
            return Ok(NameRef::parse_value(tlv.value)?.to_name());
        }
        Fields::lenient(tlv.value)?.name()
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        if typ == NAME {
            self.as_name().encode(w);
        } else {
            w.nested(typ, |w| self.as_name().encode(w));
        }
    }
}

/// Octets that are not interpreted here; empty if the element is absent.
impl Field for Vec<u8> {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        Ok(fields.find(typ).map(|tlv| tlv.value.to_vec()).unwrap_or_default())
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        w.tlv(typ, self);
    }
}

impl Field for Vec<u64> {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        fields.all(typ).map(|tlv| tlv.nni()).collect()
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        self.iter().for_each(|number| number.write(w, typ));
    }
}

impl Field for Vec<String> {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        let text = |value: &[u8]| core::str::from_utf8(value).map(String::from);
        fields.all(typ).map(|tlv| text(tlv.value).map_err(|_| DecodeError::BadText)).collect()
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        self.iter().for_each(|text| text.write(w, typ));
    }
}

impl Field for Vec<Name> {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        fields.all(typ).map(|tlv| NameRef::parse(tlv.value).map(|name| name.to_name())).collect()
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        self.iter().for_each(|name| name.write(w, typ));
    }
}

/// Blocks in elements of the given TYPE, which replaces [`Block::TYPE`].
impl<T: Block> Field for Vec<T> {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        fields.all(typ).map(|tlv| T::decode_value(tlv.value)).collect()
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        self.iter().for_each(|block| _ = w.nested(typ, |w| block.encode_value(w)));
    }
}

impl<T: Field> Field for Option<T> {
    fn read(fields: &Fields<'_>, typ: u32) -> Result<Self, DecodeError> {
        fields.find(typ).map(|_| T::read(fields, typ)).transpose()
    }

    fn write(&self, w: &mut Writer, typ: u32) {
        self.iter().for_each(|value| value.write(w, typ));
    }
}

/// Implements [`Field`] for closed sets of numbers, which have `number` and `from_number`.
macro_rules! choice_field {
    ($($name:ty),*) => {$(
        impl $crate::field::Field for $name {
            fn read(fields: &namely_wire::fields::Fields<'_>, typ: u32) -> Result<Self, namely_wire::DecodeError> {
                fields.choice(typ, Self::from_number)
            }

            fn write(&self, w: &mut namely_wire::tlv::Writer, typ: u32) {
                w.nni(typ, self.number());
            }
        }
    )*};
}

/// Declares a block: a struct, its [`Block`] and its [`Field`]. Each line has a field, its type,
/// and the TYPE of its elements, in the order of encoding. The elements of a field with `default`
/// may be absent. A field with `number` is a bool that is encoded as a number.
///
/// An unknown element is ignored, so that an older receiver can read the reports of a newer sender.
/// A `strict` block refuses an unknown element of a critical TYPE, because a command must not be
/// executed in part. A struct without a TYPE has no element around it, so it has only the functions
/// `decode_value` and `encode_value`.
macro_rules! block {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $typ:ident {
            $($(#[$doc:meta])* pub $field:ident: $kind:ty = $number:ident $(, $mode:ident)?;)*
        }
    ) => {
        block!(@struct $(#[$meta])* $name { $($(#[$doc])* $field: $kind,)* });
        block!(@block $name, $typ, lenient(&[]), { $($field, $kind, $number, ($($mode)?);)* });
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident: strict $typ:ident {
            $($(#[$doc:meta])* pub $field:ident: $kind:ty = $number:ident;)*
        }
    ) => {
        block!(@struct $(#[$meta])* $name { $($(#[$doc])* $field: $kind,)* });
        block!(@block $name, $typ, strict(&[$($number),*]), { $($field, $kind, $number, ();)* });
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $kind:ty = $number:ident $(, $mode:ident)?;)*
        }
    ) => {
        block!(@struct $(#[$meta])* $name { $($(#[$doc])* $field: $kind,)* });
        impl $name {
            block!(@functions $name, lenient(&[]), { $($field, $kind, $number, ($($mode)?);)* });
        }
    };
    (@struct $(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }
    };
    (@block $name:ident, $typ:ident, $how:ident($known:expr), {
        $($field:ident, $kind:ty, $number:ident, ($($mode:ident)?);)*
    }) => {
        impl $crate::Block for $name {
            const TYPE: u32 = $typ;

            block!(@functions $name, $how($known), { $($field, $kind, $number, ($($mode)?);)* });
        }

        impl $crate::field::Field for $name {
            fn read(fields: &namely_wire::fields::Fields<'_>, typ: u32) -> Result<Self, namely_wire::DecodeError> {
                let tlv = fields.find(typ).ok_or(namely_wire::DecodeError::Missing(typ))?;
                $crate::Block::decode_value(tlv.value)
            }

            fn write(&self, w: &mut namely_wire::tlv::Writer, typ: u32) {
                w.nested(typ, |w| $crate::Block::encode_value(self, w));
            }
        }
    };
    (@functions $name:ident, $how:ident($known:expr), {
        $($field:ident, $kind:ty, $number:ident, ($($mode:ident)?);)*
    }) => {
        fn decode_value(value: &[u8]) -> Result<Self, namely_wire::DecodeError> {
            let fields = block!(@fields value, $how, $known)?;
            Ok($name { $($field: block!(@read fields, $kind, $number, $($mode)?)?,)* })
        }

        fn encode_value(&self, w: &mut namely_wire::tlv::Writer) {
            $(block!(@write w, self.$field, $number, $($mode)?);)*
        }
    };
    (@fields $value:ident, lenient, $known:expr) => { namely_wire::fields::Fields::lenient($value) };
    (@fields $value:ident, strict, $known:expr) => { namely_wire::fields::Fields::strict($value, $known) };
    (@read $fields:ident, $kind:ty, $number:ident,) => {
        <$kind as $crate::field::Field>::read(&$fields, $number)
    };
    (@read $fields:ident, $kind:ty, $number:ident, default) => {
        <Option<$kind> as $crate::field::Field>::read(&$fields, $number).map(Option::unwrap_or_default)
    };
    (@read $fields:ident, $kind:ty, $number:ident, number) => {
        $fields.nni_opt($number).map(|number| number.unwrap_or_default() != 0)
    };
    (@write $w:ident, $value:expr, $number:ident, number) => { $w.nni($number, u64::from($value)) };
    (@write $w:ident, $value:expr, $number:ident, $(default)?) => {
        $crate::field::Field::write(&$value, $w, $number)
    };
}

pub(super) use {block, choice_field};
