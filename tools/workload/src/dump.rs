//! The load of `mysqldump`: it walks a table in key order and writes every row as text.
//!
//! The rows become multi-row INSERT statements of up to about a megabyte each (`--extended-insert`
//! with the default `net_buffer_length`), with text values escaped byte by byte. The statements go
//! to a sink that counts and checksums them, so that no work can be left out and two dumps of the
//! same data can be compared.

use holdfast_base::checksum_append;

use crate::row::{Schema, Value};
use crate::sysbench::id_of;
use crate::{Failure, Result, Rows, Scan, TableNo};

/// Bytes after which a new INSERT statement begins, as mysqldump's default.
pub const STATEMENT_LEN: usize = 1_046_528;

/// The output of a dump so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// INSERT statements.
    pub statements: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// CRC-32C of the text.
    pub checksum: u32,
}

/// Formats rows of one table as INSERT statements.
#[derive(Debug)]
pub struct Formatter {
    table: String,
    schema: Schema,
    statement: Vec<u8>,
    written: Written,
}

impl Formatter {
    /// Creates the formatter of the table `table`, whose key is an INT `id` and whose other columns
    /// are `schema`.
    #[must_use]
    pub fn new(table: &str, schema: Schema) -> Formatter {
        Formatter {
            table: table.to_owned(),
            schema,
            statement: Vec::with_capacity(STATEMENT_LEN + 1024),
            written: Written::default(),
        }
    }

    /// Adds a row. True if the row filled a statement, which is then in the sink.
    ///
    /// # Errors
    /// [`Failure::Fatal`] if the bytes are no row of the table.
    pub fn row(&mut self, key: &[u8], row: &[u8]) -> Result<bool> {
        let out = &mut self.statement;
        if out.is_empty() {
            out.extend_from_slice(b"INSERT INTO `");
            out.extend_from_slice(self.table.as_bytes());
            out.extend_from_slice(b"` VALUES (");
        } else {
            out.extend_from_slice(b",(");
        }
        push_decimal(out, u64::from(id_of(key)?));
        let row = self.schema.read(row);
        for column in 0..self.schema.columns().len() {
            out.push(b',');
            match row.value(column)? {
                Value::Int(v) => push_decimal(out, u64::from(v)),
                Value::BigInt(v) => {
                    if v < 0 {
                        out.push(b'-');
                    }
                    push_decimal(out, v.unsigned_abs());
                }
                Value::Double(v) => out.extend_from_slice(v.to_string().as_bytes()),
                Value::Text(text) => push_quoted(out, text),
            }
        }
        out.push(b')');
        self.written.rows += 1;
        if out.len() >= STATEMENT_LEN {
            self.end_statement();
            return Ok(true);
        }
        Ok(false)
    }

    /// Ends the dump: writes the last statement to the sink.
    pub fn finish(&mut self) -> Written {
        if !self.statement.is_empty() {
            self.end_statement();
        }
        self.written
    }

    /// The output so far; rows count at once.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    fn end_statement(&mut self) {
        self.statement.extend_from_slice(b";\n");
        self.written.statements += 1;
        self.written.bytes += self.statement.len() as u64;
        self.written.checksum = checksum_append(self.written.checksum, &self.statement);
        self.statement.clear();
    }
}

fn push_decimal(out: &mut Vec<u8>, mut v: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (v % 10) as u8;
        v /= 10;
        if v == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The character after the backslash for a byte that must be escaped; 0 for a byte that need not.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    escapes[0] = b'0';
    escapes[b'\n' as usize] = b'n';
    escapes[b'\r' as usize] = b'r';
    escapes[0x1a] = b'Z';
    escapes[b'\\' as usize] = b'\\';
    escapes[b'\'' as usize] = b'\'';
    escapes[b'"' as usize] = b'"';
    escapes
};

/// Appends a quoted SQL string, escaped as by `mysql_real_escape_string`. Parts without escapes are
/// copied at once, so that the dump's client takes little of the measured time.
fn push_quoted(out: &mut Vec<u8>, mut text: &[u8]) {
    out.push(b'\'');
    while let Some(at) = text.iter().position(|&byte| ESCAPES[usize::from(byte)] != 0) {
        out.extend_from_slice(&text[..at]);
        out.extend_from_slice(&[b'\\', ESCAPES[usize::from(text[at])]]);
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
    out.push(b'\'');
}

/// Dumps `table` once, in one transaction (`--single-transaction`). `after_row` is called after
/// every row with the output so far; if it returns `false`, the dump ends early.
///
/// # Errors
/// The errors of the store, and [`Failure::Fatal`] for rows that cannot be decoded.
pub fn dump(
    rows: &mut dyn Rows,
    table: TableNo,
    formatter: &mut Formatter,
    scan: Scan,
    after_row: &mut dyn FnMut(&Written) -> bool,
) -> Result<Written> {
    rows.begin(true)?;
    let result = rows.range(table, None, None, scan, &mut |key, row| {
        formatter.row(key, row)?;
        Ok(after_row(&formatter.written()))
    });
    match result {
        Ok(()) => rows.commit()?,
        Err(Failure::Retry(why)) => return Err(Failure::fatal(format_args!("the dump's snapshot was lost: {why}"))),
        Err(failure) => return Err(failure),
    }
    Ok(formatter.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Type;
    use crate::sysbench;

    #[test]
    fn text_is_escaped_as_mysqldump_does() {
        let mut out = Vec::new();
        push_quoted(&mut out, b"a'b\\c\"d\ne\0f\x1ag\rh");
        assert_eq!(out, br#"'a\'b\\c\"d\ne\0f\Zg\rh'"#);
    }

    #[test]
    fn rows_become_one_statement() {
        let schema = Schema::new(&[("n", Type::BigInt), ("d", Type::Double), ("t", Type::Varchar(9))]);
        let mut row = Vec::new();
        schema.encode(&[Value::BigInt(-12), Value::Double(0.5), Value::Text(b"x")], &mut row);
        let mut f = Formatter::new("t", schema);
        f.row(&sysbench::key(1), &row).unwrap();
        f.row(&sysbench::key(20), &row).unwrap();
        assert_eq!(f.statement, b"INSERT INTO `t` VALUES (1,-12,0.5,'x'),(20,-12,0.5,'x')");
        let written = f.finish();
        assert_eq!((written.rows, written.statements), (2, 1));
    }

    #[test]
    fn long_dumps_are_cut_into_statements_and_checksummed() {
        let mut f = Formatter::new("sbtest1", sysbench::schema());
        let mut filled = 0;
        sysbench::generate::<Failure>(1, 20_000, 1..=20_000, |key, row| {
            filled += u64::from(f.row(key, row)?);
            Ok(())
        })
        .unwrap();
        let written = f.finish();
        assert_eq!((written.rows, written.statements), (20_000, filled + 1));
        assert!(written.bytes > 3 * STATEMENT_LEN as u64, "{written:?}");
        assert_ne!(written.checksum, 0);
        assert!(f.row(b"no key", b"").is_err());
    }
}
