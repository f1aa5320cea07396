/* The interface in a C program, which `cargo xtask test sanitizers` compiles with AddressSanitizer
   and UndefinedBehaviorSanitizer: what the header declares is what the library has, memory that
   crosses the border is in bounds and is freed. The argument is a folder that does not exist yet.
   SPDX-License-Identifier: MIT */

#include "holdfast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                              \
  do                                                                                                                  \
  {                                                                                                                   \
    if (!(condition))                                                                                                 \
    {                                                                                                                 \
      fprintf(stderr, "%s:%d: %s does not hold: %s\n", __FILE__, __LINE__, #condition, hf_error_message());          \
      exit(1);                                                                                                        \
    }                                                                                                                 \
  } while (0)

#define OK(call) CHECK((call) == HF_OK)

static const uint64_t WAIT_MS= 1000;

static hf_slice text(const char *chars)
{
  hf_slice slice= {(const uint8_t *) chars, strlen(chars)};
  return slice;
}

static bool is(hf_slice slice, const char *chars)
{
  return slice.len == strlen(chars) && !memcmp(slice.data, chars, slice.len);
}

static hf_database *open_database(const char *path)
{
  hf_settings settings;
  memset(&settings, 0, sizeof(settings));
  settings.struct_size= sizeof(settings);
  settings.flush_method= HF_FLUSH_METHOD_FSYNC;
  settings.warm_up= settings.scan_hints= true;
  hf_database *database= NULL;
  settings.struct_size++;
  CHECK(hf_open(text(path), &settings, &database) == HF_INVALID && strstr(hf_error_message(), "struct_size"));
  settings.struct_size--;
  OK(hf_open(text(path), &settings, &database));
  return database;
}

static hf_transaction *begin(const hf_database *database)
{
  hf_transaction_options options= {sizeof(options), HF_ISOLATION_REPEATABLE_READ, false, false};
  hf_transaction *transaction= NULL;
  uint64_t savepoint= 0;
  OK(hf_begin(database, &options, &transaction));
  OK(hf_statement(transaction, WAIT_MS, &savepoint));
  return transaction;
}

static void end(hf_transaction *transaction)
{
  OK(hf_statement_end(transaction));
  OK(hf_commit(transaction, HF_FLUSH_SYNC));
  OK(hf_transaction_free(transaction));
}

static hf_table *create(const hf_database *database, const char *name)
{
  hf_index_spec indexes[2];
  memset(indexes, 0, sizeof(indexes));
  indexes[0].name= text("rows");
  indexes[0].unique= true;
  indexes[1].name= text("by_name");
  hf_table *table= NULL;
  OK(hf_table_create(database, text(name), indexes, 2, text("definition"), false));
  CHECK(hf_table_create(database, text(name), indexes, 2, text(""), false) == HF_TABLE_EXISTS);
  OK(hf_table_open(database, text(name), &table));
  return table;
}

static void rows_are_written(const hf_database *database, const hf_table *table)
{
  static char large[100000];
  memset(large, 'x', sizeof(large));
  hf_slice value= {(const uint8_t *) large, sizeof(large)};
  hf_transaction *transaction= begin(database);
  OK(hf_insert(transaction, table, 0, text("1"), text("one"), 0, HF_LOCK_NONE));
  OK(hf_insert(transaction, table, 0, text("2"), value, 10, HF_LOCK_NONE));
  CHECK(hf_insert(transaction, table, 0, text("1"), text("one"), 0, HF_LOCK_SHARED) == HF_DUPLICATE_KEY);
  OK(hf_insert_unique(transaction, table, 1, text("one1"), 3, text("\3"), HF_LOCK_SHARED));
  uint64_t savepoint= 0, serial= 0, changes= 0;
  OK(hf_savepoint(transaction, true, &savepoint));
  OK(hf_update(transaction, table, 0, text("1"), text("ONE"), 0));
  OK(hf_delete(transaction, table, 0, text("2")));
  CHECK(hf_delete(transaction, table, 0, text("3")) == HF_NOT_FOUND);
  OK(hf_transaction_info(transaction, &serial, &changes));
  CHECK(serial && changes);
  OK(hf_rollback_to(transaction, savepoint));
  OK(hf_lock_name(transaction, text("name")));
  OK(hf_unlock_name(transaction, text("name")));
  hf_buffer *row= NULL;
  hf_slice bytes;
  OK(hf_buffer_new(&row));
  OK(hf_get(transaction, table, 0, text("2"), HF_LOCK_NONE, false, false, row));
  OK(hf_buffer_bytes(row, &bytes));
  CHECK(bytes.len == sizeof(large) && !memcmp(bytes.data, large, sizeof(large)));
  CHECK(hf_get(transaction, table, 0, text("3"), HF_LOCK_EXCLUSIVE, false, false, row) == HF_NOT_FOUND);
  OK(hf_get(transaction, table, 0, text("2"), HF_LOCK_SHARED, false, false, NULL));
  CHECK(hf_get(transaction, table, 0, text("3"), HF_LOCK_NONE, false, false, NULL) == HF_NOT_FOUND);
  hf_release release= HF_RELEASE_ALL;
  OK(hf_early_release(transaction, &release));
  OK(hf_unlock(transaction, table, 0, text("3"), release));
  OK(hf_buffer_clear(row, 10));
  OK(hf_buffer_bytes(row, &bytes));
  CHECK(bytes.len == 0);
  OK(hf_buffer_free(row));
  end(transaction);
}

static void rows_are_read(const hf_database *database, const hf_table *table)
{
  hf_transaction *transaction= begin(database);
  hf_cursor *cursor= NULL;
  hf_seek seek;
  memset(&seek, 0, sizeof(seek));
  seek.from_included= seek.backward= true;
  OK(hf_cursor_open(table, 0, &cursor));
  OK(hf_cursor_seek(cursor, transaction, &seek));
  hf_slice key, value;
  OK(hf_cursor_next(cursor, &key, &value));
  CHECK(is(key, "2") && value.len == 100000);
  OK(hf_cursor_next(cursor, &key, &value));
  CHECK(is(key, "1") && is(value, "one"));
  CHECK(hf_cursor_next(cursor, &key, &value) == HF_NOT_FOUND);
  seek.backward= false;
  seek.head_only= true;
  OK(hf_cursor_seek(cursor, transaction, &seek));
  OK(hf_cursor_next(cursor, &key, &value));
  hf_entry ahead[4];
  size_t count= 0;
  OK(hf_cursor_look_ahead(cursor, 0, ahead, 4, &count));
  CHECK(count <= 4);
  CHECK(hf_cursor_changes(cursor) == hf_cursor_changes(cursor));
  seek.lock= HF_LOCK_EXCLUSIVE;
  OK(hf_cursor_seek(cursor, transaction, &seek));
  OK(hf_cursor_next(cursor, &key, &value));
  OK(hf_cursor_unlock(cursor));
  OK(hf_cursor_release(cursor));
  OK(hf_cursor_close(cursor));
  hf_entry_sum sum= {0, 0};
  OK(hf_entry_sum_add(&sum, text("1"), text("one")));
  CHECK(sum.count == 1 && sum.hashes);
  OK(hf_rollback(transaction));
  OK(hf_transaction_free(transaction));
}

static void count_call(void *context)
{
  ++*(uint64_t *) context;
}

static void count_table(void *context, hf_slice name, hf_slice definition)
{
  CHECK(is(name, "t") && is(definition, "definition"));
  count_call(context);
}

static void count_key(void *context, hf_slice key, bool first)
{
  CHECK(key.len || first);
  count_call(context);
}

static void no_finding(void *context, hf_slice finding)
{
  (void) context;
  fprintf(stderr, "%.*s\n", (int) finding.len, (const char *) finding.data);
  exit(1);
}

static void tables_are_described(const hf_database *database, const hf_table *table)
{
  uint64_t number= 0, calls= 0;
  hf_slice name;
  OK(hf_table_rows(table, 0, &number));
  CHECK(number == 2);
  OK(hf_table_bytes(table, &number));
  OK(hf_index_leaves(table, 1, &number));
  OK(hf_index_name(table, 1, &name));
  CHECK(is(name, "by_name") && hf_index_name(table, 2, &name) == HF_NOT_FOUND);
  OK(hf_index_sample(table, 0, 10, count_key, &calls));
  OK(hf_table_list(database, count_table, &calls));
  CHECK(calls == 3);
  OK(hf_estimate(table, 0, text(""), text(""), &number));
  OK(hf_table_verify(database, text("t"), true, no_finding, NULL));
  hf_buffer *out= NULL;
  OK(hf_buffer_new(&out));
  OK(hf_index_first_key(table, 0, text(""), out));
  OK(hf_table_definition(database, text("t"), out));
  OK(hf_status_text(database, out));
  OK(hf_buffer_append(out, text("more")));
  OK(hf_buffer_free(out));
  OK(hf_mark_take(table, HF_MARK_ROW_ID, 3, &number));
  OK(hf_mark_raise(table, HF_MARK_AUTO_INCREMENT, 100, 10));
  OK(hf_mark_get(table, HF_MARK_AUTO_INCREMENT, &number));
  CHECK(number == 100);
}

static void count_column(void *context, const hf_column *column)
{
  CHECK(column->name.len && column->kind <= HF_KIND_TIME);
  count_call(context);
}

static bool check_cells(void *context, const hf_cell *cells, size_t count)
{
  CHECK(count == *(uint64_t *) context);
  for (size_t i= 0; i < count; i++)
    CHECK(cells[i].kind <= HF_KIND_TIME && (cells[i].kind != HF_KIND_TEXT || cells[i].text.data));
  return true;
}

static void every_listing_is_read(const hf_database *database)
{
  hf_slice name;
  for (uint32_t number= 0; hf_listing_name(number, &name) == HF_OK; number++)
  {
    uint64_t columns= 0;
    OK(hf_listing_columns(number, count_column, &columns));
    OK(hf_listing_rows(database, number, check_cells, &columns));
  }
}

static void an_index_is_added(const hf_database *database, hf_table **table)
{
  hf_index_spec spec= {text("added"), false};
  hf_index_source sources[2];
  memset(sources, 0, sizeof(sources));
  sources[0].index= 1;
  sources[1].added= true;
  hf_alter *alter= NULL;
  OK(hf_alter_begin(database, text("t"), &spec, 1, false, WAIT_MS, &alter));
  OK(hf_alter_push(alter, 0, text("a1"), 2, text("\1")));
  OK(hf_alter_push(alter, 0, text("b2"), 2, text("\1")));
  OK(hf_alter_finish(alter));
  OK(hf_alter_become(alter, sources, 2, text("definition")));
  OK(hf_table_close(*table));
  OK(hf_alter_commit(database, &alter, 1, NULL, 0, WAIT_MS));
  OK(hf_alter_free(alter));
  OK(hf_table_open(database, text("t"), table));
}

static void a_table_is_made_anew(const hf_database *database, hf_table **table)
{
  hf_load *load= NULL;
  hf_slice definition= text("definition");
  OK(hf_load_begin_anew(*table, WAIT_MS, &load));
  OK(hf_load_push(load, 0, text("1"), 1, text("one"), 0));
  CHECK(hf_load_replace(database, &load, &definition, 1) == HF_INVALID);
  OK(hf_load_finish(load));
  OK(hf_load_free(load));
  OK(hf_load_begin_anew(*table, WAIT_MS, &load));
  OK(hf_load_push(load, 0, text("1"), 1, text("one"), 0));
  OK(hf_load_push(load, 0, text("2"), 1, text("two"), 0));
  OK(hf_load_push(load, 1, text("a1"), 2, text("\1"), 0));
  OK(hf_load_push(load, 1, text("b2"), 2, text("\1"), 0));
  OK(hf_load_push(load, 2, text("a1"), 2, text("\1"), 0));
  OK(hf_load_push(load, 2, text("b2"), 2, text("\1"), 0));
  OK(hf_load_finish(load));
  OK(hf_table_close(*table));
  OK(hf_load_replace(database, &load, &definition, 1));
  OK(hf_load_free(load));
  OK(hf_table_open(database, text("t"), table));
  uint64_t number= 0;
  OK(hf_table_rows(*table, 0, &number));
  CHECK(number == 2);
  OK(hf_mark_get(*table, HF_MARK_AUTO_INCREMENT, &number));
  CHECK(number == 100);
}

static void count_xid(void *context, hf_slice xid)
{
  CHECK(is(xid, "xid"));
  count_call(context);
}

static void a_transaction_is_prepared(const hf_database *database, const hf_table *table)
{
  hf_transaction *transaction= begin(database);
  CHECK(hf_release_reads(transaction) == HF_INVALID);
  OK(hf_update(transaction, table, 0, text("1"), text("prepared"), 0));
  OK(hf_prepare(transaction, text("xid"), HF_FLUSH_SYNC));
  OK(hf_release_reads(transaction));
  OK(hf_transaction_free(transaction));
  uint64_t count= 0;
  OK(hf_prepared(database, count_xid, &count));
  CHECK(count == 1);
  OK(hf_adopt(database, text("xid"), &transaction));
  OK(hf_rollback(transaction));
  OK(hf_transaction_free(transaction));
}

static bool goes_on(void *context)
{
  (void) context;
  return false;
}

static void a_backup_is_made(const hf_database *database, const char *path)
{
  char to[4096];
  hf_backup_report report;
  snprintf(to, sizeof(to), "%s-backup", path);
  OK(hf_backup(database, text(to), 0, goes_on, NULL, &report));
  CHECK(report.files && report.bytes);
}

int main(int count, char **arguments)
{
  CHECK(count == 2);
  CHECK(hf_api_version() == HF_API_VERSION);
  const char *path= arguments[1];
  hf_database *database= open_database(path);
  hf_table *table= create(database, "t");
  rows_are_written(database, table);
  rows_are_read(database, table);
  tables_are_described(database, table);
  every_listing_is_read(database);
  an_index_is_added(database, &table);
  a_table_is_made_anew(database, &table);
  a_transaction_is_prepared(database, table);
  a_backup_is_made(database, path);
  OK(hf_table_close(table));
  OK(hf_close(database));
  database= open_database(path);
  OK(hf_table_truncate(database, text("t"), WAIT_MS));
  OK(hf_table_rename(database, text("t"), text("u"), NULL, 0));
  OK(hf_table_drop(database, text("u"), WAIT_MS));
  CHECK(hf_table_open(database, text("u"), &table) == HF_TABLE_NOT_FOUND);
  OK(hf_close(database));
  OK(hf_close(NULL));
  CHECK(hf_checkpoint(NULL) == HF_INVALID);
  puts("the C interface holds");
  return 0;
}
