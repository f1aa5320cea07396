//! Views that are opened, closed and made long while others ask for the oldest.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use holdfast_base::CommitNo;

use super::commits::{Commits, NEXT, OLD};
use super::explore::{ALL_ORDERS, explore};
use crate::mvcc::sweep::Sweep;
use crate::mvcc::view::{View, Views};

struct Model {
    commits: Commits,
    views: Views,
    /// Open from the beginning.
    first: Arc<View>,
    opened: OnceCell<Arc<View>>,
    horizon: Cell<CommitNo>,
}

impl Model {
    fn new() -> Model {
        let commits = Commits::full();
        let views = Views::new(&commits.clock);
        let first = views.open(&commits.map, true);
        Model { commits, views, first, opened: OnceCell::new(), horizon: Cell::new(CommitNo(0)) }
    }

    fn without_views() -> Model {
        let model = Model::new();
        model.close();
        model
    }

    fn commit(&self) {
        self.commits.commit(OLD);
    }

    fn commit_and_close(&self) {
        self.commit();
        self.close();
    }

    fn close(&self) {
        assert_eq!(self.views.close(&self.first), Sweep::Nothing);
    }

    fn open(&self) {
        let opened = self.opened.set(self.views.open(&self.commits.map, true));
        opened.expect("it is opened once");
    }

    fn opened(&self) -> &View {
        self.opened.get().expect("it is open")
    }

    fn ask_oldest(&self) {
        self.horizon.set(self.views.oldest());
    }

    fn ask_short_horizon(&self) {
        self.horizon.set(self.views.short_horizon());
    }

    /// No view of now or to come is older than what was said.
    fn check_horizon(&self) {
        let (no, horizon) = (self.opened().commit_no(), self.horizon.get());
        assert!(no >= horizon, "a view of {no} is older than {horizon}");
        assert!(self.views.oldest() <= no && self.views.short_horizon() <= no);
    }
}

#[test]
pub(super) fn no_view_is_older_than_the_oldest() {
    let threads = [Model::commit, Model::open, Model::ask_oldest];
    explore(3, &ALL_ORDERS, Model::without_views, threads, Model::check_horizon);
}

#[test]
pub(super) fn no_short_view_is_older_than_the_horizon() {
    let threads = [Model::open, Model::ask_short_horizon, Model::commit];
    explore(3, &ALL_ORDERS, Model::without_views, threads, Model::check_horizon);
}

/// The two views are of one group.
#[test]
fn the_end_of_a_view_does_not_hide_another() {
    let threads = [Model::open, Model::ask_oldest, Model::commit_and_close];
    explore(3, &ALL_ORDERS, Model::new, threads, Model::check_horizon);
}

/// Purge copies for the long views what it takes from under them.
#[test]
fn a_view_that_the_short_horizon_has_passed_is_long() {
    fn make_long(model: &Model) {
        model.views.make_long(CommitNo(4), &model.commits.map);
    }
    fn ask(model: &Model) {
        let horizon = model.views.short_horizon();
        assert!(horizon <= model.first.commit_no() || model.first.is_long());
    }
    explore(3, &ALL_ORDERS, Model::new, [Model::commit, make_long, ask], |_| {});
}

/// A view sees a transaction, or does not, whatever happens to it and to the commit map.
#[test]
fn a_view_sees_the_same_when_it_is_made_long() {
    fn begin(model: &Model) {
        let (clock, map) = (&model.commits.clock, &model.commits.map);
        let next = model.commits.begin(|window| {
            model.views.make_long_locked(CommitNo(clock.last_commit().0 + 1), map, window);
            model.views.short_horizon()
        });
        assert_eq!(next, NEXT);
    }
    fn look(model: &Model) {
        assert!(!model.first.sees(OLD, &model.commits.map), "it ends later");
        assert!(!model.first.sees(NEXT, &model.commits.map), "it begins later");
    }
    explore(1, &ALL_ORDERS, Model::new, [Model::commit, begin, look], |model| {
        assert!(model.first.is_long());
        look(model);
    });
}
