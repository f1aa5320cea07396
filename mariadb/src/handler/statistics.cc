/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* What the optimiser asks. */

#include "plugin/errors.h"
#include "ha_holdfast.h"
#include "ha_partition.h"

using namespace holdfast;

/* When the server wrote the table's definition; 0 if that is not known. */
static ulong created_at(const TABLE_SHARE *definition)
{
  std::string path= std::string(definition->normalized_path.str, definition->normalized_path.length) + reg_ext;
  MY_STAT found;
  return my_stat(path.c_str(), &found, MYF(0)) ? (ulong) found.st_ctime : 0;
}

int ha_holdfast::info(uint flag)
{
  if (flag & (HA_STATUS_VARIABLE | HA_STATUS_CONST))
  {
    uint64_t rows= 0;
    hf_table_rows(share->table(), 0, &rows);
    std::shared_ptr<const Statistics> now= share->statistics(rows);
    show_sizes(*now, rows);
    // Listings set one of them with the sizes. A partitioned table hands on the latter alone.
    if (flag & (HA_STATUS_TIME | HA_STATUS_VARIABLE_EXTRA))
      show_large_values();
    if ((now != estimates.source || flag & HA_STATUS_CONST) && speaks_for_table())
      set_rec_per_key(*now);
    estimates.source= now;
    // A statement that asks while rows may just be coming must not take the table for empty.
    if (rows == 0 && !(flag & (HA_STATUS_TIME | HA_STATUS_OPEN)))
      stats.records= 1;
  }
  // A partitioned table asks for it as for something that stays.
  if (flag & (HA_STATUS_TIME | HA_STATUS_CONST))
    stats.create_time= created_at(table_share);
  if (flag & HA_STATUS_TIME)
    stats.update_time= share->commits->last;
  if (flag & HA_STATUS_AUTO)
  {
    uint64_t next= 0;
    if (table->found_next_number_field)
      hf_mark_get(share->table(), HF_MARK_AUTO_INCREMENT, &next);
    stats.auto_increment_value= next;
  }
  if (flag & HA_STATUS_ERRKEY)
    errkey= connection ? connection->duplicate_key : MAX_KEY;
  return 0;
}

/* Rows, and bytes of rows and indexes: as counted, grown with the rows since. */
void ha_holdfast::show_sizes(const Statistics &counted, uint64_t rows)
{
  double growth= counted.rows ? (double) rows / (double) counted.rows : 1;
  ulonglong entries= 0;
  for (size_t i= 1; i < counted.leaves.size(); i++)
    entries+= counted.leaves[i];
  ulonglong own= counted.leaves.empty() ? 1 : counted.leaves[0];
  stats.block_size= (uint) share->page_bytes();
  stats.records= rows;
  stats.deleted= 0;
  estimates.leaf_pages= (ulonglong) ((double) own * growth);
  stats.data_file_length= estimates.leaf_pages * stats.block_size;
  stats.index_file_length= (ulonglong) ((double) entries * growth) * stats.block_size;
  stats.mean_rec_length= rows ? (ulong) (stats.data_file_length / rows) : 0;
}

/* Counts the pages of large values, and those above leaves, to the bytes of rows: for listings. The
   optimiser compares leaves. */
void ha_holdfast::show_large_values()
{
  uint64_t used= 0;
  if (hf_table_bytes(share->table(), &used) != HF_OK || used <= stats.data_file_length + stats.index_file_length)
    return;
  stats.data_file_length= used - stats.index_file_length;
  stats.mean_rec_length= stats.records ? (ulong) (stats.data_file_length / stats.records) : 0;
}

/* The handlers of the table's partitions, and a null behind the last; null without partitions. */
handler **ha_holdfast::parts()
{
  const bool has_parts= table->part_info && table->file->ht == partition_hton;
  return has_parts ? static_cast<ha_partition *>(table->file)->get_child_handlers() : nullptr;
}

/* True if something holds for all partitions, or for a table without them. */
bool ha_holdfast::all_parts(const std::function<bool(ha_holdfast &)> &holds)
{
  handler **part= parts();
  if (!part)
    return holds(*this);
  for (; *part; part++)
  {
    if (!holds(static_cast<ha_holdfast &>(**part)))
      return false;
  }
  return true;
}

/* True if the table's rows per value are those of this handler: a partitioned table has those of
   its largest partition, and all partitions write to the same place. */
bool ha_holdfast::speaks_for_table()
{
  return all_parts([&](ha_holdfast &part) { return part.stats.records <= stats.records; });
}

/* Rows per value of the first parts of each key. All parts of the primary key that the server puts
   behind a key make it unique; a part of them is taken to go half of the way. */
void ha_holdfast::set_rec_per_key(const Statistics &counted)
{
  double rows= (double) MY_MAX(counted.rows, 1);
  for (uint key_no= 0; key_no < table->s->keys; key_no++)
  {
    KEY &key= table->key_info[key_no];
    bool unique= (key.flags & (HA_NOSAME | HA_NULL_PART_KEY)) == HA_NOSAME;
    uint parts= key.user_defined_key_parts;
    for (uint i= 0; i < key.ext_key_parts; i++)
    {
      double per_value= 1;
      if (i < parts && key_no < counted.distinct.size() && i < counted.distinct[key_no].size())
        per_value= rows / (double) MY_MAX(counted.distinct[key_no][i], 1);
      else if (i >= parts && i + 1 < key.ext_key_parts)
        per_value= sqrt((double) key.rec_per_key[i - 1]);
      key.rec_per_key[i]= unique && i + 1 >= parts ? 1 : (ulong) MY_MAX(1.0, per_value + 0.5);
    }
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
    size_t ordered= key.encode_image(table, min->key, min->keypart_map, from);
    if (ordered != Index_key::UNCUT)
      from->resize(ordered);
    else if (min->flag == HA_READ_AFTER_KEY)
      step_over_prefix(from);
  }
  if (max)
  {
    size_t ordered= key.encode_image(table, max->key, max->keypart_map, to);
    if (ordered != Index_key::UNCUT)
      to->resize(ordered);
    if (ordered != Index_key::UNCUT || max->flag != HA_READ_BEFORE_KEY)
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
  return (double) estimates.leaf_pages + 1;
}

/* A range of the primary key is a part of the table's pages, in order. The server takes it for a
   read of each row by itself, and then reads the whole table for every larger range (and, in a
   DELETE, locks it), or sorts what lies in order. */
double ha_holdfast::read_time(uint index, uint ranges, ha_rows rows)
{
  if (index != table_share->primary_key)
    return handler::read_time(index, ranges, rows);
  double part= stats.records > rows ? (double) rows / (double) stats.records : 1;
  return ranges + part * scan_time();
}

/* What is kept survives a restart, and stands until the number of rows has changed by a tenth. */
int ha_holdfast::analyze(THD *, HA_CHECK_OPT *)
{
  hf_code code= share->analyze(name);
  if (code == HF_OK && !info(HA_STATUS_TIME | HA_STATUS_CONST | HA_STATUS_VARIABLE))
    return HA_ADMIN_OK;
  fail(code);
  return HA_ADMIN_FAILED;
}
