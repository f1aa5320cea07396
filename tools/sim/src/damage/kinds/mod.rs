//! The kinds of damage, and what they are done to.

mod catalog;
mod entry;
mod file;
mod list;
mod log;
mod node;
mod page;
mod scene;
mod space;
mod undo;

pub use self::list::KINDS;
pub use self::scene::{Done, Leeway, Scene, Target};
