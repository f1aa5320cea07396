//! What an implementation of [`Disk`](crate::Disk) is made of: checks of names and ranges, errors
//! with the words of the other disks, content and locks in memory, methods of a disk below
//! ([`forward_disk`](crate::forward_disk)).

#[doc(hidden)]
pub use holdfast_base::Result;

pub use crate::disk::{check_name, check_range, unexpected_eof};
pub use crate::memory::{LockFlag, name_error};
pub use crate::sparse::SparseBytes;

/// Methods of [`Disk`](crate::Disk), inside its `impl`, that do what those of the disk in a field
/// do: `forward_disk!(inner: list, exists);`
#[macro_export]
macro_rules! forward_disk {
    ($field:ident: $($method:ident),+) => { $($crate::forward_disk!(@$method $field);)+ };
    (@remove $field:ident) => {
        fn remove(&self, name: &str) -> $crate::parts::Result<()> {
            self.$field.remove(name)
        }
    };
    (@rename $field:ident) => {
        fn rename(&self, from: &str, to: &str) -> $crate::parts::Result<()> {
            self.$field.rename(from, to)
        }
    };
    (@list $field:ident) => {
        fn list(&self) -> $crate::parts::Result<Vec<String>> {
            self.$field.list()
        }
    };
    (@exists $field:ident) => {
        fn exists(&self, name: &str) -> $crate::parts::Result<bool> {
            self.$field.exists(name)
        }
    };
    (@sync_dir $field:ident) => {
        fn sync_dir(&self) -> $crate::parts::Result<()> {
            self.$field.sync_dir()
        }
    };
    (@lock $field:ident) => {
        fn lock(&self, mode: $crate::DirLockMode) -> $crate::parts::Result<$crate::DirLock> {
            self.$field.lock(mode)
        }
    };
    (@location $field:ident) => {
        fn location(&self) -> String {
            self.$field.location()
        }
    };
    (@describe $field:ident) => {
        fn describe(&self) -> String {
            self.$field.describe()
        }
    };
}
