/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* What the server leaves to the engine: conditions on the columns of an index, judged before the
   row is read, and many ranges at once, whose rows are read in the order of their keys (the
   server's own implementation). */

#include "ha_holdfast.h"

using namespace holdfast;

/* All of the condition is judged here; a part of a column in the key is never asked for. */
Item *ha_holdfast::idx_cond_push(uint index, Item *condition)
{
  pushed_idx_cond= condition;
  pushed_idx_cond_keyno= index;
  in_range_check_pushed_down= true;
  return nullptr;
}

/* What the condition that was pushed down says about the record: 0 it holds, HA_ERR_KEY_NOT_FOUND
   it does not, else why no more entries are to be read. The server would have the end of the range
   judged by the record, too, which may be that of an entry. */
int ha_holdfast::check_pushed_condition()
{
  key_range *end= end_range;
  end_range= nullptr;
  check_result_t result= handler_index_cond_check(this);
  end_range= end;
  switch (result) {
  case CHECK_POS:
    return 0;
  case CHECK_ABORTED_BY_USER:
    return HA_ERR_ABORTED_BY_USER;
  default:
    return HA_ERR_KEY_NOT_FOUND;
  }
}

int ha_holdfast::multi_range_read_init(RANGE_SEQ_IF *ranges, void *param, uint count, uint mode,
                                       HANDLER_BUFFER *buffer)
{
  return mrr.dsmrr_init(this, ranges, param, count, mode, buffer);
}

int ha_holdfast::multi_range_read_next(range_id_t *range)
{
  return mrr.dsmrr_next(range);
}

ha_rows ha_holdfast::multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *param, uint count,
                                                 uint *buffer_size, uint *flags, Cost_estimate *cost)
{
  mrr.init(this, table);
  // A locking read locks in the order of the index.
  if (reading.lock != HF_LOCK_NONE)
    *flags|= HA_MRR_USE_DEFAULT_IMPL;
  return mrr.dsmrr_info_const(index, ranges, param, count, buffer_size, flags, cost);
}

ha_rows ha_holdfast::multi_range_read_info(uint index, uint count, uint keys, uint key_parts, uint *buffer_size,
                                           uint *flags, Cost_estimate *cost)
{
  mrr.init(this, table);
  return mrr.dsmrr_info(index, count, keys, key_parts, buffer_size, flags, cost);
}

int ha_holdfast::multi_range_read_explain_info(uint mode, char *text, size_t size)
{
  return mrr.dsmrr_explain_info(mode, text, size);
}
