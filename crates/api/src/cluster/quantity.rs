//! Kubernetes quantities: `50Mi`, `1.5G`, `200m`, `1e3`, `1073741824`.
//!
//! In: the text (or plain number) of a manifest, kept as written. Out: whole units rounded up, or thousandths.
//! Never: a silent overflow or a rounding down, which would ask for less than was written.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A quantity as written; it is judged when it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity(String);

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadQuantity {
    /// Not a number, or an unknown unit after it.
    #[error("not a number with an optional unit")]
    Form,
    #[error("negative")]
    Negative,
    /// Beyond what can be counted.
    #[error("too large")]
    TooLarge,
}

impl Quantity {
    /// A quantity from its text.
    pub fn new(text: impl Into<String>) -> Quantity {
        Quantity(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whole units (bytes, cores), rounded up.
    pub fn units(&self) -> Result<u64, BadQuantity> {
        self.scaled(0)
    }

    /// Thousandths of a unit, rounded up.
    pub fn thousandths(&self) -> Result<u64, BadQuantity> {
        self.scaled(3)
    }

    /// The value times 10^`decimals`, rounded up.
    fn scaled(&self, decimals: i32) -> Result<u64, BadQuantity> {
        let (digits, exponent, binary) = self.split()?;
        let shifted = |value: u128, by: u32| {
            10u128
                .checked_pow(by)
                .and_then(|factor| value.checked_mul(factor))
                .ok_or(BadQuantity::TooLarge)
        };
        let value = digits.checked_mul(1u128 << binary).ok_or(BadQuantity::TooLarge)?;
        let exponent = exponent + decimals;
        let value = if value == 0 {
            0
        } else if exponent >= 0 {
            shifted(value, exponent.unsigned_abs())?
        } else {
            // Beyond u128 the divisor dwarfs any value: what is left rounds up to one.
            10u128
                .checked_pow(exponent.unsigned_abs())
                .map_or(1, |divisor| value.div_ceil(divisor))
        };
        u64::try_from(value).map_err(|_| BadQuantity::TooLarge)
    }

    /// Digits without the point, the power of ten and the power of two they are multiplied by.
    fn split(&self) -> Result<(u128, i32, u32), BadQuantity> {
        let text = self.0.as_str();
        let (negative, text) = match text.as_bytes() {
            [b'-', ..] => (true, &text[1..]),
            [b'+', ..] => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(BadQuantity::Form);
        }
        let (ten, two) = unit_of(unit).ok_or(BadQuantity::Form)?;
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let digits: u128 = if digits.is_empty() {
            0
        } else {
            digits.parse().map_err(|_| BadQuantity::TooLarge)?
        };
        if negative && digits != 0 {
            return Err(BadQuantity::Negative);
        }
        let places = i32::try_from(fraction.len()).map_err(|_| BadQuantity::TooLarge)?;
        Ok((digits, ten - places, two))
    }
}

/// The powers of ten and of two that a unit stands for.
fn unit_of(unit: &str) -> Option<(i32, u32)> {
    Some(match unit {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => {
            let power = unit.strip_prefix(['e', 'E'])?;
            let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
            if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (power.parse().ok()?, 0)
        }
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        struct TextOrNumber;
        impl Visitor<'_> for TextOrNumber {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 50Mi, 1.5G or 200m")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity::new(text))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity::new(number.to_string()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity::new(number.to_string()))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity::new(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values() {
        let table = [
            ("0", Ok(0)),
            ("1", Ok(1)),
            ("+5", Ok(5)),
            ("007", Ok(7)),
            ("1Ki", Ok(1024)),
            ("50Mi", Ok(52_428_800)),
            ("80Gi", Ok(85_899_345_920)),
            ("2Ti", Ok(2_199_023_255_552)),
            ("1.5Gi", Ok(1_610_612_736)),
            (".5Ki", Ok(512)),
            ("5.Ki", Ok(5120)),
            ("1k", Ok(1000)),
            ("1M", Ok(1_000_000)),
            ("3G", Ok(3_000_000_000)),
            ("1T", Ok(1_000_000_000_000)),
            ("1e3", Ok(1000)),
            ("1E3", Ok(1000)),
            ("12e-1", Ok(2)),
            ("1E", Ok(1_000_000_000_000_000_000)),
            ("200m", Ok(1)),
            ("2000m", Ok(2)),
            ("0.1", Ok(1)),
            ("1n", Ok(1)),
            ("1e-300", Ok(1)),
            ("0e300", Ok(0)),
            ("-0", Ok(0)),
            ("-1", Err(BadQuantity::Negative)),
            ("-5Gi", Err(BadQuantity::Negative)),
            ("16Ei", Err(BadQuantity::TooLarge)),
            ("1e100", Err(BadQuantity::TooLarge)),
            (
                "99999999999999999999999999999999999999999",
                Err(BadQuantity::TooLarge),
            ),
            ("", Err(BadQuantity::Form)),
            ("-", Err(BadQuantity::Form)),
            (".", Err(BadQuantity::Form)),
            ("1.2.3", Err(BadQuantity::Form)),
            ("Gi", Err(BadQuantity::Form)),
            ("5GB", Err(BadQuantity::Form)),
            ("5gi", Err(BadQuantity::Form)),
            ("5K", Err(BadQuantity::Form)),
            ("5 Gi", Err(BadQuantity::Form)),
            ("1e", Err(BadQuantity::Form)),
            ("1e9999", Err(BadQuantity::Form)),
            ("five", Err(BadQuantity::Form)),
        ];
        for (text, expected) in table {
            assert_eq!(Quantity::new(text).units(), expected, "{text:?}");
        }
        assert_eq!(Quantity::new("200m").thousandths(), Ok(200));
        assert_eq!(Quantity::new("1.5").thousandths(), Ok(1500));
        assert_eq!(Quantity::new("100u").thousandths(), Ok(1));
    }

    proptest! {
        #[test]
        fn any_text_is_judged_without_a_panic(text in ".{0,40}") {
            let _ = Quantity::new(text.clone()).units();
            let _ = Quantity::new(text).thousandths();
        }

        #[test]
        fn number_like_texts_too(text in "[-+]?[0-9.]{0,45}([eE][-+]?[0-9]{0,4}|[KMGTPE]i?|[numk])?") {
            let _ = Quantity::new(text.clone()).units();
            let _ = Quantity::new(text).thousandths();
        }

        #[test]
        fn whole_numbers_are_themselves(number: u64) {
            prop_assert_eq!(Quantity::new(number.to_string()).units(), Ok(number));
        }
    }
}
