/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Making a table anew (FORCE, ENGINE = that which it has, OPTIMIZE TABLE): its rows and their
   entries go into a new table that takes its place. No value goes through the server, which would
   judge it by the session's modes. Other sessions read the rows meanwhile. */

#include "alter.h"
#include "rows.h"
#include "handler/ha_holdfast.h"

using namespace holdfast;

/* Beside nothing but these a table is made anew in place: OPTIMIZE speaks of defaults, too. */
static const alter_table_operations SAME_TABLE= ALTER_RECREATE_TABLE | ALTER_CHANGE_CREATE_OPTION |
  ALTER_CHANGE_COLUMN_DEFAULT | ALTER_PARTITIONED;

/* True if a table that is made anew stays what it is beside its options and its next number. The
   history of a table with system versioning is carried over like other rows. The server writes the
   file of a sequence otherwise. */
bool ha_holdfast::can_make_anew(const Alter_inplace_info *info)
{
  static const uint SAME_OPTIONS= HA_CREATE_USED_ENGINE | HA_CREATE_USED_COMMENT | HA_CREATE_USED_AUTO | OPTIONS_NOT_STORED;
  const HA_CREATE_INFO *options= info->create_info;
  return !is_sequence && !(info->handler_flags & ~SAME_TABLE) && !(options->used_fields & ~SAME_OPTIONS) &&
    options->row_type == table->s->row_type &&
    (!sets_auto_increment(info) || can_set_auto_increment(options->auto_increment_value));
}

/* Rows of all layouts become such of the one that the table has now. What a virtual column computes
   may have changed since an index got it. */
bool ha_holdfast::fill_anew(const Altered *ctx)
{
  MY_BITMAP *columns= dbug_tmp_use_all_columns(table, &table->read_set);
  const Row_layout now(table);
  const uchar *record= table->record[0];
  Rows rows;
  int error= fail(rows.open(share->table(), false));
  for (ulonglong n= 1; !error; n++)
  {
    hf_slice key, value;
    if ((error= fail(rows.next(&key, &value), HA_ERR_END_OF_FILE)))
      break;
    if (n % ROWS_BETWEEN_LOOKS == 0 && thd_kill_level(ha_thd()))
      error= HA_ERR_ABORTED_BY_USER;
    else if (share->layout.decode(table, table->record[0], value.data, value.len, true) != Row_layout::DECODED)
      error= damaged();
    else if (!(error= now.keeps_virtual() ? table->update_virtual_fields(this, VCOL_UPDATE_FOR_READ) : 0))
    {
      new_row.key.clear();
      if (share->has_primary_key())
        primary_key().encode_record(table, record, &new_row.key);
      else
        new_row.key.assign(key.data, key.data + key.len);
      new_row.head= now.encode(table, record, &new_row.bytes);
      error= load_entries(ctx->anew, record);
    }
  }
  if (error == HA_ERR_END_OF_FILE)
    error= load_failed(ctx->anew, hf_load_finish(ctx->anew));
  dbug_tmp_restore_column_map(&table->read_set, columns);
  return alter_failed(error);
}
