//! Types of columns, and values of them: few of each, so that rows meet, and those at which keys
//! and rows go wrong.

use holdfast_workload::rng::Rng;

use super::super::script::WITH_EXPANSIONS;
use super::dice::Dice;

/// A character set with one of its collations.
pub type Collation = (&'static str, &'static str);

/// With contractions, expansions, several levels, without padding, of several widths.
const COLLATIONS: [Collation; 18] = [
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb4", "utf8mb4_unicode_ci"),
    ("utf8mb4", "utf8mb4_bin"),
    ("utf8mb4", "utf8mb4_nopad_bin"),
    ("utf8mb4", "utf8mb4_unicode_520_nopad_ci"),
    ("utf8mb4", "utf8mb4_czech_ci"),
    ("utf8mb4", "utf8mb4_german2_ci"),
    ("utf8mb4", "utf8mb4_uca1400_ai_ci"),
    ("utf8mb3", "utf8mb3_danish_ci"),
    ("utf8mb3", "utf8mb3_general_nopad_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("latin1", "latin1_german2_ci"),
    ("latin1", "latin1_nopad_bin"),
    ("latin2", "latin2_czech_cs"),
    ("cp1250", "cp1250_czech_cs"),
    ("ucs2", "ucs2_unicode_ci"),
    ("utf16", "utf16_general_ci"),
    ("sjis", "sjis_japanese_ci"),
];

const TEXTS: [&str; 34] = [
    "", " ", "a", "A", "a ", "a  ", "a\\0", "a\\t", "ab", "aB", "abc", "abd", "b", "B ", "c", "ch", "cH", "h", "d",
    "ä", "ae", "á", "ß", "ss", "s", "aa", "å", "z", "zz", "Ž", "0", "-1", "x'y", "\\\\",
];
const BYTES: [&str; 12] = ["", "00", "0000", "01", "0100", "20", "61", "6120", "6161", "7f", "FF", "FF00"];
const MEMBERS: [&str; 5] = ["a", "B", "ch", "x y", "z"];

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Int { name: &'static str, bits: u32, unsigned: bool },
    Decimal(u8, u8),
    Float,
    Double,
    Bit(u8),
    Year,
    Date,
    Time(u8),
    DateTime(u8),
    Timestamp(u8),
    Char(u64, Collation),
    VarChar(u64, Collation),
    Binary(u64),
    VarBinary(u64),
    Text(&'static str, Collation),
    Blob(&'static str),
    Enum(Collation),
    Set(Collation),
    Uuid,
    Inet6,
    Json,
}

const INTS: [(&str, u32); 5] = [("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)];

impl Kind {
    /// Any type.
    pub fn any(rng: &mut Rng) -> Kind {
        let digits = [0, 0, 1, 3, 6][rng.below(5) as usize];
        match rng.below(26) {
            0..=6 => Kind::int(rng),
            7 => Kind::Decimal(*rng.one_of(&[3, 10, 25]), *rng.one_of(&[0, 2, 3])),
            8 => [Kind::Float, Kind::Double][rng.below(2) as usize].clone(),
            9 => Kind::Bit(*rng.one_of(&[1, 7, 8, 13, 64])),
            10 => [Kind::Year, Kind::Date][rng.below(2) as usize].clone(),
            11 => [Kind::Time(digits), Kind::Timestamp(digits)][rng.below(2) as usize].clone(),
            12 => Kind::DateTime(digits),
            13..=14 => Kind::Char(*rng.one_of(&[1, 2, 5, 20]), *rng.one_of(&COLLATIONS)),
            15..=18 => Kind::VarChar(*rng.one_of(&[2, 5, 20, 60, 300]), *rng.one_of(&COLLATIONS)),
            19 => Kind::Binary(*rng.one_of(&[1, 3, 16])),
            20 => Kind::VarBinary(*rng.one_of(&[2, 10, 60, 300])),
            21..=22 => Kind::Text(rng.one_of::<&str>(&["TINYTEXT", "TEXT", "MEDIUMTEXT"]), *rng.one_of(&COLLATIONS)),
            23 => Kind::Blob(rng.one_of::<&str>(&["TINYBLOB", "BLOB", "LONGBLOB"])),
            24 => [Kind::Enum(*rng.one_of(&COLLATIONS)), Kind::Set(*rng.one_of(&COLLATIONS))][rng.below(2) as usize]
                .clone(),
            _ => [Kind::Uuid, Kind::Inet6, Kind::Json][rng.below(3) as usize].clone(),
        }
    }

    pub fn int(rng: &mut Rng) -> Kind {
        let (name, bits) = if rng.chance(60) { ("INT", 32) } else { *rng.one_of(&INTS) };
        Kind::Int { name, bits, unsigned: rng.chance(20) }
    }

    /// As it is written in a definition.
    pub fn sql(&self) -> String {
        let text =
            |name: String, (set, collation): &Collation| format!("{name} CHARACTER SET {set} COLLATE {collation}");
        let members = MEMBERS.map(|member| format!("'{member}'")).join(",");
        match self {
            Kind::Int { name, unsigned, .. } => format!("{name}{}", if *unsigned { " UNSIGNED" } else { "" }),
            Kind::Decimal(digits, scale) => format!("DECIMAL({digits},{scale})"),
            Kind::Float => "FLOAT".into(),
            Kind::Double => "DOUBLE".into(),
            Kind::Bit(n) => format!("BIT({n})"),
            Kind::Year => "YEAR".into(),
            Kind::Date => "DATE".into(),
            Kind::Time(digits) => format!("TIME({digits})"),
            Kind::DateTime(digits) => format!("DATETIME({digits})"),
            Kind::Timestamp(digits) => format!("TIMESTAMP({digits})"),
            Kind::Char(n, collation) => text(format!("CHAR({n})"), collation),
            Kind::VarChar(n, collation) => text(format!("VARCHAR({n})"), collation),
            Kind::Binary(n) => format!("BINARY({n})"),
            Kind::VarBinary(n) => format!("VARBINARY({n})"),
            Kind::Text(name, collation) => text((*name).into(), collation),
            Kind::Blob(name) => (*name).into(),
            Kind::Enum(collation) => text(format!("ENUM({members})"), collation),
            Kind::Set(collation) => text(format!("SET({members})"), collation),
            Kind::Uuid => "UUID".into(),
            Kind::Inet6 => "INET6".into(),
            Kind::Json => "JSON".into(),
        }
    }

    pub fn is_int(&self) -> bool {
        matches!(self, Kind::Int { .. })
    }

    /// True if an index can only have the beginning of it.
    pub fn is_large(&self) -> bool {
        matches!(self, Kind::Text(..) | Kind::Blob(_) | Kind::Json)
    }

    /// True if an index can have its beginning.
    pub fn has_prefixes(&self) -> bool {
        self.is_large() || matches!(self, Kind::Char(..) | Kind::VarChar(..) | Kind::Binary(_) | Kind::VarBinary(_))
    }

    /// True if texts can be equal whose beginnings are not. Where the primary key has beginnings,
    /// InnoDB has such rows under one entry of an index with the whole text, and ends the server
    /// when it finds that entry in use.
    pub fn has_expansions(&self) -> bool {
        let (Kind::Char(_, (_, name)) | Kind::VarChar(_, (_, name)) | Kind::Text(_, (_, name))) = self else {
            return false;
        };
        WITH_EXPANSIONS.iter().any(|part| name.contains(part))
    }

    /// How many characters or bytes it may have.
    pub fn length(&self) -> u64 {
        match self {
            Kind::Char(n, _) | Kind::VarChar(n, _) | Kind::Binary(n) | Kind::VarBinary(n) => *n,
            _ => 200,
        }
    }

    /// True if values that are equal look the same, so that it does not matter which of them is
    /// shown.
    pub fn is_exact(&self) -> bool {
        !matches!(self, Kind::Float | Kind::Double)
            && match self {
                Kind::Char(_, (_, collation)) | Kind::VarChar(_, (_, collation)) => collation.ends_with("nopad_bin"),
                Kind::Text(..) | Kind::Enum(_) | Kind::Set(_) | Kind::Json => false,
                _ => true,
            }
    }

    /// What can be compared with each other without a conversion.
    pub fn class(&self) -> (u8, &'static str) {
        match self {
            Kind::Int { .. } | Kind::Decimal(..) => (0, ""),
            Kind::Float | Kind::Double => (1, ""),
            Kind::Bit(_) => (2, ""),
            Kind::Year => (3, ""),
            Kind::Date | Kind::DateTime(_) | Kind::Timestamp(_) => (4, ""),
            Kind::Time(_) => (5, ""),
            Kind::Char(_, (_, collation)) | Kind::VarChar(_, (_, collation)) | Kind::Text(_, (_, collation)) => {
                (6, collation)
            }
            Kind::Binary(_) | Kind::VarBinary(_) | Kind::Blob(_) => (7, ""),
            Kind::Enum(_) | Kind::Set(_) => (8, ""),
            Kind::Uuid => (9, ""),
            Kind::Inet6 => (10, ""),
            Kind::Json => (11, ""),
        }
    }

    /// A value as it is written in a statement.
    pub fn literal(&self, rng: &mut Rng) -> String {
        let fraction = |digits: u8, rng: &mut Rng| match digits {
            0 => String::new(),
            n => format!(".{}", "0123".repeat(2)[rng.below(3) as usize..][..n as usize].to_owned()),
        };
        let date = |rng: &mut Rng| format!("20{:02}-0{}-{:02}", rng.below(30), 1 + rng.below(3), 1 + rng.below(28));
        let time = |rng: &mut Rng| format!("{:02}:0{}:{:02}", rng.below(24), rng.below(3), 20 * rng.below(3));
        match self {
            Kind::Int { bits, unsigned, .. } => integer(*bits, *unsigned, rng),
            Kind::Decimal(..) => rng.one_of(&["0", "1", "-1", "0.5", "1.25", "7", "99.5", "-3.333", "123"]).to_string(),
            Kind::Float | Kind::Double => {
                rng.one_of(&["0", "1", "-1", "0.5", "-0.25", "1e10", "3.5", "-1e-5"]).to_string()
            }
            Kind::Bit(n) => format!("b'{:b}'", rng.below(8) & ((1 << (*n).min(3)) - 1)),
            Kind::Year => rng.one_of(&["1901", "2000", "2024", "2155", "0"]).to_string(),
            Kind::Date => format!("'{}'", date(rng)),
            Kind::Time(n) => format!("'{}{}{}'", rng.one_of(&["", "-", "7"]), time(rng), fraction(*n, rng)),
            Kind::DateTime(n) | Kind::Timestamp(n) => format!("'{} {}{}'", date(rng), time(rng), fraction(*n, rng)),
            // A key has a CHAR with its spaces at the end, also where the collation does not pad:
            // there, on both engines, what is less than a space has another place than in a value.
            Kind::Char(n, (_, collation)) if collation.contains("nopad") => {
                text(*n, rng).replace("\\0", "a").replace("\\t", "a")
            }
            Kind::Char(n, _) | Kind::VarChar(n, _) => text(*n, rng),
            Kind::Text(name, _) => text(if *name == "TINYTEXT" { 60 } else { 12_000 }, rng),
            Kind::Binary(n) | Kind::VarBinary(n) => bytes(*n, rng),
            Kind::Blob(name) => bytes(if *name == "TINYBLOB" { 255 } else { 20_000 }, rng),
            Kind::Enum(_) => format!("'{}'", rng.one_of(&MEMBERS)),
            Kind::Set(_) => format!("'{},{}'", rng.one_of(&MEMBERS), rng.one_of(&MEMBERS)),
            Kind::Uuid => format!("'{0:08x}-0000-{1}000-8000-00000000000{0}'", rng.below(6), 1 + rng.below(2)),
            Kind::Inet6 => rng.one_of(&["'::'", "'::1'", "'fe80::1'", "'::ffff:10.0.0.1'", "'ff::'"]).to_string(),
            Kind::Json => rng.one_of(&["'{}'", "'[1, 2]'", "'{\"a\": 1}'", "'null'", "'\"x\"'"]).to_string(),
        }
    }
}

fn integer(bits: u32, unsigned: bool, rng: &mut Rng) -> String {
    let (low, high) = if unsigned {
        (0, if bits == 64 { u64::MAX.into() } else { (1i128 << bits) - 1 })
    } else {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    };
    match rng.below(40) {
        0 => low.to_string(),
        1 => high.to_string(),
        2 if !unsigned => "-1".into(),
        _ => rng.below(12).to_string(),
    }
}

/// Of at most `longest` characters, now and then much longer than others.
fn text(longest: u64, rng: &mut Rng) -> String {
    let one = *rng.one_of(&TEXTS);
    let one = one.replace('\'', "''");
    match rng.below(12) {
        0 if longest > 20 => {
            let times = 1 + rng.below(longest / 3);
            format!("CONCAT(REPEAT('{}', {times}), '{one}')", rng.one_of(&["x", "ab", "ä", "ch"]))
        }
        1 if longest > 2 => format!("'{}{one}'", rng.one_of(&TEXTS).replace('\'', "''")),
        _ => format!("'{one}'"),
    }
}

fn bytes(longest: u64, rng: &mut Rng) -> String {
    if longest > 20 && rng.chance(10) {
        return format!("REPEAT(x'{}', {})", rng.one_of(&["00", "61", "ff"]), 1 + rng.below(longest));
    }
    format!("x'{}'", rng.one_of(&BYTES))
}
