//! The row format: a compact binary encoding of typed columns.
//!
//! ```text
//! fixed columns, in column order: INT 4, BIGINT 8, DOUBLE 8 bytes, little-endian
//! for each text column, in column order: u16, the offset of its end in the text area
//! text area: the text columns, one after the other
//! ```
//!
//! CHAR(n) is stored without trailing blanks, as the SQL standard lets one read it back; n is
//! checked when a row is built. Columns that are part of the primary key are in the key and not in
//! the row. Reading is bounds-checked: bytes that are no row of the schema give an error that names
//! the column.

use holdfast_base::codec::{get_u16, get_u32, get_u64};

use crate::{Failure, Result};

/// A column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// INT UNSIGNED.
    Int,
    /// BIGINT; also DECIMAL, scaled to an integer.
    BigInt,
    /// DOUBLE.
    Double,
    /// CHAR(n): trailing blanks are not stored.
    Char(u16),
    /// VARCHAR(n).
    Varchar(u16),
}

impl Type {
    /// Bytes among the fixed columns; `None` for text.
    const fn width(self) -> Option<usize> {
        match self {
            Type::Int => Some(4),
            Type::BigInt | Type::Double => Some(8),
            Type::Char(_) | Type::Varchar(_) => None,
        }
    }
}

/// The position of a column's value.
#[derive(Clone, Copy, Debug)]
enum Place {
    Fixed(usize),
    Text(usize),
}

/// The columns of a table that are stored in its rows.
#[derive(Clone, Debug)]
pub struct Schema {
    columns: Vec<(&'static str, Type)>,
    places: Vec<Place>,
    texts: usize,
    fixed_len: usize,
}

/// A column's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An INT UNSIGNED.
    Int(u32),
    /// A BIGINT.
    BigInt(i64),
    /// A DOUBLE.
    Double(f64),
    /// A CHAR or VARCHAR.
    Text(&'a [u8]),
}

impl Schema {
    /// A table with these columns.
    #[must_use]
    pub fn new(columns: &[(&'static str, Type)]) -> Schema {
        let (mut fixed_len, mut texts) = (0, 0);
        let places = columns
            .iter()
            .map(|(_, ty)| match ty.width() {
                Some(width) => {
                    fixed_len += width;
                    Place::Fixed(fixed_len - width)
                }
                None => {
                    texts += 1;
                    Place::Text(texts - 1)
                }
            })
            .collect();
        Schema { columns: columns.to_vec(), places, texts, fixed_len }
    }

    /// Names and types, in order.
    #[must_use]
    pub fn columns(&self) -> &[(&'static str, Type)] {
        &self.columns
    }

    /// Encodes `values`, one per column, into `out` (cleared first).
    ///
    /// # Panics
    /// If the values are not those of the columns: the generator is wrong.
    pub fn encode(&self, values: &[Value<'_>], out: &mut Vec<u8>) {
        assert_eq!(values.len(), self.columns.len(), "one value per column");
        out.clear();
        for (value, (name, ty)) in values.iter().zip(&self.columns) {
            match (value, ty) {
                (Value::Int(v), Type::Int) => out.extend_from_slice(&v.to_le_bytes()),
                (Value::BigInt(v), Type::BigInt) => out.extend_from_slice(&v.to_le_bytes()),
                (Value::Double(v), Type::Double) => out.extend_from_slice(&v.to_le_bytes()),
                (Value::Text(v), Type::Char(max) | Type::Varchar(max)) => {
                    assert!(v.len() <= usize::from(*max), "{name} takes {max} bytes, not {}", v.len());
                }
                _ => panic!("column {name} is a {ty:?}, not a {value:?}"),
            }
        }
        let texts = || values.iter().zip(&self.columns).filter_map(|(v, (_, ty))| stored_text(v, *ty));
        let mut end = 0usize;
        for text in texts() {
            end += text.len();
            let end = u16::try_from(end).expect("the text of a row is below 64 KiB");
            out.extend_from_slice(&end.to_le_bytes());
        }
        texts().for_each(|text| out.extend_from_slice(text));
    }

    /// Reads rows of this table.
    #[must_use]
    pub fn read<'a>(&'a self, row: &'a [u8]) -> Row<'a> {
        Row { schema: self, bytes: row }
    }
}

fn stored_text<'a>(value: &Value<'a>, ty: Type) -> Option<&'a [u8]> {
    let Value::Text(text) = value else { return None };
    let blanks = match ty {
        Type::Char(_) => text.iter().rev().take_while(|&&b| b == b' ').count(),
        _ => 0,
    };
    Some(&text[..text.len() - blanks])
}

/// A row whose columns are decoded on demand.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    schema: &'a Schema,
    bytes: &'a [u8],
}

impl<'a> Row<'a> {
    /// Decodes column `column`, counted from 0.
    ///
    /// # Errors
    /// [`Failure::Fatal`] if the bytes are no row of the schema.
    #[inline]
    pub fn value(&self, column: usize) -> Result<Value<'a>> {
        self.decode(column).ok_or_else(|| self.broken(column))
    }

    /// Decodes an INT column.
    ///
    /// # Errors
    /// The errors of [`Row::value`].
    #[inline]
    pub fn int(&self, column: usize) -> Result<u32> {
        match self.value(column)? {
            Value::Int(v) => Ok(v),
            _ => Err(self.broken(column)),
        }
    }

    /// Decodes a DOUBLE column.
    ///
    /// # Errors
    /// The errors of [`Row::value`].
    #[inline]
    pub fn double(&self, column: usize) -> Result<f64> {
        match self.value(column)? {
            Value::Double(v) => Ok(v),
            _ => Err(self.broken(column)),
        }
    }

    /// Decodes a CHAR or VARCHAR column.
    ///
    /// # Errors
    /// The errors of [`Row::value`].
    #[inline]
    pub fn text(&self, column: usize) -> Result<&'a [u8]> {
        match self.value(column)? {
            Value::Text(v) => Ok(v),
            _ => Err(self.broken(column)),
        }
    }

    fn decode(&self, column: usize) -> Option<Value<'a>> {
        match (self.schema.places.get(column)?, self.schema.columns[column].1) {
            (Place::Fixed(at), Type::Int) => get_u32(self.bytes, *at).map(Value::Int),
            (Place::Fixed(at), Type::BigInt) => get_u64(self.bytes, *at).map(|v| Value::BigInt(v as i64)),
            (Place::Fixed(at), _) => get_u64(self.bytes, *at).map(|v| Value::Double(f64::from_bits(v))),
            (Place::Text(n), _) => {
                let ends = self.schema.fixed_len;
                let area = ends + 2 * self.schema.texts;
                let start = if *n == 0 { 0 } else { usize::from(get_u16(self.bytes, ends + 2 * (n - 1))?) };
                let end = usize::from(get_u16(self.bytes, ends + 2 * n)?);
                self.bytes.get(area + start..area + end).map(Value::Text)
            }
        }
    }

    fn broken(&self, column: usize) -> Failure {
        let name = self.schema.columns.get(column).map_or("?", |c| c.0);
        Failure::fatal(format_args!("column {name} cannot be decoded from a row of {} bytes", self.bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let columns = [("a", Type::Char(8)), ("n", Type::Int), ("b", Type::Varchar(8)), ("d", Type::Double)];
        Schema::new(&columns)
    }

    #[test]
    fn columns_come_back() {
        let schema = schema();
        let mut bytes = Vec::new();
        let values = [Value::Text(b"left  "), Value::Int(7), Value::Text(b"right "), Value::Double(1.5)];
        schema.encode(&values, &mut bytes);
        let row = schema.read(&bytes);
        assert_eq!(row.text(0).unwrap(), b"left", "CHAR loses its trailing blanks");
        assert_eq!(row.int(1).unwrap(), 7);
        assert_eq!(row.text(2).unwrap(), b"right ");
        assert_eq!(row.double(3).unwrap(), 1.5);
    }

    #[test]
    fn cut_rows_give_an_error_that_names_the_column() {
        let schema = schema();
        let mut bytes = Vec::new();
        schema.encode(&[Value::Text(b"x"), Value::Int(7), Value::Text(b"y"), Value::Double(0.0)], &mut bytes);
        for len in 0..bytes.len() {
            let row = schema.read(&bytes[..len]);
            assert!(row.text(2).unwrap_err().to_string().contains("column b"));
        }
        assert!(schema.read(&bytes).int(0).is_err());
    }
}
