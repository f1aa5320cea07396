/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* What the optimiser asks. */

#include "errors.h"
#include "ha_holdfast.h"

using namespace holdfast;

int ha_holdfast::info(uint flag)
{
  if (flag & HA_STATUS_VARIABLE)
  {
    uint64_t rows= 0, bytes= 0;
    hf_table_rows(share->table(), 0, &rows);
    hf_table_bytes(share->table(), 0, &bytes);
    // Who asks while rows may just be coming must not take the table for empty.
    if (rows == 0 && !(flag & (HA_STATUS_TIME | HA_STATUS_OPEN)))
      rows= 1;
    stats.records= rows;
    stats.deleted= 0;
    stats.data_file_length= bytes;
    stats.mean_rec_length= rows ? (ulong) (bytes / rows) : 0;
    stats.index_file_length= 0;
    for (uint key_no= 0; key_no < table->s->keys; key_no++)
    {
      if (key_no == share->primary_key)
        continue;
      bytes= 0;
      hf_table_bytes(share->table(), index_no_of(key_no), &bytes);
      stats.index_file_length+= bytes;
    }
  }
  if (flag & HA_STATUS_CONST)
  {
    stats.block_size= 16384;
    set_rec_per_key();
  }
  if (flag & HA_STATUS_AUTO)
  {
    uint64_t next= 0;
    hf_mark_get(share->table(), HF_AUTO_INCREMENT, &next);
    stats.auto_increment_value= next;
  }
  if (flag & HA_STATUS_ERRKEY)
    errkey= duplicate_key;
  return 0;
}

/* Rows per value of the first parts of each key: guessed, each part as distinct as the others. */
void ha_holdfast::set_rec_per_key()
{
  double rows= (double) MY_MAX(stats.records, 1);
  for (uint key_no= 0; key_no < table->s->keys; key_no++)
  {
    KEY &key= table->key_info[key_no];
    bool unique= (key.flags & (HA_NOSAME | HA_NULL_PART_KEY)) == HA_NOSAME;
    uint parts= key.user_defined_key_parts;
    // Without a count, ten rows are taken to share a key that may be repeated.
    double at_end= unique ? 1 : MY_MIN(10.0, rows);
    for (uint i= 0; i < parts; i++)
      key.rec_per_key[i]= (ulong) MY_MAX(1.0, pow(rows, 1 - (double) (i + 1) / parts) * at_end);
  }
}

/* The bounds of a range as keys of the engine: the first that is in it and the first behind. */
void ha_holdfast::range_bytes(uint index, const key_range *min, const key_range *max, Bytes *from, Bytes *to) const
{
  const Index_key &key= share->keys[index];
  from->clear();
  to->clear();
  if (min)
  {
    key.encode_image(table, min->key, min->keypart_map, from);
    if (min->flag == HA_READ_AFTER_KEY)
      step_over_prefix(from);
  }
  if (max)
  {
    key.encode_image(table, max->key, max->keypart_map, to);
    if (max->flag != HA_READ_BEFORE_KEY)
      step_over_prefix(to);
  }
}

ha_rows ha_holdfast::records_in_range(uint index, const key_range *min, const key_range *max, page_range *)
{
  range_bytes(index, min, max, &key_a, &key_b);
  uint64_t rows= 0;
  hf_code code= hf_estimate(share->table(), index_no_of(index), slice(key_a), slice(key_b), &rows);
  if (code != HF_OK)
    return HA_POS_ERROR;
  // Zero would be taken for certain.
  return MY_MAX(rows, 1);
}

double ha_holdfast::scan_time()
{
  return (double) stats.data_file_length / stats.block_size + 1;
}

int ha_holdfast::analyze(THD *, HA_CHECK_OPT *)
{
  int error= info(HA_STATUS_TIME | HA_STATUS_CONST | HA_STATUS_VARIABLE);
  return error ? HA_ADMIN_FAILED : HA_ADMIN_OK;
}

int ha_holdfast::optimize(THD *, HA_CHECK_OPT *)
{
  return HA_ADMIN_TRY_ALTER;
}
