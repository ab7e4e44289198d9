//! Reads plain data into a type, and notes where it could not, and which fields nobody asked for.
//!
//! In: a value of JSON or YAML. Out: the type, or why not; with the path of the fault and of every unknown field. One
//! reader of our own, and not a chain of wrappers: Kubernetes' types are many, and each wrapper is compiled for each.

use std::fmt::Display;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde_json::{Error, Value};

use crate::path::{FieldPath, Segment};

/// What was noticed while a value was read.
#[derive(Default)]
pub(crate) struct Notes {
    /// Where the reader is.
    path: FieldPath,
    /// The innermost field that could not be read.
    pub(crate) fault: FieldPath,
    failed: bool,
    pub(crate) unknown: Vec<FieldPath>,
}

impl Notes {
    fn inside<T>(
        &mut self,
        step: Segment,
        read: impl FnOnce(&mut Notes) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.path.push(step);
        let result = read(self);
        if result.is_err() && !self.failed {
            self.failed = true;
            self.fault = self.path.clone();
        }
        self.path.pop();
        result
    }
}

/// Reads `value`; the notes hold also when it fails.
pub(crate) fn read<'de, T: Deserialize<'de>>(value: &'de Value) -> (Result<T, Error>, Notes) {
    let mut notes = Notes::default();
    let result = T::deserialize(Reader {
        value,
        notes: &mut notes,
    });
    (result, notes)
}

/// Reads an object as an API server has it: what it has more than the type is left out.
pub fn from_plain<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, Error> {
    read(value).0
}

struct Reader<'de, 'n> {
    value: &'de Value,
    notes: &'n mut Notes,
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Error;

    /// Data says itself what it is; a visitor that expected something else says so.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => visitor.visit_seq(Elements {
                left: elements.iter().enumerate(),
                notes: self.notes,
            }),
            Value::Object(fields) => visitor.visit_map(Fields {
                left: fields.iter(),
                value: None,
                notes: self.notes,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::String(name) => visitor.visit_enum(Variant(name)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.notes.unknown.push(self.notes.path.clone());
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

struct Fields<'de, 'n> {
    left: serde_json::map::Iter<'de>,
    /// The key that was read last, and what is there.
    value: Option<(&'de str, &'de Value)>,
    notes: &'n mut Notes,
}

impl<'de> MapAccess<'de> for Fields<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.left.next() else {
            return Ok(None);
        };
        self.value = Some((key, value));
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (key, value) = self.value.take().ok_or_else(|| bug("a value before its key"))?;
        self.notes.inside(Segment::Key(key.to_owned()), |notes| {
            seed.deserialize(Reader { value, notes })
        })
    }
}

struct Elements<'de, 'n> {
    left: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    notes: &'n mut Notes,
}

impl<'de> SeqAccess<'de> for Elements<'de, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((index, value)) = self.left.next() else {
            return Ok(None);
        };
        self.notes
            .inside(Segment::Index(index), |notes| {
                seed.deserialize(Reader { value, notes })
            })
            .map(Some)
    }
}

/// A variant by its name alone: manifests have no others.
struct Variant<'de>(&'de str);

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name = seed.deserialize(BorrowedStrDeserializer::new(self.0))?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Error> {
        Err(bug("a variant with a value"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(bug("a variant with values"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(bug("a variant with fields"))
    }
}

fn bug(what: impl Display) -> Error {
    serde::de::Error::custom(format_args!("{what} cannot be read"))
}
