//! Which of several records a log has.

use holdfast_base::{HashMap, PageNo, RollPtr};

use super::UndoLog;

impl UndoLog {
    /// Those of `rolls` that lead to records of the log. They are looked for together, since it may
    /// have a hundred thousand pages.
    pub fn kept(&self, rolls: &[RollPtr]) -> Vec<RollPtr> {
        let mut by_page: HashMap<PageNo, Vec<RollPtr>> = HashMap::default();
        for roll in rolls {
            by_page.entry(roll.page()).or_default().push(*roll);
        }
        let ends = self.pages.iter().skip(1).map(|next| next.before).chain([self.records()]);
        let kept = self.pages.iter().zip(ends).flat_map(|(page, end)| {
            let there = by_page.get(&page.no).into_iter().flatten();
            there.filter(move |roll| page.before + (roll.offset() as u64) < end)
        });
        kept.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::log::LogPage;

    #[test]
    fn a_record_is_on_a_page_of_the_log_and_not_behind_the_last() {
        let of = |no, slot| RollPtr::new(PageNo(no), slot);
        let mut log = UndoLog::in_memory(1);
        assert_eq!(log.kept(&[of(7, 0)]), []);
        log.pages.push(LogPage { no: PageNo(8), before: 5 });
        assert_eq!(log.kept(&[of(7, 4), of(7, 5), of(8, 0), of(9, 0)]), [of(7, 4)]);
    }
}
