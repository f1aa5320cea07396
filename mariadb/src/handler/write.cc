/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Writing rows: the row itself, then the entries of the other indexes, in the order of the keys,
   then what references ask for; what a new row refers to is looked for before the entry of each
   key. Whatever fails in the middle is undone, so that the server can go on with the row (REPLACE,
   ON DUPLICATE KEY UPDATE, IGNORE). */

#include "plugin/errors.h"
#include "ha_holdfast.h"

using namespace holdfast;

/* The new row's key is the next hidden row id. */
int ha_holdfast::take_row_id()
{
  uint64_t id;
  hf_code code= hf_mark_take(share->table(), HF_MARK_ROW_ID, 1, &id);
  if (code != HF_OK)
    return fail(code);
  new_row.key.resize(ROW_ID_LENGTH);
  for (uint i= 0; i < ROW_ID_LENGTH; i++)
    new_row.key[i]= (uchar) (id >> (8 * (ROW_ID_LENGTH - 1 - i)));
  return 0;
}

/* The entry of an index for a row: its key, what is kept beside it, and the
   length of the index key in it. */
void ha_holdfast::make_entry(const Index_key &index, const uchar *record, const Bytes &row_key_arg, Bytes *key,
                             Bytes *rest, size_t *prefix)
{
  key->clear();
  rest->clear();
  index.encode_record(table, record, key);
  *prefix= key->size();
  key->insert(key->end(), row_key_arg.begin(), row_key_arg.end());
  append_length(*prefix, rest);
  index.append_rest(table, record, rest);
  if (share->has_primary_key())
    primary_key().append_rest(table, record, rest);
}

int ha_holdfast::insert_entry(uint key_no, const uchar *record, const Bytes &row_key_arg)
{
  size_t prefix;
  make_entry(share->keys[key_no], record, row_key_arg, &key_a, &rest_a, &prefix);
  uint index= index_no_of(key_no);
  hf_code code= is_unique_in(key_no, record)
    ? hf_insert_unique(transaction(), share->table(), index, slice(key_a), prefix, slice(rest_a), writing.duplicate_lock)
    : hf_insert(transaction(), share->table(), index, slice(key_a), slice(rest_a), 0, HF_LOCK_NONE);
  if (code == HF_DUPLICATE_KEY)
    connection->duplicate_key= key_no;
  return fail(code);
}

int ha_holdfast::insert_row()
{
  hf_code code= hf_insert(transaction(), share->table(), 0, slice(new_row.key), slice(new_row.bytes), new_row.head,
                           writing.duplicate_lock);
  if (code == HF_DUPLICATE_KEY)
    connection->duplicate_key= share->primary_key;
  return fail(code);
}

/* Of each key first the rows that the new one refers to: a row that is refused for one of them
   waits for no row with an equal later key. */
int ha_holdfast::insert_entries(const uchar *record)
{
  const uint keys= table->s->keys;
  int error= share->has_primary_key() ? 0 : insert_row();
  // References of a table without keys belong to key 0.
  for (uint key_no= 0; !error && key_no <= keys; key_no++)
  {
    error= check_other_parents(key_no, record);
    if (!error && key_no < keys)
      error= key_no == share->primary_key ? insert_row() : insert_entry(key_no, record, new_row.key);
  }
  return error ? error : note_change(nullptr, record);
}

/* Where to come back to if a row is refused. Rows that follow others are taken back with those. */
uint64_t ha_holdfast::begin_row()
{
  uint64_t savepoint= 0;
  if (connection->chain.empty())
    hf_savepoint(transaction(), false, &savepoint);
  return savepoint;
}

/* Takes back what was done for a row before `error`. After a deadlock everything will be. */
int ha_holdfast::undo_row(uint64_t savepoint, int error)
{
  if (error && error != HA_ERR_LOCK_DEADLOCK && connection->chain.empty())
  {
    if (int worse= fail(hf_rollback_to(transaction(), savepoint)))
      return worse;
  }
  return error;
}

/* True if a number that was given counts although its row is refused for a key: where other rows
   follow it or take its place. */
static bool counts_refused_numbers(THD *thd)
{
  switch (thd_sql_command(thd)) {
  case SQLCOM_REPLACE:
  case SQLCOM_INSERT_SELECT:
  case SQLCOM_REPLACE_SELECT:
    return true;
  case SQLCOM_LOAD:
    return thd->lex->duplicates == DUP_REPLACE;
  default:
    return false;
  }
}

/* A row is going to be changed. */
int ha_holdfast::begin_change()
{
  int error= begin_transaction();
  if (!error && !writing.has_changed)
  {
    writing.has_changed= true;
    connection->changes(share->commits);
  }
  return error;
}

int ha_holdfast::write_row(const uchar *record)
{
  if (int error= begin_change())
    return error;
  if (table->next_number_field && record == table->record[0])
  {
    counting.error= 0;
    if (int error= update_auto_increment())
      return counting.error ? counting.error : error;
  }
  new_row.key.clear();
  if (share->has_primary_key())
    primary_key().encode_record(table, record, &new_row.key);
  else if (int error= take_row_id())
    return error;
  if (int error= find_links())
    return error;
  new_row.head= share->layout.encode(table, record, &new_row.bytes);
  int error;
  if (copying.is_loading)
  {
    error= check_links(nullptr, record, UINT_MAX);
    if (!error)
      error= load_entries(copying.load, record);
  }
  else
  {
    uint64_t savepoint= begin_row();
    error= check_own_parents(insert_entries(record), record);
    error= commit_alone(undo_row(savepoint, error));
  }
  if (!error)
    row_key= new_row.key;
  if (record == table->record[0])
  {
    if (counting.rows)
      counting.rows--;
    if (!error || (error == HA_ERR_FOUND_DUPP_KEY && counts_refused_numbers(ha_thd())))
    {
      if (int failed= note_auto_increment())
        return failed;
      if (int failed= note_no_number(error != 0))
        return failed;
    }
  }
  return error;
}

/* Replaces the row; `row_key` becomes its new key. */
int ha_holdfast::update_row_itself(const uchar *after)
{
  new_row.head= share->layout.encode(table, after, &new_row.bytes);
  if (new_row.key == row_key)
    return fail(hf_update(transaction(), share->table(), 0, slice(row_key), slice(new_row.bytes), new_row.head));
  hf_code code= hf_insert(transaction(), share->table(), 0, slice(new_row.key), slice(new_row.bytes), new_row.head,
                           writing.duplicate_lock);
  if (code == HF_DUPLICATE_KEY)
    connection->duplicate_key= share->primary_key;
  if (code == HF_OK)
    code= hf_delete(transaction(), share->table(), 0, slice(row_key));
  return fail(code);
}

int ha_holdfast::update_entry(uint key_no, const uchar *before, const uchar *after)
{
  size_t prefix_a, prefix_b;
  make_entry(share->keys[key_no], before, row_key, &key_b, &rest_b, &prefix_b);
  make_entry(share->keys[key_no], after, new_row.key, &key_a, &rest_a, &prefix_a);
  uint index= index_no_of(key_no);
  if (key_a == key_b)
  {
    if (rest_a == rest_b)
      return 0;
    return fail(hf_update(transaction(), share->table(), index, slice(key_a), slice(rest_a), 0));
  }
  hf_code code= hf_delete(transaction(), share->table(), index, slice(key_b));
  if (code != HF_OK)
    return fail(code);
  return insert_entry(key_no, after, new_row.key);
}

/* The server compares what lies under a NULL, too, and in some statements it does not look
   whether anything has changed. */
int ha_holdfast::update_row(const uchar *before, const uchar *after)
{
  if (share->layout.is_same(table, before, after))
    return HA_ERR_RECORD_IS_THE_SAME;
  return may_be_otherwise() ? change_row_now(before, after) : change_row(before, after);
}

int ha_holdfast::change_row(const uchar *before, const uchar *after)
{
  if (int error= begin_change())
    return error;
  if (int error= find_links())
    return error;
  bool stays= true;
  keep_key();
  if (share->has_primary_key())
  {
    row_key.clear();
    primary_key().encode_record(table, before, &row_key);
    stays= primary_key().is_same(table, before, after);
  }
  if (stays)
    new_row.key= row_key;
  else
  {
    new_row.key.clear();
    primary_key().encode_record(table, after, &new_row.key);
  }
  uint64_t savepoint= begin_row();
  int error= update_row_itself(after);
  bool moves= !stays;
  for (uint key_no= 0; !error && key_no < table->s->keys; key_no++)
  {
    if (key_no == share->primary_key || (stays && share->keys[key_no].is_same(table, before, after)))
      continue;
    moves= true;
    error= update_entry(key_no, before, after);
  }
  if (!error)
    error= note_change(before, after);
  error= commit_alone(undo_row(savepoint, check_links_after(error, before, after)));
  if (error)
    return error;
  writing.rows_moved+= moves;
  row_key= new_row.key;
  // A row that follows another one leaves the numbers alone.
  const Field *number= connection->chain.empty() ? table->found_next_number_field : nullptr;
  // ON DUPLICATE KEY UPDATE counts as an insert.
  if (number && after == table->record[0] &&
      (thd_sql_command(ha_thd()) == SQLCOM_INSERT || number->cmp(number->ptr_in_record(before), number->ptr_in_record(after))))
    return note_auto_increment();
  return 0;
}

int ha_holdfast::delete_row(const uchar *record)
{
  return may_be_otherwise() ? delete_row_now(record) : delete_row_itself(record);
}

int ha_holdfast::delete_row_itself(const uchar *record)
{
  if (int error= begin_change())
    return error;
  if (int error= find_links())
    return error;
  if (share->has_primary_key())
  {
    row_key.clear();
    primary_key().encode_record(table, record, &row_key);
  }
  uint64_t savepoint= begin_row();
  int error= fail(hf_delete(transaction(), share->table(), 0, slice(row_key)));
  for (uint key_no= 0; !error && key_no < table->s->keys; key_no++)
  {
    if (key_no == share->primary_key)
      continue;
    size_t prefix;
    make_entry(share->keys[key_no], record, row_key, &key_a, &rest_a, &prefix);
    error= fail(hf_delete(transaction(), share->table(), index_no_of(key_no), slice(key_a)), HA_ERR_CRASHED);
  }
  if (!error)
    error= note_change(record, nullptr);
  if (!error)
    error= check_links(record, nullptr, UINT_MAX);
  return undo_row(savepoint, error);
}

/* What a handler keeps of its rows' memory from statement to statement, in bytes, as the server
   does of columns: thousands of tables may be open. */
static const size_t KEPT_OF_ROWS= 64 * 1024;

void ha_holdfast::give_back_memory()
{
  for (hf_buffer *buffer : {row, linking.row})
  {
    if (buffer)
      hf_buffer_clear(buffer, KEPT_OF_ROWS);
  }
  if (new_row.bytes.capacity() > KEPT_OF_ROWS)
    Bytes().swap(new_row.bytes);
}

/* AUTO_INCREMENT */

/* How far the number that the table's file has may be ahead of the next one: so many are lost by a
   crash. A column that has room for few numbers loses few. */
static ulonglong numbers_ahead(ulonglong next, ulonglong last)
{
  static const ulonglong MOST= 1000;
  return next < last ? MY_MIN(MOST, (last - next) / 64) : 0;
}

/* The least number from `from` on that is `offset` more than a multiple of `increment`; `from` if
   there is none below the greatest, which the server finds. */
static ulonglong next_in_series(ulonglong from, ulonglong offset, ulonglong increment)
{
  if (increment <= 1)
    return from;
  if (offset > increment)
    offset= 0;
  if (from <= offset)
    return offset;
  ulonglong beyond= (from - offset) % increment;
  ulonglong missing= beyond ? increment - beyond : 0;
  return missing >= ULONGLONG_MAX - from ? from : from + missing;
}

/* The number behind so many of a series that begins with `first`, or the greatest that there is. */
static ulonglong behind_series(ulonglong first, ulonglong increment, ulonglong count)
{
  if (count > (ULONGLONG_MAX - first) / increment)
    return ULONGLONG_MAX;
  return first + count * increment;
}

/* True if the statement says how many numbers it takes before it takes the first: then it
   gets all of them at once. */
static bool takes_numbers_at_once(int command)
{
  return command == SQLCOM_INSERT || command == SQLCOM_REPLACE || command == SQLCOM_END;
}

/* The mutex of the numbers, with their lock if the statement has to have it. */
int ha_holdfast::keep_numbers(std::unique_lock<std::mutex> *kept)
{
  const std::shared_ptr<Numbers> &numbers= share->numbers;
  bool has_lock= copying.is_loading || connection->has_numbers(numbers.get());
  if (has_lock || takes_numbers_at_once(thd_sql_command(ha_thd())))
  {
    *kept= std::unique_lock<std::mutex>(numbers->mutex);
    if (has_lock || !numbers->statements)
      return 0;
    kept->unlock();
  }
  if (int error= fail(connection->lock_numbers(numbers)))
    return error;
  *kept= std::unique_lock<std::mutex>(numbers->mutex);
  return 0;
}

/* The number behind a row's; 1 if the row's is not one that the engine gives. */
static ulonglong number_behind(Field &field)
{
  ulonglong last= field.get_max_int_value();
  // Of a number with a fraction that is no integer the server would say that it overflows.
  if (field.result_type() == REAL_RESULT && field.val_real() > (double) last)
    return 1;
  longlong value= field.val_int();
  if ((value <= 0 && !(field.flags & UNSIGNED_FLAG)) || (ulonglong) value > last)
    return 1;
  // Behind the last number there is none: then the next insert fails.
  return (ulonglong) value == ULONGLONG_MAX ? ULONGLONG_MAX : (ulonglong) value + 1;
}

/* The row's number counts, given by the user or the engine, if the column can count on from it: to
   the next number of the series that was counted in last. */
int ha_holdfast::note_auto_increment()
{
  Field *field= table->found_next_number_field;
  if (!field)
    return 0;
  ulonglong next= number_behind(*field);
  uint64_t known= 0;
  hf_mark_get(share->table(), HF_MARK_AUTO_INCREMENT, &known);
  if (next <= known)
    return 0;
  next= next_in_series(next, counting.offset, counting.increment);
  std::unique_lock<std::mutex> kept;
  if (int error= keep_numbers(&kept))
    return error;
  return fail(hf_mark_raise(share->table(), HF_MARK_AUTO_INCREMENT, next, numbers_ahead(next, field->get_max_int_value())));
}

/* A row whose number is 0 or negative counts as with InnoDB, if its statement has taken no number
   before or the row is refused: the table counts on from what InnoDB takes for the number behind
   0 in the series that was counted in last. If the series has all multiples of its increment,
   that is its third number. */
int ha_holdfast::note_no_number(bool is_refused)
{
  Field *field= table->next_number_field;
  if (!field || (counting.has_taken && !is_refused))
    return 0;
  longlong number= field->val_int();
  if (number > 0 || (number < 0 && field->flags & UNSIGNED_FLAG))
    return 0;
  ulonglong last= field->get_max_int_value();
  ulonglong offset= counting.offset > counting.increment ? 0 : counting.offset;
  ulonglong behind= MY_MIN(last, counting.increment + (offset == counting.increment ? 2 * offset : offset));
  std::unique_lock<std::mutex> kept;
  if (int error= keep_numbers(&kept))
    return error;
  return fail(hf_mark_raise(share->table(), HF_MARK_AUTO_INCREMENT, behind, numbers_ahead(behind, last)));
}

void ha_holdfast::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                                     ulonglong *reserved)
{
  ulonglong last= table->next_number_field->get_max_int_value();
  uint64_t next= 0;
  ulonglong from= *first;
  *first= ULONGLONG_MAX;
  *reserved= 1;
  counting.has_taken= true;
  counting.offset= offset;
  counting.increment= increment;
  std::unique_lock<std::mutex> kept;
  if ((counting.error= keep_numbers(&kept)))
    return;
  hf_mark_get(share->table(), HF_MARK_AUTO_INCREMENT, &next);
  // The server's number may be higher, behind one that was given.
  next= MY_MAX(next, from);
  *first= next;
  // Else the server finds that it does not fit.
  if (next > last)
    return;
  // What the statement wants is certain only when it asks first; later, what is left of that.
  if (!counting.rows)
    counting.rows= MY_MAX(wanted, 1);
  *first= next_in_series(next, offset, increment);
  ulonglong behind= behind_series(*first, MY_MAX(increment, 1), counting.rows);
  if ((counting.error= fail(hf_mark_raise(share->table(), HF_MARK_AUTO_INCREMENT, behind, numbers_ahead(behind, last)))))
    *first= ULONGLONG_MAX;
  *reserved= counting.rows;
}

/* The number behind the largest of a column that an index begins with; 1 if there is none. */
int ha_holdfast::number_behind_all(ulonglong *out)
{
  uint no= table->s->next_number_index;
  DBUG_ASSERT(!table->s->next_number_keypart);
  MY_BITMAP *columns= tmp_use_all_columns(table, &table->read_set);
  int error= ha_index_init(no, true);
  if (!error)
  {
    bool descends= table->key_info[no].key_part[0].key_part_flag & HA_REVERSE_SORT;
    error= descends ? ha_index_first(table->record[0]) : ha_index_last(table->record[0]);
    ha_index_end();
  }
  *out= error ? 1 : number_behind(*table->found_next_number_field);
  tmp_restore_column_map(&table->read_set, columns);
  return error == HA_ERR_END_OF_FILE ? 0 : error;
}

/* True if AUTO_INCREMENT = n needs no copy: a number that is not lower is taken as it is, a lower
   one is compared with the largest that an index has. Of several partitions that would be several
   indexes. */
bool ha_holdfast::can_set_auto_increment(ulonglong value)
{
  // Without such a column there is nothing to set.
  if (!table->found_next_number_field)
    return true;
  const auto is_not_lower= [&](ha_holdfast &part) {
    uint64_t next= 0;
    return hf_mark_get(part.share->table(), HF_MARK_AUTO_INCREMENT, &next) == HF_OK && value >= next;
  };
  return (!parts() && !table->s->next_number_keypart) || all_parts(is_not_lower);
}

/* The number that the next row gets: `value`, or the one behind the largest that there is. Each
   partition keeps it, since others may go. No other session uses the table. */
int ha_holdfast::set_auto_increment(ulonglong value)
{
  int error= 0;
  if (table->found_next_number_field)
    all_parts([&](ha_holdfast &part) { return !(error= part.set_own_auto_increment(value)); });
  return error;
}

int ha_holdfast::set_own_auto_increment(ulonglong value)
{
  uint64_t next= 0;
  if (int error= fail(hf_mark_get(share->table(), HF_MARK_AUTO_INCREMENT, &next)))
    return error;
  ulonglong behind= 1;
  if (value < next)
  {
    if (int error= number_behind_all(&behind))
      return error;
  }
  return reset_auto_increment(MY_MAX(value, behind));
}

int ha_holdfast::reset_auto_increment(ulonglong value)
{
  return fail(hf_mark_set(share->table(), HF_MARK_AUTO_INCREMENT, value ? value : 1));
}

void ha_holdfast::update_create_info(HA_CREATE_INFO *info_arg)
{
  if (info_arg->used_fields & HA_CREATE_USED_AUTO)
    return;
  info(HA_STATUS_AUTO);
  info_arg->auto_increment_value= stats.auto_increment_value;
}
