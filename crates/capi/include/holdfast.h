/* Holdfast's C interface. The rules of use are in src/lib.rs of this crate; the meaning of each function in the Rust
   source that defines it. SPDX-License-Identifier: MIT */

#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  HF_OK= 0,
  HF_NOT_FOUND= 1,
  HF_DUPLICATE_KEY= 2,
  HF_LOCK_TIMEOUT= 3,
  HF_DEADLOCK= 4,
  HF_WOULD_BLOCK= 5,
  HF_INTERRUPTED= 6,
  HF_CONFLICT= 7,
  HF_SNAPSHOT_TOO_OLD= 8,
  HF_KEY_TOO_LONG= 9,
  HF_VALUE_TOO_LONG= 10,
  HF_DISK_FULL= 11,
  HF_IO= 12,
  HF_DAMAGED= 13,
  HF_POISONED= 14,
  HF_READ_ONLY= 15,
  HF_TABLE_NOT_FOUND= 16,
  HF_TABLE_EXISTS= 17,
  HF_INVALID= 18,
  HF_LIMIT_REACHED= 19,
  HF_CLOSED= 20,
  HF_CANNOT_OPEN= 21,
  HF_OTHER= 22,
  HF_PANIC= 23
} hf_code;

typedef struct hf_database hf_database;
typedef struct hf_table hf_table;
typedef struct hf_transaction hf_transaction;
typedef struct hf_cursor hf_cursor;
typedef struct hf_load hf_load;
typedef struct hf_alter hf_alter;
typedef struct hf_buffer hf_buffer;

typedef struct {
  const uint8_t *data;
  size_t len;
} hf_slice;

/* The words for the last failed call of this thread. */
const char *hf_error_message(void);

/* Databases */

typedef struct {
  uint64_t cache_size;
  uint64_t cache_size_max;
  uint64_t log_capacity;
  uint64_t log_buffer;
  uint64_t page_size;
  uint64_t version_limit;
  uint64_t undo_limit;
  uint32_t flush_method; /* 0 O_DIRECT, 1 fsync */
  uint32_t policy;       /* 0 holdfast, 1 midpoint_lru, 2 lru */
  uint32_t old_blocks_pct;
  uint32_t old_blocks_time;
  bool warm_up;
  bool scan_hints;
  void (*recovery_progress)(uint64_t done, uint64_t total); /* bytes of log; may be null */
} hf_settings;

hf_code hf_open(hf_slice path, const hf_settings *settings, hf_database **out);
hf_code hf_close(hf_database *database);
hf_code hf_checkpoint(const hf_database *database);
hf_code hf_page_size(const hf_database *database, uint64_t *out);
hf_code hf_key_limit(const hf_database *database, uint64_t *out);
hf_code hf_flush_log(const hf_database *database);
hf_code hf_set_cache_size(const hf_database *database, uint64_t bytes);
hf_code hf_set_log_capacity(const hf_database *database, uint64_t bytes);
hf_code hf_set_policy(const hf_database *database, uint32_t policy, uint32_t old_blocks_pct, uint32_t old_blocks_time);
hf_code hf_set_scan_hints(const hf_database *database, bool on);
hf_code hf_latest_deadlock(const hf_database *database, hf_buffer *out);
hf_code hf_status_text(const hf_database *database, hf_buffer *out);
hf_code hf_metrics(const hf_database *database, void (*each)(void *context, hf_slice name, uint64_t value),
                   void *context);

hf_code hf_buffer_new(hf_buffer **out);
hf_code hf_buffer_bytes(const hf_buffer *buffer, hf_slice *out);
hf_code hf_buffer_append(hf_buffer *buffer, hf_slice bytes);
hf_code hf_buffer_free(hf_buffer *buffer);

/* Listings */

typedef enum { HF_NULL= 0, HF_NUMBER= 1, HF_REAL= 2, HF_TEXT= 3, HF_TIME= 4 } hf_kind;

typedef struct {
  hf_slice name;
  uint32_t kind; /* hf_kind */
  uint32_t chars;
  bool nullable;
} hf_column;

typedef struct {
  uint32_t kind; /* hf_kind */
  uint64_t number;
  double real;
  hf_slice text;
} hf_cell;

typedef struct {
  hf_slice name;
  uint64_t count;
  uint64_t total_us;
  uint64_t max_us;
} hf_wait_class;

hf_code hf_listing_name(uint32_t number, hf_slice *out);
hf_code hf_listing_columns(uint32_t number, void (*each)(void *context, const hf_column *column), void *context);
hf_code hf_listing_rows(const hf_database *database, uint32_t number,
                        bool (*each)(void *context, const hf_cell *cells, size_t count), void *context);
hf_code hf_waits(const hf_database *database, void (*each)(void *context, const hf_wait_class *waits), void *context);

/* Sessions */

typedef struct {
  uint64_t id;
  hf_buffer *query;
  hf_buffer *description;
} hf_session;

/* The transactions of which an observer is told if a thread is going to wait: none, those that hold what it waits for,
   or also those that are ahead of it. */
#define HF_WAITS_NOBODY 0
#define HF_WAITS_HOLDERS 1
#define HF_WAITS_EVERYBODY 2

hf_code hf_observe_waits(const hf_database *database, uint32_t (*interest)(void *context),
                         void (*waits_for)(void *context, uint64_t waiter, const uint64_t *others, size_t count),
                         void (*sleeps)(void *context, bool begins), bool (*gives_up)(void *context), void *context);
hf_code hf_wake_waits(const hf_database *database);
hf_code hf_set_sessions(const hf_database *database, bool (*find)(void *context, uint64_t serial, hf_session *out),
                        void *context);

/* Backup */

typedef struct {
  uint64_t files;
  uint64_t bytes;
  uint64_t log_bytes;
  uint64_t lsn;
} hf_backup_report;

hf_code hf_backup(const hf_database *database, hf_slice dir, uint64_t rate_limit, bool (*stop)(void *context),
                  void *context, hf_backup_report *out);

/* Tables */

typedef struct {
  hf_slice name;
  bool unique;
} hf_index_spec;

typedef struct {
  hf_slice table;
  hf_slice bytes;
} hf_definition;

typedef enum { HF_AUTO_INCREMENT= 0, HF_ROW_ID= 1 } hf_mark;

hf_code hf_table_create(const hf_database *database, hf_slice name, const hf_index_spec *indexes, size_t count,
                        hf_slice definition, bool temporary);
hf_code hf_table_open(const hf_database *database, hf_slice name, hf_table **out);
hf_code hf_table_close(hf_table *table);
hf_code hf_table_drop(const hf_database *database, hf_slice name, uint64_t lock_wait_timeout_ms);
hf_code hf_table_definition(const hf_database *database, hf_slice name, hf_buffer *out);
hf_code hf_tables_set_definitions(const hf_database *database, const hf_definition *definitions, size_t count);
hf_code hf_table_rename(const hf_database *database, hf_slice from, hf_slice to, const hf_definition *definitions,
                        size_t count);
hf_code hf_table_truncate(const hf_database *database, hf_slice name, uint64_t lock_wait_timeout_ms);
hf_code hf_table_check_unprepared(const hf_database *database, hf_slice name);
hf_code hf_table_list(const hf_database *database, void (*each)(void *context, hf_slice name, hf_slice definition),
                      void *context);
hf_code hf_table_verify(const hf_database *database, hf_slice name, bool entries,
                        void (*each)(void *context, hf_slice finding), void *context);
hf_code hf_mark_get(const hf_table *table, hf_mark mark, uint64_t *out);
hf_code hf_mark_take(const hf_table *table, hf_mark mark, uint64_t count, uint64_t *out);
hf_code hf_mark_raise(const hf_table *table, hf_mark mark, uint64_t next, uint64_t ahead);
hf_code hf_mark_set(const hf_table *table, hf_mark mark, uint64_t next);
hf_code hf_index_name(const hf_table *table, uint32_t index, hf_slice *out);
hf_code hf_table_rows(const hf_table *table, uint32_t index, uint64_t *out);
hf_code hf_table_bytes(const hf_table *table, uint64_t *out);
hf_code hf_index_leaves(const hf_table *table, uint32_t index, uint64_t *out);
hf_code hf_index_sample(const hf_table *table, uint32_t index, size_t leaves,
                        void (*each)(void *context, hf_slice key, bool first), void *context);
hf_code hf_index_first_key(const hf_table *table, uint32_t index, hf_slice from, hf_buffer *out);
hf_code hf_estimate(const hf_table *table, uint32_t index, hf_slice from, hf_slice to, uint64_t *out);

/* Transactions */

typedef struct {
  uint32_t isolation; /* 0 READ UNCOMMITTED, 1 READ COMMITTED, 2 REPEATABLE READ, 3 SERIALIZABLE */
  bool snapshot_isolation;
  bool read_only;
} hf_transaction_options;

typedef enum { HF_FLUSH_LAZY= 0, HF_FLUSH_SYNC= 1, HF_FLUSH_WRITE= 2 } hf_flush;

hf_code hf_begin(const hf_database *database, const hf_transaction_options *options, hf_transaction **out);
hf_code hf_statement(hf_transaction *transaction, uint64_t lock_wait_timeout_ms, uint64_t *savepoint);
hf_code hf_snapshot(hf_transaction *transaction);
hf_code hf_savepoint(hf_transaction *transaction, bool keep, uint64_t *out);
hf_code hf_rollback_to(hf_transaction *transaction, uint64_t savepoint);
hf_code hf_lock_name(hf_transaction *transaction, hf_slice name);
hf_code hf_unlock_name(hf_transaction *transaction, hf_slice name);
hf_code hf_prepare(hf_transaction *transaction, hf_slice xid, hf_flush flush);
hf_code hf_release_reads(hf_transaction *transaction);
hf_code hf_commit_ordered(hf_transaction *transaction);
hf_code hf_commit(hf_transaction *transaction, hf_flush flush);
hf_code hf_rollback(hf_transaction *transaction);
hf_code hf_transaction_free(hf_transaction *transaction);
hf_code hf_transaction_info(hf_transaction *transaction, uint64_t *serial, uint64_t *changes);
hf_code hf_holds_locks(hf_transaction *transaction, bool *out);
hf_code hf_kill(const hf_database *database, uint64_t serial);
hf_code hf_prepared(const hf_database *database, void (*each)(void *context, hf_slice xid), void *context);
hf_code hf_adopt(const hf_database *database, hf_slice xid, hf_transaction **out);

/* Entries */

/* Rows that references lead to are read even if their table is newer than the snapshot. */
typedef enum {
  HF_LOCK_NONE= 0,
  HF_LOCK_SHARED= 1,
  HF_LOCK_EXCLUSIVE= 2,
  HF_LOCK_LINKED_SHARED= 3,
  HF_LOCK_LINKED_EXCLUSIVE= 4
} hf_lock;

/* Index 0 holds rows. The key of an entry of another index ends with the key of its row; the entry's value begins with how many bytes of
   its key are before that, as LEB128.

   The first `head` bytes of a large value can be read without the rest, and changed without writing it. */
hf_code hf_insert(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key, hf_slice value,
                  size_t head, hf_lock duplicate);
hf_code hf_insert_unique(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key,
                         size_t prefix, hf_slice value, hf_lock duplicate);
hf_code hf_update(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key, hf_slice value,
                  size_t head);
hf_code hf_delete(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key);
hf_code hf_unlock(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key);
hf_code hf_get(hf_transaction *transaction, const hf_table *table, uint32_t index, hf_slice key, hf_lock lock,
               bool skip_locked, bool head_only, hf_buffer *out);

typedef struct {
  hf_slice from;
  hf_slice to; /* no bytes: open */
  bool from_included;
  bool to_included;
  bool backward;
  bool skip_locked;
  bool scan;
  bool head_only; /* where nothing is locked */
  bool committed_if_locked; /* at READ COMMITTED: instead of waiting */
  hf_lock lock;
} hf_seek;

hf_code hf_load_begin(const hf_table *table, hf_load **out);
hf_code hf_load_push(hf_load *load, uint32_t index, hf_slice key, size_t prefix, hf_slice value, size_t head);
hf_code hf_load_finish(hf_load *load);
hf_code hf_load_duplicate(const hf_load *load, uint32_t *index, hf_slice *key, hf_slice *value);
hf_code hf_load_row(hf_load *load, hf_slice key, hf_buffer *out);
hf_code hf_load_free(hf_load *load);

/* Changing the indexes of a table in place */

typedef struct {
  bool added;
  uint32_t index;
  hf_slice name; /* of one that is kept; no bytes: as it was */
} hf_index_source;

hf_code hf_alter_begin(const hf_database *database, hf_slice name, const hf_index_spec *add, size_t count,
                       bool with_deltas, uint64_t lock_wait_timeout_ms, hf_alter **out);
hf_code hf_alter_note_there(hf_transaction *transaction, const hf_table *table, uint32_t added, hf_slice key,
                            size_t prefix, hf_slice value);
hf_code hf_alter_note_gone(hf_transaction *transaction, const hf_table *table, uint32_t added, hf_slice key);
hf_code hf_alter_push(hf_alter *alter, uint32_t index, hf_slice key, size_t prefix, hf_slice value);
hf_code hf_alter_finish(hf_alter *alter);
hf_code hf_alter_duplicate(const hf_alter *alter, uint32_t *index, hf_slice *key, hf_slice *value);
hf_code hf_alter_become(hf_alter *alter, const hf_index_source *indexes, size_t count, hf_slice definition);
hf_code hf_alter_commit(const hf_database *database, hf_alter *const *alters, size_t count,
                        const hf_definition *definitions, size_t definition_count,
                        uint64_t lock_wait_timeout_ms);
hf_code hf_alter_free(hf_alter *alter);

hf_code hf_cursor_open(const hf_table *table, uint32_t index, hf_cursor **out);
hf_code hf_cursor_close(hf_cursor *cursor);
hf_code hf_cursor_unlock(hf_cursor *cursor);
hf_code hf_cursor_release(hf_cursor *cursor);
hf_code hf_cursor_seek(hf_cursor *cursor, hf_transaction *transaction, const hf_seek *seek);
hf_code hf_cursor_is_given_unlocked(const hf_cursor *cursor, bool *out);
hf_code hf_cursor_lock_given(hf_cursor *cursor, hf_slice *key, hf_slice *value);
hf_code hf_cursor_next(hf_cursor *cursor, hf_slice *key, hf_slice *value);

typedef struct {
  hf_slice key;
  hf_slice value;
} hf_entry;

hf_code hf_cursor_look_ahead(hf_cursor *cursor, size_t passed, hf_entry *out, size_t max, size_t *count);
uint64_t hf_cursor_changes(const hf_cursor *cursor);

/* How many entries there are and what their hashes add up to, in any order: sets that are not the same have other sums, but for a
   chance of 2^-64. It begins with zeros. */
typedef struct {
  uint64_t count;
  uint64_t hashes;
} hf_entry_sum;

hf_code hf_entry_sum_add(hf_entry_sum *sum, hf_slice key, hf_slice value);

#ifdef __cplusplus
}
#endif

#endif
