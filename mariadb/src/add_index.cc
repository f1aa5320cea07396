/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* Filling new indexes from the rows that there are, while nobody changes them: the engine sorts their entries. */

#include "alter.h"
#include "errors.h"
#include "ha_holdfast.h"

using namespace holdfast;

/* Between looks at whether the query was killed. */
static const uint ROWS_BETWEEN_LOOKS= 64;

namespace {

/* All rows of a table as they are now, in a transaction of its own. */
class Rows
{
public:
  ~Rows()
  {
    hf_cursor_close(cursor);
    hf_transaction_free(transaction);
    hf_buffer_free(row);
  }

  hf_code open(const hf_table *from)
  {
    table= from;
    hf_transaction_options options;
    options.isolation= (uint32_t) ISO_REPEATABLE_READ;
    options.snapshot_isolation= false;
    options.read_only= true;
    hf_code code= hf_begin(database, &options, &transaction);
    if (code == HF_OK)
      code= hf_cursor_open(table, 0, &cursor);
    if (code == HF_OK)
      code= hf_buffer_new(&row);
    hf_seek all= {slice("", 0), slice("", 0), true, true, false, false, true, HF_LOCK_NONE};
    return code == HF_OK ? hf_cursor_seek(cursor, transaction, &all) : code;
  }

  hf_code next(hf_slice *key, hf_slice *value) { return hf_cursor_next(cursor, key, value); }

  hf_code get(const Bytes &key, hf_slice *value)
  {
    hf_code code= hf_get(transaction, table, 0, slice(key), HF_LOCK_NONE, false, row);
    return code == HF_OK ? hf_buffer_bytes(row, value) : code;
  }

private:
  const hf_table *table= nullptr;
  hf_transaction *transaction= nullptr;
  hf_cursor *cursor= nullptr;
  hf_buffer *row= nullptr;
};

/* The refused entry; false if none was. */
bool find_duplicate(const Altered *ctx, uint *key_no, Bytes *row_key)
{
  uint32_t index;
  hf_slice key, value;
  size_t prefix;
  if (hf_alter_duplicate(ctx->alter, &index, &key, &value) != HF_OK)
    return false;
  const uchar *rest= value.data;
  if (index >= ctx->added.size() || !take_length(&rest, rest + value.len, &prefix) || prefix > key.len)
    return false;
  *key_no= ctx->added[index];
  row_key->assign(key.data + prefix, key.data + key.len);
  return true;
}

} // namespace

/* Hands the entries of the row in record[0] to the engine. */
hf_code ha_holdfast::add_entries(const Altered *ctx, const Share &to, const TABLE *altered)
{
  const uchar *record= table->record[0];
  hf_code code= HF_OK;
  for (uint32_t i= 0; code == HF_OK && i < ctx->added.size(); i++)
  {
    const Index_key &index= to.keys[ctx->added[i]];
    size_t prefix;
    make_entry(index, record, row_key, &key_a, &rest_a, &prefix);
    if (!(altered->key_info[ctx->added[i]].flags & HA_NOSAME) || index.has_null(record))
      prefix= key_a.size();
    code= hf_alter_push(ctx->alter, i, slice(key_a), prefix, slice(rest_a));
  }
  return code;
}

bool ha_holdfast::inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  const Altered *ctx= static_cast<const Altered *>(info->handler_ctx);
  if (ctx->added.empty())
    return false;
  Rows rows;
  const Share to(altered);
  hf_code code= rows.open(share->table());
  hf_slice key, value;
  for (ulonglong n= 1; code == HF_OK && (code= rows.next(&key, &value)) == HF_OK; n++)
  {
    if (n % ROWS_BETWEEN_LOOKS == 0 && thd_kill_level(ha_thd()))
      return alter_failed(HA_ERR_ABORTED_BY_USER);
    row_key.assign(key.data, key.data + key.len);
    if (!share->layout.decode(table, table->record[0], value.data, value.len, true))
      return alter_failed(damaged());
    code= add_entries(ctx, to, altered);
  }
  if (code == HF_NOT_FOUND)
    code= hf_alter_finish(ctx->alter);
  uint key_no;
  if (code != HF_DUPLICATE_KEY || !find_duplicate(ctx, &key_no, &row_key))
    return alter_failed(fail(code));
  if ((code= rows.get(row_key, &value)) != HF_OK)
    return alter_failed(fail(code));
  if (!share->layout.decode(table, table->record[0], value.data, value.len, true))
    return alter_failed(damaged());
  // Both records are laid out alike.
  memcpy(altered->record[0], table->record[0], table->s->reclength);
  print_keydup_error(altered, &altered->key_info[key_no], MYF(0));
  return true;
}
