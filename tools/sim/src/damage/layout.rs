//! Where what lies in the files of a database: pages by kind, and the fields of each kind.
//! `docs/design/file-format.md` and `docs/design/transactions.md` have the byte boxes.

use holdfast_base::codec::{Reader, get_u16, get_u32};
use holdfast_base::page::{PageHeader, PageType, is_blank};

use super::files::Files;

/// Kinds of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Header,
    Bitmap,
    Inner,
    Leaf,
    Overflow,
    Undo,
    Directory,
    Free,
}

/// A page of a base.
#[derive(Clone, Debug)]
pub struct Page {
    pub file: String,
    pub no: u32,
    pub kind: Kind,
    pub index: u32,
    /// Its bit in the allocation bitmap.
    pub allocated: bool,
}

/// The index that old versions are in.
pub const VERSIONS: u32 = u32::MAX;
/// Offset of the slots of a node.
pub const SLOTS: usize = 80;
/// Bytes of a version header.
pub const VERSION_HEADER: usize = 17;
/// Offset of the bytes of a value in a page of a chain.
pub const CHAIN_BYTES: usize = 80;

/// All pages of a database's files that are sound, with what they are.
pub fn pages(files: &Files, page_size: usize) -> Vec<Page> {
    let mut found = Vec::new();
    for (file, bytes) in files.iter().filter(|(name, _)| name.ends_with(".hf")) {
        let bitmap = bytes.get(page_size..2 * page_size).unwrap_or_default();
        for (no, page) in (0u32..).zip(bytes.chunks_exact(page_size)) {
            let kind = kind_of(page);
            let index = get_u32(page, 24).unwrap_or(0);
            let allocated = bitmap.get(80 + no as usize / 8).is_some_and(|byte| byte >> (no % 8) & 1 == 1);
            found.extend(kind.map(|kind| Page { file: file.clone(), no, kind, index, allocated }));
        }
    }
    found
}

fn kind_of(page: &[u8]) -> Option<Kind> {
    if is_blank(page) {
        return Some(Kind::Free);
    }
    let header = PageHeader::decode(page)?;
    Some(match header.page_type {
        PageType::Free => Kind::Free,
        PageType::SpaceHeader => Kind::Header,
        PageType::Allocation => Kind::Bitmap,
        PageType::Tree if header.level > 0 => Kind::Inner,
        PageType::Tree => Kind::Leaf,
        PageType::Overflow => Kind::Overflow,
        PageType::Undo => Kind::Undo,
        PageType::UndoDirectory => Kind::Directory,
    })
}

/// A record of a sound node.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Offset of its slot.
    pub slot: usize,
    /// Offset of the record, where the length of its payload stands.
    pub at: usize,
    pub suffix: (usize, usize),
    pub payload: (usize, usize),
}

/// The records of a node.
pub fn records(page: &[u8]) -> Vec<Record> {
    let count = usize::from(get_u16(page, 64).unwrap_or(0));
    let record = |n: usize| {
        let slot = SLOTS + 8 * n;
        let (at, suffix) = (usize::from(get_u16(page, slot)?), usize::from(get_u16(page, slot + 2)?));
        let payload = usize::from(get_u16(page, at)?);
        (at + 2 + suffix + payload <= page.len()).then_some(Record {
            slot,
            at,
            suffix: (at + 2, suffix),
            payload: (at + 2 + suffix, payload),
        })
    };
    (0..count).map_while(record).collect()
}

/// What a number in a page means, which says what may be interesting in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of slots, records, bytes.
    Count,
    /// Of a byte in a page.
    Offset,
    /// Of a page.
    Page,
    /// Of a transaction, a commit, an index, a position of the log.
    Id,
    /// Flags, types, states.
    Code,
}

/// A number in a page.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub at: usize,
    pub width: usize,
    pub role: Role,
}

/// A field.
pub const fn field(name: &'static str, at: usize, width: usize, role: Role) -> Field {
    Field { name, at, width, role }
}

/// The parts of the header of an image that begins at `at`, and the chain that it refers to.
fn image_fields(image: &[u8], at: usize) -> Vec<Field> {
    let mut fields = vec![
        field("flags of a prior image", at, 1, Role::Code),
        field("writer of a prior image", at + 1, 8, Role::Id),
        field("roll pointer of a prior image", at + 9, 8, Role::Id),
    ];
    if image.first().is_some_and(|flags| flags & 2 != 0) {
        fields.push(field("chain of a prior image", at + VERSION_HEADER, 4, Role::Page));
    }
    fields
}

/// The numbers of an entry of the version tree: where it is, the end of its key, and its value up
/// to the header of the image.
pub fn version_fields(page: &[u8], record: &Record) -> Vec<Field> {
    let (at, len) = record.payload;
    let mut fields = vec![
        field("offset of a record", record.slot, 2, Role::Offset),
        field("flags of an old version", at, 1, Role::Code),
    ];
    if record.suffix.1 > 8 {
        // The key ends where the value begins; its numbers have their highest byte first.
        fields.push(field("overwriter of an old version", at - 8, 8, Role::Id));
        fields.push(field("last byte of an overwriter", at - 1, 1, Role::Id));
    }
    let Some(bytes) = page.get(at..at + len) else { return fields };
    let mut from = Reader::new(bytes);
    let here = |from: &Reader<'_>| at + len - from.rest().len();
    let mut walk = || {
        let flags = from.u8()?;
        if flags & 4 != 0 {
            fields.push(field("first page of the rest of an old version", here(&from), 4, Role::Page));
            fields.push(field("length of the rest of an old version", here(&from) + 4, 4, Role::Count));
            return None;
        }
        if flags & 2 != 0 {
            fields.push(field("record of a delete mark", here(&from), 4, Role::Count));
            fields.push(field("page of a delete mark", here(&from) + 4, 4, Role::Page));
            from.u64()?;
        }
        fields.push(field("length of an old version's key", here(&from), 1, Role::Count));
        let key = from.bytes_with_len()?;
        if !key.is_empty() {
            fields.push(field("last byte of an old version's key", here(&from) - 1, 1, Role::Code));
        }
        if flags & 1 != 0 {
            fields.extend(image_fields(from.rest(), here(&from)));
        }
        Some(())
    };
    walk();
    fields.retain(|f| f.at + f.width <= page.len());
    fields
}

/// Where the varints and lengths of an undo record stand, and the parts of the prior image's
/// header.
pub fn undo_record_fields(page: &[u8], at: usize) -> Vec<Field> {
    let mut fields = vec![field("kind of an undo record", at, 1, Role::Code)];
    let Some(bytes) = page.get(at..) else { return fields };
    let mut from = Reader::new(bytes);
    let here = |from: &Reader<'_>| at + bytes.len() - from.rest().len();
    let mut walk = || {
        let kind = from.u8()?;
        fields.push(field("index of an undo record", here(&from), 1, Role::Id));
        from.varint()?;
        fields.push(field("length of an undo record's key", here(&from), 1, Role::Count));
        from.bytes_with_len()?;
        if kind & 1 != 0 {
            fields.push(field("length of a prior image", here(&from), 1, Role::Count));
            let image = from.bytes_with_len()?;
            fields.extend(image_fields(image, here(&from) - image.len()));
        }
        if kind & 2 != 0 {
            fields.push(field("length of a chain's reference", here(&from), 1, Role::Count));
            fields.push(field("chain of an undo record", here(&from) + 1, 4, Role::Page));
        }
        Some(())
    };
    walk();
    fields.retain(|f| f.at + f.width <= page.len());
    fields
}

/// The numbers in a catalog record of a table, from its first byte at `at`.
pub fn catalog_fields(page: &[u8], at: usize, len: usize) -> Vec<Field> {
    let mut fields = vec![
        field("format of a catalog record", at, 1, Role::Code),
        field("space of a table", at + 1, 4, Role::Id),
        field("id of a table", at + 5, 4, Role::Id),
        field("version of a definition", at + 9, 8, Role::Id),
    ];
    let Some(bytes) = page.get(at..at + len) else { return fields };
    let mut from = Reader::new(bytes);
    let here = |from: &Reader<'_>| at + len - from.rest().len();
    let mut walk = || {
        from.bytes(17)?;
        for name in ["length of a key type", "length of a value type", "length of a table's options"] {
            fields.push(field(name, here(&from), 1, Role::Count));
            from.bytes_with_len()?;
        }
        fields.push(field("root of a table", here(&from), 4, Role::Page));
        fields.push(field("index of a table's rows", here(&from) + 4, 4, Role::Id));
        from.u64()?;
        fields.push(field("number of indexes", here(&from), 1, Role::Count));
        for _ in 0..from.varint()? {
            fields.push(field("id of an index", here(&from), 4, Role::Id));
            fields.push(field("root of an index", here(&from) + 4, 4, Role::Page));
            fields.push(field("flags of an index", here(&from) + 8, 1, Role::Code));
            from.bytes(9)?;
            for name in ["length of an index's name", "length of an index's key type"] {
                fields.push(field(name, here(&from), 1, Role::Count));
                from.bytes_with_len()?;
            }
        }
        Some(())
    };
    walk();
    fields.retain(|f| f.at + f.width <= page.len());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of an entry of the version tree with this value, on a page of its own.
    fn names(flags: u8, body: &[u8]) -> Vec<&'static str> {
        let (mut page, at, suffix) = (vec![0; 256], 100, 14);
        page[64] = 1;
        page[SLOTS] = at as u8;
        page[SLOTS + 2] = suffix as u8;
        page[at] = 1 + body.len() as u8;
        let value = at + 2 + suffix;
        page[value] = flags;
        page[value + 1..value + 1 + body.len()].copy_from_slice(body);
        version_fields(&page, &records(&page)[0]).iter().map(|field| field.name).collect()
    }

    #[test]
    fn an_old_version_has_the_fields_of_what_it_has() {
        let (image, mark, rest) =
            ("chain of a prior image", "page of a delete mark", "length of the rest of an old version");
        let key = [3, b'k', b'e', b'y'];
        let of_image = names(1, &[&key[..], &[2], &[0; 24]].concat());
        let of_mark = names(2, &[&[0; 8][..], &key].concat());
        for (name, expected) in
            [(image, [true, false, false]), (mark, [false, true, false]), (rest, [false, false, true])]
        {
            let found = [&of_image, &of_mark, &names(4, &[0; 8])].map(|names| names.contains(&name));
            assert_eq!(found, expected, "{name}");
        }
        // Bytes that are no entry have fields, too.
        assert!(names(1, &[200]).contains(&"length of an old version's key"));
    }
}
