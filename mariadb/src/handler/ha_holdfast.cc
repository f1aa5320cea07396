/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "ha_holdfast.h"
#include "plugin/errors.h"
#include "plugin/others.h"

using namespace holdfast;

ha_holdfast::~ha_holdfast()
{
  end_alone();
  hf_cursor_close(scan.cursor);
  hf_buffer_free(row);
  hf_buffer_free(linking.row);
  hf_load_free(copying.load);
}

handler::Table_flags ha_holdfast::table_flags() const
{
  Table_flags flags= HA_REC_NOT_IN_SEQ | HA_NULL_IN_KEY | HA_CAN_INDEX_BLOBS | HA_CAN_SQL_HANDLER | HA_CAN_GEOMETRY |
    HA_CAN_VIRTUAL_COLUMNS | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE | HA_PRIMARY_KEY_REQUIRED_FOR_POSITION |
    HA_PRIMARY_KEY_IN_READ_INDEX | HA_PARTIAL_COLUMN_READ |
    HA_TABLE_SCAN_ON_INDEX | HA_BINLOG_ROW_CAPABLE | HA_CAN_ONLINE_BACKUPS | HA_CONCURRENT_OPTIMIZE | HA_CRASH_SAFE |
    HA_CAN_SKIP_LOCKED | HA_ONLINE_ANALYZE | HA_CAN_TABLES_WITHOUT_ROLLBACK;
  // Without locks on ranges a statement may see other rows where it is run again, and a row with an
  // equal text may come between the server's look for one and the insert.
  THD *thd= ha_thd();
  // Without a primary key this flag has all columns read, large and virtual ones as well, whatever
  // a statement changes.
  if (table_share && table_share->primary_key != MAX_KEY)
    flags|= HA_PRIMARY_KEY_REQUIRED_FOR_DELETE;
  bool locks_ranges= !thd || thd_tx_isolation(thd) >= ISO_REPEATABLE_READ;
  return flags | (locks_ranges ? HA_BINLOG_STMT_CAPABLE : HA_CHECK_UNIQUE_AFTER_WRITE);
}

ulong ha_holdfast::index_flags(uint index, uint, bool) const
{
  ulong flags= HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE | HA_KEYREAD_ONLY |
    HA_DO_INDEX_COND_PUSHDOWN;
  if (table_share && index == table_share->primary_key)
    flags|= HA_CLUSTERED_INDEX;
  return flags;
}

int ha_holdfast::fail(hf_code code, int not_found)
{
  return server_error(code, ha_thd(), not_found);
}

int ha_holdfast::damaged()
{
  my_printf_error(ER_UNKNOWN_ERROR, "Holdfast: table %s holds bytes that are no row of it", MYF(ME_ERROR_LOG),
                  name.c_str());
  return HA_ERR_CRASHED;
}

/* Statements */

/* True if the statement locks what it reads in other tables than those that it changes. As with
   InnoDB, some do at every level: so do assignments, and what a routine decides by, which has no
   command (SQLCOM_END). */
static bool reads_to_write(int command, int isolation)
{
  switch (command) {
  case SQLCOM_INSERT_SELECT:
  case SQLCOM_REPLACE_SELECT:
  case SQLCOM_UPDATE:
  case SQLCOM_CREATE_TABLE:
    return isolation >= ISO_REPEATABLE_READ;
  case SQLCOM_INSERT:
  case SQLCOM_REPLACE:
  case SQLCOM_UPDATE_MULTI:
  case SQLCOM_DELETE:
  case SQLCOM_DELETE_MULTI:
  case SQLCOM_LOAD:
  case SQLCOM_SET_OPTION:
  case SQLCOM_DO:
  case SQLCOM_CALL:
  case SQLCOM_END:
    return true;
  default:
    return false;
  }
}

/* True if the statement that locks a table so may replace it by a copy. */
static bool is_to_be_copied(THD *thd, thr_lock_type type)
{
  int command= thd_sql_command(thd);
  return type == TL_READ_NO_INSERT && (command == SQLCOM_ALTER_TABLE || command == SQLCOM_CREATE_INDEX ||
                                       command == SQLCOM_DROP_INDEX || command == SQLCOM_OPTIMIZE);
}

/* True if a function that changes tables, and is going to the binary log as the statement that
   calls it, reads this one: what it reads has to be the same where the statement is run again. */
static bool reads_to_log(thr_lock_type type, int command)
{
  return type == TL_READ_NO_INSERT && command == SQLCOM_SELECT;
}

THR_LOCK_DATA **ha_holdfast::store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type)
{
  // Rows of a sequence are read without locks.
  if (type == TL_IGNORE || is_sequence)
    return to;
  int isolation= thd_tx_isolation(thd);
  is_to_be_replaced= is_to_be_copied(thd, type);
  reading.skip_locked= type == TL_READ_SKIP_LOCKED || type == TL_WRITE_SKIP_LOCKED;
  if (type >= TL_FIRST_WRITE)
    reading.lock= HF_LOCK_EXCLUSIVE;
  else if (type == TL_READ_WITH_SHARED_LOCKS || type == TL_READ_SKIP_LOCKED)
    reading.lock= HF_LOCK_SHARED;
  else if (reads_to_write(thd_sql_command(thd), isolation) ||
           (isolation >= ISO_REPEATABLE_READ && reads_to_log(type, thd_sql_command(thd))))
    reading.lock= HF_LOCK_SHARED;
  else if (isolation == ISO_SERIALIZABLE && thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN))
    reading.lock= HF_LOCK_SHARED;
  else
    reading.lock= HF_LOCK_NONE;
  reading.outer_lock= reading.lock;
  return to;
}

int ha_holdfast::external_lock(THD *thd, int type)
{
  connection= Connection::of(thd);
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  if (is_sequence)
    end_alone();
  if (type == F_UNLCK)
  {
    connection->table_unlocked();
    // What HANDLER reads goes on in a later statement.
    if (table->open_by_handler)
      leave_cursor();
    return 0;
  }
  // Another node would give out the values of a sequence again.
  if (type == F_WRLCK)
  {
    if (int error= refuse_in_cluster(thd, table_share, table_share->tmp_table != NO_TMP_TABLE))
      return error;
  }
  if (type == F_WRLCK && !is_sequence)
  {
    reading.lock= reading.outer_lock= HF_LOCK_EXCLUSIVE;
    if (int error= check_followers(thd))
      return error;
  }
  if (int error= begin_statement(thd))
    return error;
  connection->table_locked();
  return 0;
}

/* What a prepared transaction has changed would not be in a copy. */
int ha_holdfast::begin_statement(THD *thd)
{
  hf_code code= is_to_be_replaced ? check_unprepared(name) : HF_OK;
  if (code == HF_INTERRUPTED)
    thd->send_kill_message(); // The server would say that it cannot lock the table.
  return code != HF_OK ? fail(code) : connection->statement(thd);
}

/* How a statement under LOCK TABLES, or within a function or trigger, locks what it reads, whose
   table was locked as `outer` says: a SELECT reads its snapshot, whatever is around it. */
static hf_lock lock_of_inner_statement(THD *thd, thr_lock_type type, hf_lock outer)
{
  if (type >= TL_FIRST_WRITE)
    return HF_LOCK_EXCLUSIVE;
  bool is_plain= type == TL_READ && thd_sql_command(thd) == SQLCOM_SELECT;
  return is_plain && thd_tx_isolation(thd) != ISO_SERIALIZABLE ? HF_LOCK_NONE : outer;
}

int ha_holdfast::start_stmt(THD *thd, thr_lock_type type)
{
  connection= Connection::of(thd);
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  if (!is_sequence)
    reading.lock= lock_of_inner_statement(thd, type, reading.outer_lock);
  // Under LOCK TABLES another statement has locked the table.
  is_to_be_replaced= !is_sequence && is_to_be_copied(thd, type);
  return begin_statement(thd);
}

/* The statement is over, and with it the record: its blobs may have been the cursor's. */
int ha_holdfast::reset()
{
  if (scan.cursor)
  {
    pass_shown();
    hf_cursor_release(scan.cursor);
  }
  Connection::table_reset(ha_thd());
  if (writing.rows_moved)
    share->note_moved(writing.rows_moved);
  reading.end_statement();
  place.end_statement();
  writing.end_statement();
  copying.end_statement();
  counting.end_statement();
  linking.end_statement();
  end_alone();
  mrr.dsmrr_close();
  give_back_memory();
  return 0;
}

/* A handler may be used after its transaction was committed in the middle of a statement. */
int ha_holdfast::begin_transaction()
{
  if (is_sequence)
    return begin_alone();
  if (connection && connection->transaction)
    return 0;
  connection= Connection::of(ha_thd());
  return connection ? connection->statement(ha_thd()) : HA_ERR_OUT_OF_MEM;
}

/* Cursors */

int ha_holdfast::open_cursor(uint index)
{
  if (int error= begin_transaction())
    return error;
  place.position= NOWHERE;
  pass_shown();
  if (scan.cursor && scan.index == index && scan.generation == share->generation())
    return 0;
  hf_cursor_close(scan.cursor);
  scan.cursor= nullptr;
  scan.index= index;
  scan.generation= share->generation();
  return fail(hf_cursor_open(share->table(), index, &scan.cursor));
}

int ha_holdfast::seek(const Bytes &from, bool from_included, const Bytes &to, bool to_included, bool backward)
{
  pass_shown();
  place.is_left= false;
  place.leave_row();
  place.given_unlocked= false;
  scan.heads_only= wants_heads();
  scan.locks= reading.lock != HF_LOCK_NONE;
  bool committed_if_locked= reading.is_semi_consistent && scan.index == 0;
  hf_seek where= {slice(from), slice(to), from_included, to_included, backward, reading.skip_locked, reading.is_scan, scan.heads_only,
                  committed_if_locked, lock_of_rows()};
  scan.is_backward= backward;
  return fail(hf_cursor_seek(scan.cursor, transaction(), &where));
}

/* Stands at the entry read last, or at the end that was come to, to go on in a direction to the end
   of the range that the server reads, or of the index. */
int ha_holdfast::seek_from_here(bool backward)
{
  scan.is_bounded= end_range && !backward;
  keep_key();
  static const Bytes open;
  if (place.is_beyond())
  {
    place.position= NOWHERE;
    return seek(open, true, scan.is_bounded ? range_read.end : open, false, backward);
  }
  return backward ? seek(open, true, place.entry_key, false, true)
    : seek(place.entry_key, false, scan.is_bounded ? range_read.end : open, false, false);
}

/* True if entries do, without their rows. A locking read that is going to write locks the row,
   whatever the index has. The server wants the columns of the primary key, too, since it may ask
   for the row's position; where a key was cut, the columns themselves are compared; and a
   partitioned table that merges its partitions compares all columns of the key, also those of which
   entries have only the beginning. */
bool ha_holdfast::is_covered()
{
  return scan.index != 0 && reading.lock != HF_LOCK_EXCLUSIVE && keyread_enabled() && active_index != MAX_KEY &&
    share->keys[active_index].has_place() && !sought.is_loose && !range_read.is_end_loose &&
    !share->keys[active_index].has_only_beginning(table->read_set);
}

/* True if rows are to be read whole: a statement that may write them needs all columns. */
bool ha_holdfast::all_columns() const
{
  return reading.lock == HF_LOCK_EXCLUSIVE || is_sequence;
}

/* How rows are locked. Those of children are whatever the snapshot sees of their table. */
hf_lock ha_holdfast::lock_of_rows() const
{
  return reading.follows_link && reading.lock == HF_LOCK_EXCLUSIVE ? HF_LOCK_LINKED_EXCLUSIVE : reading.lock;
}

/* True if the heads of rows do. */
bool ha_holdfast::wants_heads() const
{
  return reading.lock == HF_LOCK_NONE && !reading.heads_refused && share->layout.heads_do(table);
}

/* Keeps the key of the entry read last: the cursor is going to use its memory for other things. */
void ha_holdfast::keep_key()
{
  if (!place.key_in_cursor.data)
    return;
  place.entry_key.assign(place.key_in_cursor.data, place.key_in_cursor.data + place.key_in_cursor.len);
  if (scan.index == 0)
    row_key= place.entry_key;
  place.key_in_cursor.data= nullptr;
}

/* The entries that were shown ahead count no more, but for those that have been given. */
void ha_holdfast::pass_shown()
{
  keep_key();
  if (ahead.given)
    hf_cursor_look_ahead(scan.cursor, ahead.given, nullptr, 0, nullptr);
  ahead.given= ahead.count= 0;
  ahead.asked= 1;
}

/* The statement is over, without a reset. A read that goes on afterwards seeks from the
   place of the entry read last. */
void ha_holdfast::leave_cursor()
{
  pass_shown();
  if (scan.cursor)
    hf_cursor_release(scan.cursor);
  Connection::table_reset(ha_thd());
  place.leave_entry();
  place.is_left= true;
}

/* Lets the cursor show what comes next, behind the entries that have been given. */
hf_code ha_holdfast::show_entries()
{
  keep_key();
  bool all_given= ahead.given == ahead.count;
  ahead.asked= all_given ? MY_MIN(ahead.asked * 2, ahead.MAX) : 1;
  size_t given= ahead.given, count= 0;
  ahead.given= ahead.count= 0;
  hf_code code= hf_cursor_look_ahead(scan.cursor, given, ahead.entries, ahead.asked, &count);
  ahead.count= count;
  ahead.changes= hf_cursor_changes(scan.cursor);
  return code;
}

/* The next entry of the cursor. If the last one was locked by others and the server wants it, that
   one again, as soon as it is not. */
inline hf_code ha_holdfast::next_entry(hf_slice *key, hf_slice *value)
{
  if (!scan.locks && !has_shown())
  {
    hf_code code= show_entries();
    if (code != HF_OK)
      return code;
  }
  if (ahead.given < ahead.count)
  {
    *key= ahead.entries[ahead.given].key;
    *value= ahead.entries[ahead.given].value;
    ahead.given++;
    return HF_OK;
  }
  if (place.given_unlocked)
  {
    place.given_unlocked= false;
    hf_code code= hf_cursor_lock_given(scan.cursor, key, value);
    if (code != HF_NOT_FOUND)
      return code;
  }
  hf_code code= hf_cursor_next(scan.cursor, key, value);
  if (code == HF_OK && reading.is_semi_consistent)
    return hf_cursor_is_given_unlocked(scan.cursor, &place.given_unlocked);
  return code;
}

/* The next entry of the cursor, as a record. */
int ha_holdfast::fetch(uchar *record, int not_found)
{
  for (;;)
  {
    if (++rows_read % ROWS_BETWEEN_LOOKS == 0 && thd_kill_level(ha_thd()))
      return HA_ERR_ABORTED_BY_USER;
    hf_slice key, value;
    hf_code code= next_entry(&key, &value);
    if (code != HF_OK)
      return fail(code, not_found);
    place.key_in_cursor= key;
    if (scan.locks)
      keep_key();
    place.position= AT_ENTRY;
    place.row_was_got= false;
    place.followed= connection->followed;
    int error= show_entry(record, key, value);
    // The row is gone, or locked and passed over, or the pushed condition does not hold for it.
    if (error != HA_ERR_KEY_NOT_FOUND)
      return error;
    unlock_row();
  }
}

/* True if the entry that was read, with so many bytes of index key, does not have
   its columns: the row has. */
bool ha_holdfast::is_cut(size_t index_key) const
{
  return share->keys[active_index].is_cut(index_key) ||
    (share->has_primary_key() && primary_key().is_cut(row_key.size()));
}

/* The columns of an index, and those of the primary key, from an entry. */
bool ha_holdfast::decode_entry(uchar *record, hf_slice key, hf_slice value)
{
  const uchar *at= key.data, *end= at + key.len, *rest= value.data, *rest_end= rest + value.len;
  size_t prefix;
  return take_length(&rest, rest_end, &prefix) &&
    share->keys[active_index].decode(table, record, &at, end, &rest, rest_end) &&
    (!share->has_primary_key() || primary_key().decode(table, record, &at, end, &rest, rest_end));
}

int ha_holdfast::show_entry(uchar *record, hf_slice key, hf_slice value)
{
  if (scan.index == 0)
    return show_row(record, value, scan.heads_only, HA_ERR_KEY_NOT_FOUND);
  size_t prefix;
  if (!find_row_key(key, value, &row_key, &prefix))
    return damaged();
  bool cut= is_cut(prefix), covered= !cut && is_covered();
  bool conditional= pushed_idx_cond && pushed_idx_cond_keyno == active_index && record == table->record[0];
  if (covered || (!cut && conditional))
  {
    if (!decode_entry(record, key, value))
      return damaged();
    int error= conditional ? check_pushed_condition() : 0;
    if (error || covered)
      return error;
  }
  int error= read_by_row_key(record, HA_ERR_KEY_NOT_FOUND);
  return !error && cut && conditional ? check_pushed_condition() : error;
}

/* True if the record stands to a key in the server's format as `find` wants. */
bool ha_holdfast::agrees(uchar *record, const uchar *key, uint length, enum ha_rkey_function find)
{
  KEY_PART_INFO *parts= table->key_info[active_index].key_part;
  my_ptrdiff_t distance= record - table->record[0];
  uint count= table->key_info[active_index].ext_key_parts;
  for (uint i= 0; i < count; i++)
    parts[i].field->move_field_offset(distance);
  int difference= key_cmp(parts, key, length);
  for (uint i= 0; i < count; i++)
    parts[i].field->move_field_offset(-distance);
  switch (find) {
  case HA_READ_KEY_OR_NEXT:
    return difference >= 0;
  case HA_READ_AFTER_KEY:
    return difference > 0;
  case HA_READ_KEY_OR_PREV:
  case HA_READ_PREFIX_LAST_OR_PREV:
    return difference <= 0;
  case HA_READ_BEFORE_KEY:
    return difference < 0;
  default:
    return difference == 0;
  }
}

/* The next entry of the cursor whose columns agree with what was looked for. */
int ha_holdfast::fetch_agreeing(uchar *record, const uchar *key, uint length, enum ha_rkey_function find, int not_found)
{
  for (;;)
  {
    int error= fetch(record, not_found);
    if (error || agrees(record, key, length, find))
      return error;
    unlock_row();
  }
}

/* The row under `row_key`. */
int ha_holdfast::read_by_row_key(uchar *record, int not_found)
{
  bool head_only= wants_heads();
  hf_code code= hf_get(transaction(), share->table(), 0, slice(row_key), lock_of_rows(), reading.skip_locked, head_only, row);
  if (code != HF_OK)
    return fail(code, not_found);
  place.row_was_got= true;
  place.followed= connection->followed;
  if (reading.lock != HF_LOCK_NONE)
    hf_early_release(transaction(), &place.release);
  hf_slice bytes;
  hf_buffer_bytes(row, &bytes);
  return show_row(record, bytes, head_only, not_found);
}

/* The row under `row_key`, or its head, as a record. If the head does not do, the whole row is
   read, and no more heads by this statement. */
int ha_holdfast::show_row(uchar *record, hf_slice bytes, bool head_only, int not_found)
{
  Row_layout::Decoded decoded= share->layout.decode(table, record, bytes.data, bytes.len, all_columns());
  if (decoded == Row_layout::CUT && head_only)
  {
    reading.heads_refused= true;
    keep_key();
    return read_by_row_key(record, not_found);
  }
  return decoded == Row_layout::DECODED ? 0 : damaged();
}

/* The row read last does not qualify. At READ COMMITTED its locks are given up, unless the
   transaction had them before. */
void ha_holdfast::unlock_row()
{
  place.given_unlocked= false;
  if (reading.lock == HF_LOCK_NONE || !connection || !transaction())
    return;
  if (place.row_was_got)
    hf_unlock(transaction(), share->table(), 0, slice(row_key), place.release);
  if (scan.cursor && place.position == AT_ENTRY)
    hf_cursor_unlock(scan.cursor);
  place.row_was_got= false;
}

/* An UPDATE is going to look for its rows, or is done with that. */
void ha_holdfast::try_semi_consistent_read(bool yes)
{
  reading.is_semi_consistent= yes && thd_tx_isolation(ha_thd()) <= ISO_READ_COMMITTED;
  place.given_unlocked= false;
}

/* Scans */

int ha_holdfast::rnd_init(bool all_rows)
{
  reading.is_scan= false;
  end_alone();
  if (!all_rows)
  {
    // Rows are got by their positions: `unlock_row` is not to unlock the entry read last.
    place.leave_entry();
    return begin_transaction();
  }
  active_index= MAX_KEY;
  if (int error= open_cursor(0))
    return error;
  static const Bytes open;
  scan.is_bounded= false;
  return seek(open, true, open, false, false);
}

int ha_holdfast::rnd_next(uchar *record)
{
  if (place.is_left)
    return index_next(record);
  int error= fetch(record, HA_ERR_END_OF_FILE);
  if (error == HA_ERR_END_OF_FILE)
    stand_beyond(false);
  return error;
}

/* A position is the row's key; one of variable length with its length at the end, so that
   positions sort like keys. */
void ha_holdfast::position(const uchar *record)
{
  key_a.clear();
  if (share->has_primary_key())
    primary_key().encode_record(table, record, &key_a);
  else
  {
    keep_key();
    key_a= row_key;
  }
  memset(ref, 0, ref_length);
  if (key_a.size() == ref_length)
  {
    memcpy(ref, key_a.data(), ref_length);
    return;
  }
  memcpy(ref, key_a.data(), MY_MIN(key_a.size(), ref_length - 2));
  int2store(ref + ref_length - 2, key_a.size());
}

int ha_holdfast::rnd_pos(uchar *record, uchar *position)
{
  if (int error= begin_transaction())
    return error;
  keep_key();
  bool fixed= !share->has_primary_key() || primary_key().is_fixed();
  if (fixed)
    row_key.assign(position, position + ref_length);
  else
    row_key.assign(position, position + MY_MIN(uint2korr(position + ref_length - 2), ref_length - 2));
  return read_by_row_key(record, HA_ERR_KEY_NOT_FOUND);
}
