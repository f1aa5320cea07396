/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* How many different values the first parts of each key have, and how large the indexes are.

   Some leaves are sampled, spread evenly over the index. A value that differs from the one before
   it is a boundary; there are as many values as boundaries and one, so the share of boundaries
   among the entries seen, times all entries, is their number. Where boundaries are rare, they are
   looked for one by one instead, from a value to the next. */

#ifndef HOLDFAST_CARDINALITY_H
#define HOLDFAST_CARDINALITY_H

#include "key_format.h"

namespace holdfast {

/* How much work goes into counting. */
struct Effort
{
  size_t leaves;      // that are sampled, of each index
  uint jumps;         // from a value to the next, for each part of a key
};

/* For statements that find the numbers out of date, and for ANALYZE. */
static const Effort IN_PASSING= {16, 32}, THOROUGH= {128, 2000};

struct Statistics
{
  uint64_t rows= 0;
  uint64_t moved= 0;                              // `Share::rows_moved` when they were counted; not encoded
  std::vector<uint64_t> leaves;                   // by the engine's index numbers
  std::vector<std::vector<uint64_t>> distinct;    // by the server's key numbers, for 1, 2, ... parts

  void encode(Bytes *out) const;

  /* False if the bytes are none for a table with such keys. */
  bool decode(const uchar *from, const uchar *end, const std::vector<Index_key> &keys);
};

/* Counts anew. `index_of`: the engine's number of each key. */
hf_code count(const hf_table *table, const std::vector<Index_key> &keys, const std::vector<uint> &index_of,
              const Effort &effort, Statistics *out);

} // namespace holdfast

#endif
