/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* The target of a copy (ALTER TABLE): no other session can reach the table, and it is dropped if
   the copy fails or the server does. So rows are loaded without undo, locks or a comparison with
   each other; a duplicate key may be found at the end only.

   The rows are durable before the server hears that they are there: from then on a crash
   has it drop the table that was copied, and the statement's transaction, which changes
   no row, waits for nothing. */

#include "plugin/errors.h"
#include "handler/ha_holdfast.h"

#include <algorithm>

using namespace holdfast;

int ha_holdfast::extra(enum ha_extra_function what)
{
  switch (what) {
  case HA_EXTRA_BEGIN_COPY:
    return begin_copy();
  case HA_EXTRA_END_COPY:
    return end_copy();
  case HA_EXTRA_ABORT_COPY:
    // The load stays until the statement ends: an error message may show bytes of it.
    copying.is_loading= false;
    return 0;
  // The row that is in the way is going to be replaced, or changed.
  case HA_EXTRA_WRITE_CAN_REPLACE:
  case HA_EXTRA_INSERT_WITH_UPDATE:
    writing.duplicate_lock= HF_LOCK_EXCLUSIVE;
    return 0;
  case HA_EXTRA_WRITE_CANNOT_REPLACE:
    writing.duplicate_lock= HF_LOCK_SHARED;
    return 0;
  case HA_EXTRA_KEYREAD:
    reading.keys_only= true;
    return 0;
  case HA_EXTRA_NO_KEYREAD:
    reading.keys_only= false;
    return ha_end_keyread();
  default:
    return 0;
  }
}

/* True if the table can be filled unseen: for some unique keys the server looks into it meanwhile,
   and this engine for what rows refer to. */
bool ha_holdfast::can_load() const
{
  const References references= references_of(name);
  auto is_own= [&](const Reference &reference) { return reference.parent == name; };
  return !table->s->long_unique_table && !table->s->period.unique_keys && table->s->table_type != TABLE_TYPE_SEQUENCE &&
    std::none_of(references.begin(), references.end(), is_own);
}

int ha_holdfast::begin_copy()
{
  hf_load_free(copying.load);
  copying.load= nullptr;
  // Into a table that has rows they are inserted.
  copying.is_loading= can_load() && hf_load_begin(share->table(), &copying.load) == HF_OK;
  return 0;
}

/* Looks for what the rows of a copy refer to in the copy itself, by references that are new. What
   was loaded is read by a transaction of its own: that of the statement may have begun before. */
int ha_holdfast::check_copy()
{
  if (!is_in_passing(name))
    return 0;
  if (int error= find_links())
    return error;
  const std::shared_ptr<const Links> held= linking.links;
  std::vector<const Link *> own;
  for (size_t i= 0; held && i < held->parents.size(); i++)
  {
    const Link *link= held->parents[i].get();
    if (link->reference.is_new && link->other == name)
      own.push_back(link);
  }
  if (own.empty())
    return 0;
  if (int error= copying.load ? begin_alone() : begin_transaction())
    return error;
  const hf_lock lock= reading.lock;
  reading.lock= HF_LOCK_NONE;
  MY_BITMAP *columns= tmp_use_all_columns(table, &table->read_set);
  int error= each_row([&](bool decoded) {
    int refused= decoded ? 0 : damaged();
    for (size_t i= 0; !refused && i < own.size(); i++)
      refused= find_parent(*own[i], table->record[0], HF_LOCK_NONE);
    return refused;
  });
  tmp_restore_column_map(&table->read_set, columns);
  end_alone();
  reading.lock= lock;
  reading.heads_refused= false;
  return error;
}

int ha_holdfast::end_copy()
{
  int error= 0;
  if (copying.is_loading)
  {
    copying.is_loading= false;
    error= load_failed(copying.load, hf_load_finish(copying.load));
  }
  if (!error)
    error= check_copy();
  if (!error && copying.load)
    error= fail(hf_flush_log(database));
  // Of new partitions the server asks for no error here, and the last of them may be complete.
  if (error)
    connection->copy_error= error;
  return error;
}

/* What the server is to be told of a load. If a key is there twice, the record becomes the row that
   came second, for the message. */
int ha_holdfast::load_failed(hf_load *failed, hf_code code)
{
  uint32_t index;
  hf_slice key, value;
  if (code != HF_DUPLICATE_KEY || hf_load_duplicate(failed, &index, &key, &value) != HF_OK)
    return fail(code);
  int error= fail(code);
  for (uint key_no= 0; key_no < table->s->keys; key_no++)
  {
    if (index_no_of(key_no) != index)
      continue;
    connection->duplicate_key= key_no;
    if (index == 0)
      return decode_duplicate(value) ? error : damaged();
    size_t prefix;
    // The entry may have less than the columns of its key.
    if (!find_row_key(key, value, &row_key, &prefix))
      return damaged();
    hf_code found= hf_load_row(failed, slice(row_key), row);
    hf_slice bytes;
    if (found == HF_OK)
      hf_buffer_bytes(row, &bytes);
    // The row may be out of reach behind one that is there twice itself.
    else if (found == HF_NOT_FOUND && hf_load_duplicate(failed, &index, &key, &bytes) == HF_OK && index == 0)
      connection->duplicate_key= share->primary_key;
    else
      return damaged();
    return decode_duplicate(bytes) ? error : damaged();
  }
  return error;
}

/* Makes the record of a row whose key is there twice. */
bool ha_holdfast::decode_duplicate(hf_slice bytes)
{
  return share->layout.decode(table, table->record[0], bytes.data, bytes.len, true) == Row_layout::DECODED;
}

/* Hands the row and its entries to a load. */
int ha_holdfast::load_entries(hf_load *to, const uchar *record)
{
  hf_code code= hf_load_push(to, 0, slice(new_row.key), new_row.key.size(), slice(new_row.bytes), new_row.head);
  for (uint key_no= 0; code == HF_OK && key_no < table->s->keys; key_no++)
  {
    if (key_no == share->primary_key)
      continue;
    size_t prefix;
    make_entry(share->keys[key_no], record, new_row.key, &key_a, &rest_a, &prefix);
    if (!is_unique_in(key_no, record))
      prefix= key_a.size();
    code= hf_load_push(to, index_no_of(key_no), slice(key_a), prefix, slice(rest_a), 0);
  }
  return load_failed(to, code);
}
