//! What damage is done to, and what came of it.

use holdfast_base::page::seal;
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use crate::damage::base::Base;
use crate::damage::files::Files;
use crate::damage::layout::{Field, Kind as PageKind, Page, Role};

/// What a damage is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The file of a table, or its record in the catalog.
    Table(String),
    /// The undo space.
    Undo,
    /// The catalog.
    System,
    /// Log, checkpoint, `holdfast.meta`, double-write file.
    Log,
}

/// How far the rows that are read may differ from the promised ones without a report, because the
/// bytes are such as a sound database could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leeway {
    /// Not at all.
    Exact,
    /// Rows that an unfinished transaction has changed may be as it left them.
    Uncommitted,
    /// Rows may be older ones, be gone, or be back.
    Existed,
    /// Nothing is said of them.
    Any,
}

/// A damage that was done.
#[derive(Clone, Debug)]
pub struct Done {
    pub what: String,
    pub target: Target,
    pub leeway: Leeway,
    /// True if a page that is sound in itself may hold rows that never were: those are salvaged,
    /// too.
    pub forged: bool,
}

impl Done {
    /// The damage, whose rows may differ as far as `leeway` says, or further.
    pub(super) fn excused(self, leeway: Leeway) -> Done {
        Done { leeway: self.leeway.max(leeway), ..self }
    }

    /// The damage, that may have made rows that never were.
    pub(super) fn forged(self) -> Done {
        Done { forged: true, ..self }
    }

    /// The damage of a part of a large value: only the program that wrote the value can tell.
    pub(super) fn of_a_value(self) -> Done {
        self.excused(Leeway::Any).forged()
    }
}

/// What is damaged.
pub struct Scene<'a> {
    pub base: &'a Base,
    /// The sound pages of the base.
    pub pages: &'a [Page],
    /// The files, damaged so far.
    pub files: Files,
    pub rng: SmallRng,
    /// True if checksums are made right again.
    pub sealed: bool,
}

impl Scene<'_> {
    pub(super) fn page_size(&self) -> usize {
        self.base.plan.page_size
    }

    /// One of `choices`.
    pub(super) fn one<T: Clone>(&mut self, choices: &[T]) -> Option<T> {
        choices.choose(&mut self.rng).cloned()
    }

    /// A page for which `fits` holds, one that is in use if there is one, nearly always.
    pub(super) fn pick(&mut self, fits: impl Fn(&Page) -> bool) -> Option<Page> {
        let all: Vec<&Page> = self.pages.iter().filter(|page| fits(page)).collect();
        let live: Vec<&Page> = all.iter().copied().filter(|page| page.allocated).collect();
        let among = if live.is_empty() || self.rng.random_ratio(1, 20) { all } else { live };
        self.one(&among).cloned()
    }

    /// A node of a table's trees, or of the version tree.
    pub(super) fn pick_node(&mut self, fits: impl Fn(&Page) -> bool) -> Option<Page> {
        self.pick(|page| {
            matches!(page.kind, PageKind::Inner | PageKind::Leaf) && page.file != "system.hf" && fits(page)
        })
    }

    /// The bytes of a page.
    pub(super) fn bytes(&self, page: &Page) -> Option<&[u8]> {
        let at = page.no as usize * self.page_size();
        self.files.get(&page.file)?.get(at..at + self.page_size())
    }

    /// Changes a page.
    pub(super) fn edit(&mut self, page: &Page, change: impl FnOnce(&mut [u8])) -> Option<()> {
        let (size, sealed) = (self.page_size(), self.sealed);
        let at = page.no as usize * size;
        let bytes = self.files.get_mut(&page.file)?.get_mut(at..at + size)?;
        change(bytes);
        if sealed {
            seal(bytes);
        }
        Some(())
    }

    /// The table of a file.
    pub(super) fn table_of(&self, file: &str) -> Option<&String> {
        self.base.tables.iter().find(|(_, table)| table.file == file).map(|(name, _)| name)
    }

    /// What a file is of.
    pub(super) fn target(&self, file: &str) -> Target {
        match (file, self.table_of(file)) {
            (_, Some(name)) => Target::Table(name.clone()),
            ("undo.hf", None) => Target::Undo,
            ("system.hf", None) => Target::System,
            _ => Target::Log,
        }
    }

    /// What was done to a page, which nothing excuses but damage of the undo space, where it may
    /// be the state of a transaction.
    pub(super) fn done(&self, page: &Page, what: &str) -> Option<Done> {
        let sealed = if self.sealed { "" } else { ", checksum wrong" };
        let what = format!("{}:{} ({:?}, index {}): {what}{sealed}", page.file, page.no, page.kind, page.index);
        let done = self.done_to(&page.file, what);
        Some(if done.target == Target::Undo { done.excused(Leeway::Uncommitted) } else { done })
    }

    /// What was done to a file, which nothing excuses.
    pub(super) fn done_to(&self, file: &str, what: String) -> Done {
        Done { what, target: self.target(file), leeway: Leeway::Exact, forged: false }
    }

    /// The damage of pages that are in themselves sound and have another content: after a kill,
    /// redo makes the changes of the content that was there, by the numbers of slots.
    pub(super) fn changed_by_redo(&self, done: Done) -> Done {
        if self.base.plan.closed { done } else { done.forged() }
    }

    /// True if only its user knows which entries the rows of this file's table have.
    pub(super) fn is_raw(&self, file: &str) -> bool {
        self.base.tables.values().any(|table| table.file == file && table.raw)
    }

    /// A number that may be interesting in the place of `old`.
    pub(super) fn value(&mut self, field: &Field, old: u64, page: &Page) -> u64 {
        let (size, max) = (self.page_size() as u64, u64::MAX >> (64 - 8 * field.width));
        let near = old.wrapping_add(self.rng.random_range(1..4)).wrapping_sub(2);
        let choices: Vec<u64> = match field.role {
            Role::Count => vec![0, 1, near, old * 2, max, size, self.rng.random_range(0..size)],
            Role::Offset => vec![0, 63, 64, 80, size - 1, size, max, near, self.rng.random_range(0..size)],
            Role::Page => {
                let file: Vec<Page> = self.pages.iter().filter(|other| other.file == page.file).cloned().collect();
                let live: Vec<Page> = file.iter().filter(|other| other.allocated).cloned().collect();
                let one = |page: Option<Page>| page.map_or(0, |page| u64::from(page.no));
                let (any, used) = (one(self.one(&file)), one(self.one(&live)));
                let end = file.len() as u64;
                vec![0, 1, u64::from(page.no), any, used, used, used, end, end + 100, max, max / 2, near]
            }
            Role::Id => vec![
                0,
                1,
                near,
                old + 1_000,
                max,
                1 << 62,
                (1 << 62) - 1,
                self.rng.random(),
                self.rng.random_range(0..64),
            ],
            Role::Code => vec![0, 1, 2, 3, 255, old ^ 1 << self.rng.random_range(0..8), self.rng.random()],
        };
        self.one(&choices).unwrap_or(0) & max
    }

    /// The number that `field` of `bytes` is, and another one.
    pub(super) fn vary(&mut self, field: &Field, bytes: &[u8], page: &Page) -> (u64, u64) {
        let mut word = [0; 8];
        word[..field.width].copy_from_slice(bytes);
        let old = u64::from_le_bytes(word);
        let mut new = old;
        for _ in 0..20 {
            new = self.value(field, old, page);
            if new != old {
                break;
            }
        }
        (old, new)
    }

    /// Gives one of `fields` of a page another value.
    pub(super) fn change_one(&mut self, page: &Page, fields: &[Field]) -> Option<Done> {
        let field = self.one(fields)?;
        let bytes = self.bytes(page)?.get(field.at..field.at + field.width)?.to_vec();
        let (old, new) = self.vary(&field, &bytes, page);
        self.edit(page, |bytes| {
            bytes[field.at..field.at + field.width].copy_from_slice(&new.to_le_bytes()[..field.width]);
        })?;
        self.done(page, &format!("{} at {}: {old} -> {new}", field.name, field.at))
    }
}
