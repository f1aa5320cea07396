/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* An ALTER TABLE in place, between the server's calls of it. */

#ifndef HOLDFAST_ALTER_H
#define HOLDFAST_ALTER_H

#include "handler/share.h"

#include <deque>
#include <map>

namespace holdfast {

/* Options that mean nothing to what is stored, for which the server copies. A column that gets
   another character set says so itself. */
const uint OPTIONS_NOT_STORED= HA_CREATE_USED_CHARSET | HA_CREATE_USED_DEFAULT_CHARSET |
  HA_CREATE_USED_PACK_KEYS | HA_CREATE_USED_CHECKSUM | HA_CREATE_USED_MAX_ROWS;

/* Indexes that are being added: what it takes to make their entries from
   rows of the table as it was. */
class New_indexes
{
public:
  New_indexes(const TABLE *altered, const std::vector<uint> &numbers);

  size_t count() const { return numbers.size(); }
  const Index_key &key(uint i) const { return to.keys[numbers[i]]; }

  /* The altered table's number of new index `i`. */
  uint number(uint i) const { return numbers[i]; }

  /* How many of the `length` bytes of an index key, which an entry of `whole` bytes
     begins with, have to be unique. */
  size_t unique_bytes(uint i, const uchar *record, size_t length, size_t whole) const
  {
    return unique[i] && !key(i).has_null(record) ? length : whole;
  }

private:
  const Share to;
  const std::vector<uint> numbers;
  std::vector<bool> unique;
};

/* The table that is altered; of a partitioned one, the server keeps that of every partition. */
struct Altered : public inplace_alter_handler_ctx
{
  Altered(const std::string &name, Share *share) : name(name), share(share) {}

  /* By then what the table was may be closed, and `share` with it. */
  ~Altered() override
  {
    hf_alter_free(alter);
    hf_load_free(anew);
  }

  /* The table stays as it was. */
  void give_up();

  /* Says which entry is there twice, if that is why `code` is no success. */
  bool say_duplicate(hf_code code, TABLE *table, TABLE *altered);

  const std::string name;
  Share *const share;
  hf_alter *alter= nullptr;                 // if indexes change
  hf_load *anew= nullptr;                   // if the table is made anew
  std::shared_ptr<const New_indexes> added; // if there are any
  bool keeps_indexes= true;                 // in their order
  std::deque<std::string> index_names;      // the engine's, of the altered table
  std::vector<hf_index_source> indexes;     // where its secondary indexes come from
  Row_history history;                      // of the altered table's rows, if columns change
  References references;                    // that it is to have
  Reserved_names names;                     // of those that are new
  std::map<std::string, References> others; // those of other tables, if its columns get other names
};

/* True if the rows are to be written again, with nothing else. */
inline bool makes_anew(const Alter_inplace_info *info)
{
  return info->handler_flags & ALTER_RECREATE_TABLE;
}

/* True if the statement says which number the next row gets. */
inline bool sets_auto_increment(const Alter_inplace_info *info)
{
  return info->create_info->used_fields & HA_CREATE_USED_AUTO;
}

} // namespace holdfast

#endif
