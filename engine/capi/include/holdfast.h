/* Holdfast's C interface, for the handler of the MariaDB engine: opaque handles, error codes, no
   logic. The header `include/holdfast.h` is made of this crate by `cargo xtask tidy --header`.

   Rules: They hold for every function.

   * A handle comes from the function that opens it and is valid until the one that closes it; it
     is closed once, and not while another thread uses it. Databases and tables may be used by
     many threads at a time, transactions and cursors by one at a time. A null handle is an
     error, not a crash; closing a null handle does nothing.
   * A hf_slice that is passed in points to `len` readable bytes (or to anything if `len` is 0)
     for the time of the call. An out pointer points to writable memory for its type, or is null
     if the result is not wanted; one for a new handle is not null.
   * Bytes that come back belong to a cursor, a buffer, or a table, and stay as they are until
     that is used or closed next.
   * A function returns HF_OK, HF_NOT_FOUND, or what went wrong; hf_error_message then has the
     words, for the calling thread, until its next call. On anything but HF_OK out pointers are
     untouched.
   * An enumeration has one of the values that the header names for it.
   * A structure of options begins with its size, which the caller sets to `sizeof` the
     structure: what a caller of an older header does not know is zero, which stands for the
     default.
   * No panic leaves this library: it becomes HF_PANIC, and the handle's database is to be
     closed.

   SPDX-License-Identifier: MIT */

#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open database. */
typedef struct hf_database hf_database;

/* Bytes that the library grows and the caller reads. */
typedef struct hf_buffer hf_buffer;

/* An open table. */
typedef struct hf_table hf_table;

/* A transaction. One thread uses it at a time; which one may change. */
typedef struct hf_transaction hf_transaction;

/* A position in an index of a table, with buffers of its own. It holds no page between calls. */
typedef struct hf_cursor hf_cursor;

/* A table that is being filled. */
typedef struct hf_load hf_load;

/* A change of a table's indexes that is under way. */
typedef struct hf_alter hf_alter;

/* The version of this interface. It grows when a caller that was compiled with an older header
   would not work any more. */
#define HF_API_VERSION 1

/* The version of the interface that the library has; a caller compares it with the
   `HF_API_VERSION` that it was compiled with. */
uint32_t hf_api_version(void);


/* Error codes. */

/* What a call came to. */
typedef enum {
  /* Done. */
  HF_OK= 0,
  /* There is no such row, or no further one. */
  HF_NOT_FOUND= 1,
  /* The key exists already, or a unique index forbids the row. */
  HF_DUPLICATE_KEY= 2,
  /* A lock was not granted in time. */
  HF_LOCK_TIMEOUT= 3,
  /* Chosen as the victim of a deadlock: the transaction has to be rolled back. */
  HF_DEADLOCK= 4,
  /* Locked, and the caller did not want to wait. */
  HF_WOULD_BLOCK= 5,
  /* Killed while it waited or did long work, or a function of the caller asked for its end. */
  HF_INTERRUPTED= 6,
  /* Another transaction changed the row first. */
  HF_CONFLICT= 7,
  /* The snapshot was given up, or is older than the table or the index. */
  HF_SNAPSHOT_TOO_OLD= 8,
  /* The key is too long. */
  HF_KEY_TOO_LONG= 9,
  /* The value is too long. */
  HF_VALUE_TOO_LONG= 10,
  /* No room on the device. */
  HF_DISK_FULL= 11,
  /* The operating system refused. */
  HF_IO= 12,
  /* Stored bytes are not what was written. */
  HF_DAMAGED= 13,
  /* An earlier failure stopped the database. */
  HF_POISONED= 14,
  /* A write where only reading is allowed. */
  HF_READ_ONLY= 15,
  /* There is no such table. */
  HF_TABLE_NOT_FOUND= 16,
  /* There is such a table already. */
  HF_TABLE_EXISTS= 17,
  /* An argument is out of range, or a handle is null. */
  HF_INVALID= 18,
  /* A limit is exceeded: of a transaction, of one change, or of a table. */
  HF_LIMIT_REACHED= 19,
  /* The transaction has ended, or the database is closed. */
  HF_CLOSED= 20,
  /* There is no database, it is open elsewhere, or of a newer version. */
  HF_CANNOT_OPEN= 21,
  /* Anything else. */
  HF_OTHER= 22,
  /* A bug in the engine. */
  HF_PANIC= 23
} hf_code;

/* The words for what this thread's last failed call returned; never null, valid until its next
   call. */
const char *hf_error_message(void);


/* Byte strings. */

/* A borrowed byte slice, owned by the C side. */
typedef struct {
  /* The first byte; may be anything if there is none. */
  const uint8_t *data;
  /* How many. */
  size_t len;
} hf_slice;

/* What is to be kept with a table. */
typedef struct {
  /* The table's name. */
  hf_slice table;
  /* The bytes. */
  hf_slice bytes;
} hf_definition;


/* Opening and closing a database, and what concerns all of it. */

/* How data files are read and written. */
typedef enum {
  /* Past the cache of the operating system. */
  HF_FLUSH_METHOD_O_DIRECT= 0,
  /* Through it. */
  HF_FLUSH_METHOD_FSYNC= 1
} hf_flush_method;

/* Which replacement policy the cache follows. */
typedef enum {
  /* Holdfast's own, which a scan cannot wash out. */
  HF_POLICY_HOLDFAST= 0,
  /* InnoDB's LRU list with a midpoint. */
  HF_POLICY_MIDPOINT_LRU= 1,
  /* Plain least recently used. */
  HF_POLICY_LRU= 2
} hf_policy;

/* Settings of a database; 0 stands for the default of each size. */
typedef struct {
  /* Bytes of this structure. */
  size_t struct_size;
  /* Bytes of the page cache. */
  uint64_t cache_size;
  /* The largest value that it may be changed to while the database is open. */
  uint64_t cache_size_max;
  /* Bytes of log kept between checkpoints. */
  uint64_t log_capacity;
  /* Bytes of the log buffer. */
  uint64_t log_buffer;
  /* Page size, for a database that is created. */
  uint64_t page_size;
  /* Bytes of old row versions kept for long snapshots. */
  uint64_t version_limit;
  /* Bytes of undo log that one transaction may write. */
  uint64_t undo_limit;
  /* How data files are read and written. */
  hf_flush_method flush_method;
  /* Which replacement policy the cache follows. */
  hf_policy policy;
  /* Of midpoint_lru: percent. */
  uint32_t old_blocks_pct;
  /* Of midpoint_lru: milliseconds. */
  uint32_t old_blocks_time;
  /* True if the hot pages are remembered at close and loaded again at open. */
  bool warm_up;
  /* True if the cache is told which reads are scans. */
  bool scan_hints;
  /* Called now and then by `hf_open` while it recovers, with the bytes of log that are applied
     and that there are. */
  void (*recovery_progress)(uint64_t done, uint64_t total);
} hf_settings;

/* What a backup copied. */
typedef struct {
  /* Files of pages. */
  uint64_t files;
  /* Their bytes. */
  uint64_t bytes;
  /* Bytes of log. */
  uint64_t log_bytes;
  /* It holds what was committed up to this position of the log. */
  uint64_t lsn;
} hf_backup_report;

/* Opens the database in the directory `path`, or creates it; recovers it first if it was not
   closed. */
hf_code hf_open(hf_slice path, const hf_settings *settings, hf_database **out);

/* Closes a database. Its tables, transactions and cursors have to be closed before. */
hf_code hf_close(hf_database *database);

/* Makes all changes so far part of the files and moves the checkpoint to the end of the log. */
hf_code hf_checkpoint(const hf_database *database);

/* Bytes of a page. */
hf_code hf_page_size(const hf_database *database, uint64_t *out);

/* Bytes of the longest key. */
hf_code hf_key_limit(const hf_database *database, uint64_t *out);

/* Makes all commits so far durable. */
hf_code hf_flush_log(const hf_database *database);

/* Changes the size of the cache, in bytes. */
hf_code hf_set_cache_size(const hf_database *database, uint64_t bytes);

/* Changes how much log is kept between checkpoints, in bytes. */
hf_code hf_set_log_capacity(const hf_database *database, uint64_t bytes);

/* Changes the replacement policy. For its parameters see hf_settings. */
hf_code hf_set_policy(const hf_database *database, hf_policy policy, uint32_t old_blocks_pct,
                      uint32_t old_blocks_time);

/* Whether the cache is told which reads are scans. */
hf_code hf_set_scan_hints(const hf_database *database, bool on);

/* Copies the database, as of the end of the call, into the directory `dir`, which is new or
   empty, while it is in use; at most `rate_limit` bytes a second unless that is 0. `stop` is
   asked now and then; if it says so, the copy is given up with HF_INTERRUPTED. */
hf_code hf_backup(const hf_database *database, hf_slice dir, uint64_t rate_limit,
                  bool (*stop)(void *context), void *context, hf_backup_report *out);

/* The latest deadlock as text into `out`; HF_NOT_FOUND if there was none. */
hf_code hf_latest_deadlock(const hf_database *database, hf_buffer *out);

/* The database's state as text, in InnoDB's sections, into `out`. */
hf_code hf_status_text(const hf_database *database, hf_buffer *out);

/* Calls `each` with name and value of every counter and gauge. */
hf_code hf_metrics(const hf_database *database,
                   void (*each)(void *context, hf_slice name, uint64_t value), void *context);

/* An empty buffer. */
hf_code hf_buffer_new(hf_buffer **out);

/* The bytes of a buffer, valid until it is used in another call. */
hf_code hf_buffer_bytes(const hf_buffer *buffer, hf_slice *out);

/* Appends to a buffer. */
hf_code hf_buffer_append(hf_buffer *buffer, hf_slice bytes);

/* Empties a buffer. One with more than `keep` bytes of memory gives it back. */
hf_code hf_buffer_clear(hf_buffer *buffer, size_t keep);

/* Frees a buffer. */
hf_code hf_buffer_free(hf_buffer *buffer);


/* Tables: made of indexes over byte strings, of which the first holds the rows. */

/* An index of a table that is created. */
typedef struct {
  /* Its name. */
  hf_slice name;
  /* True if it is meant for `hf_insert_unique`; for listings. */
  bool unique;
} hf_index_spec;

/* A number that a table counts up and never gives out twice, whatever happens. */
typedef enum {
  /* The next value of the AUTO_INCREMENT column. */
  HF_MARK_AUTO_INCREMENT= 0,
  /* The next hidden row id. */
  HF_MARK_ROW_ID= 1
} hf_mark;

/* Creates a table. `indexes[0]` holds the rows, the others secondary entries. `definition` is
   kept with it. Nothing of a temporary one is made durable: it ends with the run of the
   database, and a backup does not have it. */
hf_code hf_table_create(const hf_database *database, hf_slice name, const hf_index_spec *indexes,
                        size_t count, hf_slice definition, bool temporary);

/* Opens a table. The handle stays valid while the table is renamed or dropped. */
hf_code hf_table_open(const hf_database *database, hf_slice name, hf_table **out);

/* Closes a table. */
hf_code hf_table_close(hf_table *table);

/* Removes a table. It waits for transactions that have written to it for so many milliseconds,
   and not at all if it is temporary: what they did there is forgotten. */
hf_code hf_table_drop(const hf_database *database, hf_slice name, uint64_t lock_wait_timeout_ms);

/* Puts the bytes that a table was created with, or that were set since, into `out`. */
hf_code hf_table_definition(const hf_database *database, hf_slice name, hf_buffer *out);

/* Replaces those bytes of tables, of all of them or of none. */
hf_code hf_tables_set_definitions(const hf_database *database, const hf_definition *definitions,
                                  size_t count);

/* Gives a table another name, and at the same time other definitions to tables: to itself by the
   new name. */
hf_code hf_table_rename(const hf_database *database, hf_slice from, hf_slice to,
                        const hf_definition *definitions, size_t count);

/* Empties a table: replaces it by a new one of the same name and definition, at once. Open
   handles see the old one. It waits as `hf_table_drop` does. */
hf_code hf_table_truncate(const hf_database *database, hf_slice name,
                          uint64_t lock_wait_timeout_ms);

/* HF_LOCK_TIMEOUT if a prepared transaction that no session holds has changed the table: a copy
   that replaces the table would lose its changes. What such transactions have changed is read
   once. It waits for so many milliseconds for another session that reads it, or that has adopted
   one. */
hf_code hf_table_check_unprepared(const hf_database *database, hf_slice name,
                                  uint64_t lock_wait_timeout_ms);

/* Calls `each` with the name of every table and what `hf_table_definition` says of it. */
hf_code hf_table_list(const hf_database *database,
                      void (*each)(void *context, hf_slice name, hf_slice definition),
                      void *context);

/* Reads all pages of a table and checks its trees, and if `entries`, that the entries of its
   indexes lead to rows; calls `each` with whatever is wrong. HF_SNAPSHOT_TOO_OLD if not all
   entries were looked at, since the snapshots for that were given up. */
hf_code hf_table_verify(const hf_database *database, hf_slice name, bool entries,
                        void (*each)(void *context, hf_slice finding), void *context);

/* The next value of a mark; nothing is taken. */
hf_code hf_mark_get(const hf_table *table, hf_mark mark, uint64_t *out);

/* Takes `count` values; `out` gets the first. Fails when there are not so many left. */
hf_code hf_mark_take(const hf_table *table, hf_mark mark, uint64_t count, uint64_t *out);

/* Sees to it that the next value is at least `next`. After a crash it is larger by `ahead` at
   most. */
hf_code hf_mark_raise(const hf_table *table, hf_mark mark, uint64_t next, uint64_t ahead);

/* Sets the next value, also downwards. Unless the table is temporary, that is durable. */
hf_code hf_mark_set(const hf_table *table, hf_mark mark, uint64_t next);

/* The name of secondary index `index`, valid while the table is open; HF_NOT_FOUND if there is
   none. */
hf_code hf_index_name(const hf_table *table, uint32_t index, hf_slice *out);

/* About how many entries index `index` of the table has. */
hf_code hf_table_rows(const hf_table *table, uint32_t index, uint64_t *out);

/* Bytes of the pages that its indexes and large values have. */
hf_code hf_table_bytes(const hf_table *table, uint64_t *out);

/* About how many leaves index `index` has. */
hf_code hf_index_leaves(const hf_table *table, uint32_t index, uint64_t *out);

/* Calls `each` with the keys of at most `leaves` leaves of an index, spread evenly over it;
   `first` says that a leaf begins. */
hf_code hf_index_sample(const hf_table *table, uint32_t index, size_t leaves,
                        void (*each)(void *context, hf_slice key, bool first), void *context);

/* Puts the first key of an index from `from` on into `out`; HF_NOT_FOUND if there is none. */
hf_code hf_index_first_key(const hf_table *table, uint32_t index, hf_slice from, hf_buffer *out);

/* About how many entries lie in `[from, to)`; an end without bytes is open. */
hf_code hf_estimate(const hf_table *table, uint32_t index, hf_slice from, hf_slice to,
                    uint64_t *out);


/* Transactions: begin, statements, savepoints, the two phases of a commit. */

/* What a transaction sees of the others: the numbers of a MariaDB server. */
typedef enum {
  /* As `ReadCommitted`: nothing that is not committed is ever read. */
  HF_ISOLATION_READ_UNCOMMITTED= 0,
  /* Every statement sees what was committed when it began. */
  HF_ISOLATION_READ_COMMITTED= 1,
  /* All statements see one snapshot. */
  HF_ISOLATION_REPEATABLE_READ= 2,
  /* As if transactions ran one after the other. */
  HF_ISOLATION_SERIALIZABLE= 3
} hf_isolation;

/* How a transaction begins. */
typedef struct {
  /* Bytes of this structure. */
  size_t struct_size;
  /* What it sees of the others. */
  hf_isolation isolation;
  /* True if the first updater wins. */
  bool snapshot_isolation;
  /* Changes are refused. */
  bool read_only;
} hf_transaction_options;

/* What a commit waits for: the values of `flush_log_at_trx_commit`. */
typedef enum {
  /* For nothing. */
  HF_FLUSH_LAZY= 0,
  /* Until the log is synced. */
  HF_FLUSH_SYNC= 1,
  /* Until the log is handed to the operating system. */
  HF_FLUSH_WRITE= 2
} hf_flush;

/* Begins a transaction. Costs little: ids and snapshots come with the first use. */
hf_code hf_begin(const hf_database *database, const hf_transaction_options *options,
                 hf_transaction **out);

/* A statement begins: at READ COMMITTED it will see what is committed now. It waits for locks
   for so many milliseconds each, 0: not at all. `out` gets the savepoint to go back to if it
   fails; it is valid until the next statement. */
hf_code hf_statement(hf_transaction *transaction, uint64_t lock_wait_timeout_ms, uint64_t *out);

/* From now on the transaction waits for locks for so many milliseconds each, 0: not at all: a
   statement within the statement that has begun may have another limit. */
hf_code hf_lock_wait(hf_transaction *transaction, uint64_t lock_wait_timeout_ms);

/* The statement has ended: at READ COMMITTED what it saw is kept no longer, once no cursor reads
   it. */
hf_code hf_statement_end(hf_transaction *transaction);

/* Takes the snapshot now. */
hf_code hf_snapshot(hf_transaction *transaction);

/* The point that the transaction has reached: valid to the end of the transaction if `keep`,
   else to the next call of this function without it; and until the transaction goes back to a
   point before it. */
hf_code hf_savepoint(hf_transaction *transaction, bool keep, uint64_t *out);

/* Undoes what was changed since `savepoint`. Locks stay. */
hf_code hf_rollback_to(hf_transaction *transaction, uint64_t savepoint);

/* Locks a name, which means something to the caller alone: one transaction at a time has it,
   until `hf_unlock_name` or its end. */
hf_code hf_lock_name(hf_transaction *transaction, hf_slice name);

/* Gives up the lock of a name. */
hf_code hf_unlock_name(hf_transaction *transaction, hf_slice name);

/* First phase: from here on the transaction survives a crash until it is committed or rolled
   back. */
hf_code hf_prepare(hf_transaction *transaction, hf_slice xid, hf_flush flush);

/* Releases the locks by which a prepared transaction kept what it has only read: it reads no
   more. */
hf_code hf_release_reads(hf_transaction *transaction);

/* Fixes the transaction's place in the commit order and makes its changes visible, without
   waiting for the disk. */
hf_code hf_commit_ordered(hf_transaction *transaction);

/* Commits. After `hf_commit_ordered` it only waits for the disk. */
hf_code hf_commit(hf_transaction *transaction, hf_flush flush);

/* Undoes everything. */
hf_code hf_rollback(hf_transaction *transaction);

/* Frees a transaction; one that has not ended is rolled back, a prepared one stays prepared. */
hf_code hf_transaction_free(hf_transaction *transaction);

/* The transaction's number, for `hf_kill`, and how many changes it has made. */
hf_code hf_transaction_info(hf_transaction *transaction, uint64_t *serial, uint64_t *changes);

/* Whether the transaction holds any lock, that of rows which it has changed included. */
hf_code hf_holds_locks(hf_transaction *transaction, bool *out);

/* Whether the transaction's snapshot was given up, to keep old versions to their limit: then
   that is why a read came to HF_SNAPSHOT_TOO_OLD. */
hf_code hf_snapshot_is_given_up(hf_transaction *transaction, bool *out);

/* Ends the lock wait of a transaction, by its number: the one that it is in, or else the next
   one of its statement. From any thread. Nothing happens if there is no such transaction. */
hf_code hf_kill(const hf_database *database, uint64_t serial);

/* Calls `each` with the xid of every prepared transaction that no session holds: of those that
   an earlier run did not end, and of those that `hf_transaction_free` has left prepared. */
hf_code hf_prepared(const hf_database *database, void (*each)(void *context, hf_slice xid),
                    void *context);

/* Takes over a prepared transaction, to commit or to roll it back. */
hf_code hf_adopt(const hf_database *database, hf_slice xid, hf_transaction **out);


/* Single entries of an index, by key. Index 0 of a table holds its rows; the key of an entry of
   another one ends with the key of its row, and its value begins with how many bytes of the key
   are before that, as LEB128. */

/* Whether a read locks what it reads. */
typedef enum {
  /* No: it reads the snapshot. */
  HF_LOCK_NONE= 0,
  /* Against changes by others; reads the newest committed version. */
  HF_LOCK_SHARED= 1,
  /* Against changes and locks by others; reads the newest committed version. */
  HF_LOCK_EXCLUSIVE= 2,
  /* As `Shared`, also where the snapshot is older than the table: for what a reference leads to.
     A cursor keeps inserts out of what it has read at READ COMMITTED, too, while it reads. */
  HF_LOCK_LINKED_SHARED= 3,
  /* As `Exclusive`, likewise. */
  HF_LOCK_LINKED_EXCLUSIVE= 4
} hf_lock;

/* What a read has added to the lock of its entry. */
typedef enum {
  /* Nothing that is given up early. */
  HF_RELEASE_NOTHING= 0,
  /* The transaction had locked it for sharing before, and has done so exclusively. */
  HF_RELEASE_TO_SHARED= 1,
  /* All of the lock. */
  HF_RELEASE_ALL= 2
} hf_release;

/* Adds an entry; HF_DUPLICATE_KEY if there is one. The first `head` bytes of the value can be
   read without the rest of a large one. An entry that is in the way is locked as `duplicate`
   says, so that it stays. */
hf_code hf_insert(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key,
                  hf_slice value, size_t head, hf_lock duplicate);

/* Adds an entry; HF_DUPLICATE_KEY if another one has the same index key, the first `prefix`
   bytes of `key`. For `duplicate` see `hf_insert`. */
hf_code hf_insert_unique(hf_transaction *transaction, const hf_table *table, uint32_t index,
                         hf_slice key, size_t prefix, hf_slice value, hf_lock duplicate);

/* Replaces the value of an entry; HF_NOT_FOUND if there is none. For `head` see `hf_insert`:
   what is behind it is written only if it has changed. */
hf_code hf_update(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key,
                  hf_slice value, size_t head);

/* Removes an entry; HF_NOT_FOUND if there is none. */
hf_code hf_delete(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key);

/* What the `hf_get` just before has added to the lock of its entry, as far as READ COMMITTED
   lets it be given up. */
hf_code hf_early_release(hf_transaction *transaction, hf_release *out);

/* Gives up what a read has added to the lock of an entry that did not qualify: `release` is what
   `hf_early_release` said of this entry. */
hf_code hf_unlock(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key,
                  hf_release release);

/* Replaces the content of `out` by the value of an entry; HF_NOT_FOUND if there is none. If
   `head_only`, and nothing is locked, the head of a large value is all that is read. Without
   `out` no value is read. */
hf_code hf_get(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key,
               hf_lock lock, bool skip_locked, bool head_only, hf_buffer *out);


/* Cursors over the entries of an index. */

/* An entry that a cursor shows. */
typedef struct {
  /* Its key. */
  hf_slice key;
  /* Its value. */
  hf_slice value;
} hf_entry;

/* Where a cursor is to go. */
typedef struct {
  /* Lower end of the range; open if it has no bytes and `from_included`. */
  hf_slice from;
  /* Upper end of the range; open if it has no bytes. */
  hf_slice to;
  /* True if `from` itself belongs to the range. */
  bool from_included;
  /* True if `to` itself belongs to the range. */
  bool to_included;
  /* From the upper end downwards. */
  bool backward;
  /* Passes over what others have locked. */
  bool skip_locked;
  /* It is known to be a scan: a dump, a copy. */
  bool scan;
  /* The heads of large values do, where nothing is locked. */
  bool head_only;
  /* At READ COMMITTED, what others have locked is given as it was committed last, and not waited
     for. */
  bool committed_if_locked;
  /* What is read gets locked. */
  hf_lock lock;
} hf_seek;

/* How many entries there are and what their hashes add up to, in any order: sets that are not
   the same have other sums, but for a chance of 2^-64. It begins with zeros. */
typedef struct {
  /* Entries. */
  uint64_t count;
  /* The sum of their hashes, modulo 2^64. */
  uint64_t hashes;
} hf_entry_sum;

/* Opens a cursor on index `index` of a table. */
hf_code hf_cursor_open(const hf_table *table, uint32_t index, hf_cursor **out);

/* Gives up the cursor's position, its bytes and what it holds of its transaction: a snapshot,
   and locks on what it did not reach. To be called before the transaction ends; the cursor can
   be used again. */
hf_code hf_cursor_release(hf_cursor *cursor);

/* Gives up the lock of the entry given last, as `hf_unlock` does. */
hf_code hf_cursor_unlock(hf_cursor *cursor);

/* Closes a cursor. */
hf_code hf_cursor_close(hf_cursor *cursor);

/* Stands before the first entry of a range, in its direction. */
hf_code hf_cursor_seek(hf_cursor *cursor, hf_transaction *transaction, const hf_seek *seek);

/* Whether the entry given last is locked by others: `committed_if_locked`. */
hf_code hf_cursor_is_given_unlocked(const hf_cursor *cursor, bool *out);

/* Waits for the lock of such an entry and gives it as it is then; HF_NOT_FOUND if it is gone. */
hf_code hf_cursor_lock_given(hf_cursor *cursor, hf_slice *key, hf_slice *value);

/* The next entry; HF_NOT_FOUND at the end of the range. */
hf_code hf_cursor_next(hf_cursor *cursor, hf_slice *key, hf_slice *value);

/* Shows entries that `hf_cursor_next` would give: as many as can be shown at once, `max` at
   most, those behind the first `passed` of what was shown before, which count as given. They are
   good until the next call, and as long as `hf_cursor_changes` stays the same. With none, it is
   `hf_cursor_next` that knows why; it must not be called before those that were shown have been
   passed. */
hf_code hf_cursor_look_ahead(hf_cursor *cursor, size_t passed, hf_entry *out, size_t max,
                             size_t *count);

/* Adds an entry to the sum of a set of entries. */
hf_code hf_entry_sum_add(hf_entry_sum *sum, hf_slice key, hf_slice value);

/* A number that grows with every change that the cursor's transaction makes or undoes. */
uint64_t hf_cursor_changes(const hf_cursor *cursor);


/* Filling a new table, without undo. */

/* Begins to fill a table that is empty and that the caller alone uses; HF_INVALID if it is not
   empty. If the load fails, the table is to be dropped. */
hf_code hf_load_begin(const hf_table *table, hf_load **out);

/* Begins to make a table anew: what is pushed becomes, with `hf_load_replace`, the table of this
   name, with the same indexes and marks. No transaction writes to the table until the load ends;
   it waits for those that do for so many milliseconds. Until it has replaced the table, that
   stays as it was, whatever becomes of the load. */
hf_code hf_load_begin_anew(const hf_table *table, uint64_t lock_wait_timeout_ms, hf_load **out);

/* Takes an entry of an index. The first `prefix` bytes of its key, or all of them, have to be
   unique. For `head` see `hf_insert`. HF_DUPLICATE_KEY may come now, or later for an earlier
   entry. */
hf_code hf_load_push(hf_load *load, uint32_t index, hf_slice key, size_t prefix, hf_slice value,
                     size_t head);

/* Completes the table. One that is made anew has yet to take its place. */
hf_code hf_load_finish(hf_load *load);

/* The entry that was refused with HF_DUPLICATE_KEY; HF_NOT_FOUND if none was. */
hf_code hf_load_duplicate(const hf_load *load, uint32_t *index, hf_slice *key, hf_slice *value);

/* Puts the row under `key` that was pushed to a load which has failed into `out`; HF_NOT_FOUND
   if there is none. If that is so because a row is there a second time, too, `hf_load_duplicate`
   gives this row from now on. The load cannot go on. */
hf_code hf_load_row(hf_load *load, hf_slice key, hf_buffer *out);

/* Has tables that `hf_load_begin_anew` began, and that are complete, take their places, all of
   them or none, each with what is to be kept with it from now on. The caller is the only user of
   the tables. Their handles have to be opened again. */
hf_code hf_load_replace(const hf_database *database, hf_load *const *loads,
                        const hf_slice *definitions, size_t count);

/* Ends a load. Without `hf_load_finish` before, the table stays empty; without
   `hf_load_replace`, one that is made anew stays as it was. */
hf_code hf_load_free(hf_load *load);


/* Changing the indexes of a table in place. */

/* Where a secondary index of an altered table comes from. */
typedef struct {
  /* True if it was added. */
  bool added;
  /* Its number among those that were added, counted from 0; else the one that it had in the
     table. */
  uint32_t index;
  /* The name that one which it had is to have; no bytes: as it was. */
  hf_slice name;
} hf_index_source;

/* Begins to change the indexes of a table. `add`: the new ones. `with_deltas`: no transaction
   changes a row now, and from now on each one that does notes what that does to entries of the
   added indexes; otherwise rows must not change until the end. It waits for transactions that
   have written to the table for so many milliseconds. */
hf_code hf_alter_begin(const hf_database *database, hf_slice name, const hf_index_spec *add,
                       size_t count, bool with_deltas, uint64_t lock_wait_timeout_ms,
                       hf_alter **out);

/* Takes an entry of an added index, counted from 0. The first `prefix` bytes of its key, or all
   of them, have to be unique. HF_DUPLICATE_KEY may come now, or later for an earlier entry. */
hf_code hf_alter_push(hf_alter *alter, uint32_t index, hf_slice key, size_t prefix, hf_slice value);

/* Notes, in a transaction that changes a row, that an entry of added index `added` has come or
   has another value. So many bytes of the key have to be unique. */
hf_code hf_alter_note_there(hf_transaction *transaction, const hf_table *table, uint32_t added,
                            hf_slice key, size_t prefix, hf_slice value);

/* Notes that an entry has gone. */
hf_code hf_alter_note_gone(hf_transaction *transaction, const hf_table *table, uint32_t added,
                           hf_slice key);

/* Completes the added indexes. */
hf_code hf_alter_finish(hf_alter *alter);

/* The entry that was refused with HF_DUPLICATE_KEY; HF_NOT_FOUND if none was. */
hf_code hf_alter_duplicate(const hf_alter *alter, uint32_t *index, hf_slice *key, hf_slice *value);

/* Says what the table is to become: its secondary indexes in their order, all that were added
   among them, and what is kept with it. */
hf_code hf_alter_become(hf_alter *alter, const hf_index_source *indexes, size_t count,
                        hf_slice definition);

/* Makes changes of different tables, all of them or none, and at the same time gives other
   tables other definitions. The caller is the only user of the tables that change. Their handles
   have to be opened again. It waits as `hf_alter_begin` does, for each table. After an error
   none is made, and the call may be repeated, unless the database takes no change any more: then
   the next open finds all of them or none. */
hf_code hf_alter_commit(const hf_database *database, hf_alter *const *alters, size_t count,
                        const hf_definition *definitions, size_t definition_count,
                        uint64_t lock_wait_timeout_ms);

/* Ends a change; without `hf_alter_commit` before, the table stays as it was. The pages of
   indexes that are not needed any more are read and freed in the background. */
hf_code hf_alter_free(hf_alter *alter);


/* Listings of what the database is doing: rows of named columns, and waits by class. */

/* What a column or a cell holds. */
typedef enum {
  /* Nothing: of a cell only. */
  HF_KIND_NULL= 0,
  /* A number, not negative. */
  HF_KIND_NUMBER= 1,
  /* A number with a fraction. */
  HF_KIND_REAL= 2,
  /* Text. */
  HF_KIND_TEXT= 3,
  /* A moment: a number of seconds since 1970. */
  HF_KIND_TIME= 4
} hf_kind;

/* A column of a listing. */
typedef struct {
  /* Its name; valid for ever. */
  hf_slice name;
  /* What it holds. */
  hf_kind kind;
  /* Of text: characters at most. */
  uint32_t chars;
  /* True if a row may have nothing there. */
  bool nullable;
} hf_column;

/* What a row has in a column. */
typedef struct {
  /* What it holds, and so in which of the following fields. */
  hf_kind kind;
  /* See `kind`. */
  uint64_t number;
  /* See `kind`. */
  double real;
  /* See `kind`; valid during the call that shows it. */
  hf_slice text;
} hf_cell;

/* The waits of one class. */
typedef struct {
  /* What is waited for. */
  hf_slice name;
  /* How often. */
  uint64_t count;
  /* For how long in all, in microseconds. */
  uint64_t total_us;
  /* The longest, in microseconds. */
  uint64_t max_us;
} hf_wait_class;

/* The name of a listing, counted from 0, without any prefix; HF_INVALID behind the last. */
hf_code hf_listing_name(uint32_t number, hf_slice *out);

/* Calls `each` with every column of a listing. */
hf_code hf_listing_columns(uint32_t number, void (*each)(void *context, const hf_column *column),
                           void *context);

/* Calls `each` with every row of a listing, a cell for each column, until it returns false. */
hf_code hf_listing_rows(const hf_database *database, uint32_t number,
                        bool (*each)(void *context, const hf_cell *cells, size_t count),
                        void *context);

/* Calls `each` with the waits of every class. */
hf_code hf_waits(const hf_database *database,
                 void (*each)(void *context, const hf_wait_class *waits), void *context);


/* Whose transactions are whose: the caller says which of its sessions runs a transaction, for
   listings and the monitor. */

/* What the caller knows of a session. The buffers are the library's; the caller appends to them. */
typedef struct {
  /* Its number. */
  uint64_t id;
  /* Its statement. */
  hf_buffer *query;
  /* What the session is and does, in words. */
  hf_buffer *description;
} hf_session;

/* Finds the session of the transaction with a number, as `hf_transaction_info` tells it; whether
   there is one. */
typedef bool (*hf_find_session)(void *context, uint64_t serial, hf_session *out);

/* The transactions of which an observer is told if a thread is going to wait. */
typedef enum {
  /* None. */
  HF_WAIT_INTEREST_NONE= 0,
  /* Those that hold what it waits for. */
  HF_WAIT_INTEREST_HOLDERS= 1,
  /* Also those that are ahead of it; anew whenever another one comes to be before it. */
  HF_WAIT_INTEREST_ALL= 2
} hf_wait_interest;

/* Returns of which transactions it has to be told if the calling thread is going to wait. */
typedef hf_wait_interest (*hf_interest)(void *context);

/* Is told that a transaction is going to wait for others, all by their numbers; those of the
   others are sorted. */
typedef void (*hf_waits_for)(void *context, uint64_t waiter, const uint64_t *others, size_t count);

/* Is told that the calling thread is going to sleep, or has woken up. */
typedef void (*hf_sleeps)(void *context, bool begins);

/* True if the session of the calling thread is to end its wait, or its work: it has been killed. */
typedef bool (*hf_gives_up)(void *context);

/* Registers functions that threads call when they wait for a lock: with the transactions for
   which they wait, as far as `interest` asks for it, and when they sleep. In waits for other
   things the thread calls `gives_up`; see `hf_wake_waits`. So it does now and then in
   `hf_table_verify`, `hf_load_finish`, `hf_alter_finish` and `hf_alter_commit`, and where a
   change of a definition reads or undoes what a transaction without a session has changed: these
   end with HF_INTERRUPTED then. The functions are called with `context` until the database is
   closed, and must not call the database nor wait for a transaction. The first ones stay. */
hf_code hf_observe_waits(const hf_database *database, hf_interest interest, hf_waits_for waits_for,
                         hf_sleeps sleeps, hf_gives_up gives_up, void *context);

/* Has sessions that wait for writers of a table, or for rollbacks, ask `gives_up` of
   `hf_observe_waits` again: one of them has been killed. `hf_kill` ends waits for locks of a
   transaction. */
hf_code hf_wake_waits(const hf_database *database);

/* Lets `find` say which sessions run the transactions. It is called from any thread, with
   `context`, until the database is closed; it must not call the database nor wait for a
   transaction. The first one stays. */
hf_code hf_set_sessions(const hf_database *database, hf_find_session find, void *context);

#ifdef __cplusplus
}
#endif

#endif
