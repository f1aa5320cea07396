//! Doubly linked lists of page numbers, threaded through arrays; a page is in at most one of the
//! lists that share the arrays.

pub(crate) const NIL: u32 = u32::MAX;

/// Several lists over one pair of link arrays, and for each page the list that it is in.
pub(crate) struct Lists<const N: usize> {
    prev: Vec<u32>,
    next: Vec<u32>,
    in_list: Vec<u8>,
    front: [u32; N],
    back: [u32; N],
    len: [usize; N],
}

const NONE: u8 = u8::MAX;

impl<const N: usize> Lists<N> {
    pub(crate) fn new(pages: usize) -> Lists<N> {
        Lists {
            prev: vec![NIL; pages],
            next: vec![NIL; pages],
            in_list: vec![NONE; pages],
            front: [NIL; N],
            back: [NIL; N],
            len: [0; N],
        }
    }

    /// The list that `page` is in.
    pub(crate) fn list_of(&self, page: u32) -> Option<usize> {
        let list = self.in_list[page as usize];
        (list != NONE).then_some(usize::from(list))
    }

    pub(crate) fn len(&self, list: usize) -> usize {
        self.len[list]
    }

    /// The page at the back, which leaves first.
    pub(crate) fn back(&self, list: usize) -> Option<u32> {
        Some(self.back[list]).filter(|&p| p != NIL)
    }

    /// The neighbour towards the front.
    pub(crate) fn towards_front(&self, page: u32) -> Option<u32> {
        Some(self.prev[page as usize]).filter(|&p| p != NIL)
    }

    pub(crate) fn push_front(&mut self, list: usize, page: u32) {
        let old = self.front[list];
        self.prev[page as usize] = NIL;
        self.next[page as usize] = old;
        if old == NIL {
            self.back[list] = page;
        } else {
            self.prev[old as usize] = page;
        }
        self.front[list] = page;
        self.in_list[page as usize] = list as u8;
        self.len[list] += 1;
    }

    /// Takes `page` out of the list that it is in; does nothing if it is in none.
    pub(crate) fn remove(&mut self, page: u32) {
        let Some(list) = self.list_of(page) else { return };
        let (prev, next) = (self.prev[page as usize], self.next[page as usize]);
        if prev == NIL {
            self.front[list] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next == NIL {
            self.back[list] = prev;
        } else {
            self.prev[next as usize] = prev;
        }
        self.in_list[page as usize] = NONE;
        self.len[list] -= 1;
    }

    pub(crate) fn pop_back(&mut self, list: usize) -> Option<u32> {
        let page = self.back(list)?;
        self.remove(page);
        Some(page)
    }

    /// Moves `page`, wherever it is, to the front of `list`.
    pub(crate) fn move_to_front(&mut self, list: usize, page: u32) {
        self.remove(page);
        self.push_front(list, page);
    }
}
