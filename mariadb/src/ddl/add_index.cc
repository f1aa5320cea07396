/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Filling new indexes from the rows that there are: the engine sorts their entries.
   Sessions that change rows meanwhile note what that does to the entries, and the engine
   has the notes in the end. */

#include "alter.h"
#include "rows.h"
#include "plugin/errors.h"
#include "handler/ha_holdfast.h"

using namespace holdfast;

namespace {

/* While it lives, only those columns of `table` are to be read that entries of
   the new indexes are made of. */
class Only_columns_of
{
public:
  Only_columns_of(TABLE *table, const TABLE *altered, const New_indexes &added) : table(table), before(table->read_set)
  {
    bitmap_clear_all(&table->tmp_set);
    for (uint i= 0; i < added.count(); i++)
      add(altered->key_info[added.number(i)]);
    if (table->s->primary_key != MAX_KEY)
      add(table->key_info[table->s->primary_key]);
    table->read_set= &table->tmp_set;
  }

  ~Only_columns_of() { table->read_set= before; }

private:
  void add(const KEY &key)
  {
    for (uint i= 0; i < key.user_defined_key_parts; i++)
      bitmap_set_bit(&table->tmp_set, key.key_part[i].field->field_index);
  }

  TABLE *const table;
  MY_BITMAP *const before;
};

/* The refused entry; false if none was. */
bool find_duplicate(const Altered *ctx, uint *key_no, Bytes *row_key)
{
  uint32_t index;
  hf_slice key, value;
  size_t prefix;
  if (hf_alter_duplicate(ctx->alter, &index, &key, &value) != HF_OK)
    return false;
  if (index >= ctx->added->count() || !find_row_key(key, value, row_key, &prefix))
    return false;
  *key_no= ctx->added->number(index);
  return true;
}

} // namespace

namespace holdfast {

New_indexes::New_indexes(const TABLE *altered, const std::vector<uint> &numbers) : to(altered), numbers(numbers)
{
  for (uint number : numbers)
    unique.push_back(altered->key_info[number].flags & HA_NOSAME);
}

void Altered::give_up()
{
  share->set_being_added(nullptr);
  hf_alter_free(alter);
  hf_load_free(anew);
  alter= nullptr;
  anew= nullptr;
}

bool Altered::say_duplicate(hf_code code, TABLE *table, TABLE *altered)
{
  uint key_no;
  Bytes row_key;
  if (code != HF_DUPLICATE_KEY || !added || !find_duplicate(this, &key_no, &row_key))
    return false;
  Rows rows;
  hf_slice value;
  if (rows.open(share->table(), false) != HF_OK || rows.get(row_key, &value) != HF_OK ||
      share->layout.decode(table, table->record[0], value.data, value.len, true) != Row_layout::DECODED)
    return false;
  // Both records are laid out alike.
  memcpy(altered->record[0], table->record[0], table->s->reclength);
  print_keydup_error(altered, &altered->key_info[key_no], MYF(0));
  return true;
}

} // namespace holdfast

/* Hands the entries of the row in record[0] to the engine. */
hf_code ha_holdfast::add_entries(const Altered *ctx)
{
  const uchar *record= table->record[0];
  hf_code code= HF_OK;
  for (uint32_t i= 0; code == HF_OK && i < ctx->added->count(); i++)
  {
    size_t prefix;
    make_entry(ctx->added->key(i), record, row_key, &key_a, &rest_a, &prefix);
    prefix= ctx->added->unique_bytes(i, record, prefix, key_a.size());
    code= hf_alter_push(ctx->alter, i, slice(key_a), prefix, slice(rest_a));
  }
  return code;
}

/* Notes what a change of a row does to indexes that are being added: `before` is the row under
   `row_key`, or null, `after` the one under `new_row.key`, or null. */
int ha_holdfast::note_change(const uchar *before, const uchar *after)
{
  std::shared_ptr<const New_indexes> added= share->being_added();
  hf_code code= HF_OK;
  for (uint32_t i= 0; added && code == HF_OK && i < added->count(); i++)
  {
    size_t prefix;
    if (before)
      make_entry(added->key(i), before, row_key, &key_b, &rest_b, &prefix);
    if (after)
      make_entry(added->key(i), after, new_row.key, &key_a, &rest_a, &prefix);
    bool stays= before && after && key_a == key_b;
    if (stays && rest_a == rest_b)
      continue;
    if (before && !stays)
      code= hf_alter_note_gone(transaction(), share->table(), i, slice(key_b));
    if (!after || code != HF_OK)
      continue;
    prefix= added->unique_bytes(i, after, prefix, key_a.size());
    code= hf_alter_note_there(transaction(), share->table(), i, slice(key_a), prefix, slice(rest_a));
  }
  return fail(code);
}

bool ha_holdfast::fill_indexes(Altered *ctx, TABLE *altered)
{
  Only_columns_of only(table, altered, *ctx->added);
  Rows rows;
  hf_code code= rows.open(share->table(), share->layout.heads_do(table));
  hf_slice key, value;
  for (ulonglong n= 1; code == HF_OK && (code= rows.next(&key, &value)) == HF_OK; n++)
  {
    if (n % ROWS_BETWEEN_LOOKS == 0 && thd_kill_level(ha_thd()))
      return alter_failed(HA_ERR_ABORTED_BY_USER);
    row_key.assign(key.data, key.data + key.len);
    Row_layout::Decoded decoded= share->layout.decode(table, table->record[0], value.data, value.len, false);
    if (decoded == Row_layout::CUT && (code= rows.get(row_key, &value)) == HF_OK)
      decoded= share->layout.decode(table, table->record[0], value.data, value.len, false);
    if (code == HF_OK && decoded != Row_layout::DECODED)
      return alter_failed(damaged());
    if (code == HF_OK)
      code= add_entries(ctx);
  }
  if (code == HF_NOT_FOUND)
    code= hf_alter_finish(ctx->alter);
  return ctx->say_duplicate(code, table, altered) || alter_failed(fail(code));
}
