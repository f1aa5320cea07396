/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "cardinality.h"
#include "row/row_format.h"

namespace holdfast {

/* Fewer boundaries than this say too little about the rest of an index. */
static const uint64_t ENOUGH_BOUNDARIES= 10;

/* From value to value, between looks at whether the session was killed. */
static const uint64_t JUMPS_BETWEEN_LOOKS= 64;

/* Where no session asks, none is killed. */
static bool is_killed()
{
  THD *thd= current_thd;
  return thd && thd_kill_level(thd) != THD_IS_NOT_KILLED;
}

/* Counts boundaries in the entries of sampled leaves. */
class Sampler
{
public:
  explicit Sampler(const Index_key &key) : boundaries(key.count()), key(key) {}

  void see(hf_slice entry, bool first)
  {
    if (!first)
    {
      pairs++;
      for (size_t part= first_difference(entry); part < boundaries.size(); part++)
        boundaries[part]++;
    }
    previous.assign(entry.data, entry.data + entry.len);
  }

  std::vector<uint64_t> boundaries;
  uint64_t pairs= 0;

private:
  /* The first part in which the entry differs from the one before. */
  size_t first_difference(hf_slice entry) const
  {
    size_t same= 0, both= MY_MIN(previous.size(), entry.len);
    while (same < both && previous[same] == entry.data[same])
      same++;
    for (size_t part= 0; part < boundaries.size(); part++)
    {
      if (key.end_of(entry.data, entry.len, part + 1) > same)
        return part;
    }
    return boundaries.size();
  }

  const Index_key &key;
  Bytes previous;
};

extern "C" void sample_entry(void *context, hf_slice entry, bool first)
{
  static_cast<Sampler *>(context)->see(entry, first);
}

/* An index that is counted. */
struct Counted
{
  const hf_table *table;
  uint index;
  const Index_key &key;
  uint64_t entries;
  const Effort &effort;
  hf_buffer *buffer;    // for keys that are read
};

/* Different values of the first `parts` parts, counted one by one, at most as many as there may be
   jumps; beyond that from how far it came. */
static hf_code count_by_jumps(const Counted &of, size_t parts, uint64_t *out)
{
  Bytes from;
  for (*out= 0; *out < of.effort.jumps; ++*out)
  {
    if (*out % JUMPS_BETWEEN_LOOKS == JUMPS_BETWEEN_LOOKS - 1 && is_killed())
      return HF_INTERRUPTED;
    hf_code code= hf_index_first_key(of.table, of.index, slice(from), of.buffer);
    if (code == HF_NOT_FOUND)
      return HF_OK;
    if (code != HF_OK)
      return code;
    hf_slice entry;
    hf_buffer_bytes(of.buffer, &entry);
    size_t end= of.key.end_of(entry.data, entry.len, parts);
    from.assign(entry.data, entry.data + MY_MIN(end, entry.len));
    step_over_prefix(&from);
    if (from.empty())
    {
      ++*out;
      return HF_OK;
    }
  }
  uint64_t passed= 0;
  hf_code code= hf_estimate(of.table, of.index, slice("", 0), slice(from), &passed);
  if (code == HF_OK && passed)
    *out= (uint64_t) ((double) *out * (double) MY_MAX(of.entries, passed) / (double) passed);
  return code;
}

static hf_code count_key(const Counted &of, std::vector<uint64_t> *out)
{
  if (is_killed())
    return HF_INTERRUPTED;
  Sampler sampler(of.key);
  hf_code code= hf_index_sample(of.table, of.index, of.effort.leaves, sample_entry, &sampler);
  for (size_t part= 0; code == HF_OK && part < of.key.count(); part++)
  {
    uint64_t found= sampler.boundaries[part] + 1;
    bool all_seen= sampler.pairs + of.effort.leaves >= of.entries && sampler.pairs + 1 >= of.entries;
    if (!all_seen && found > ENOUGH_BOUNDARIES)
      found= 1 + (uint64_t) ((double) sampler.boundaries[part] / (double) sampler.pairs * (double) of.entries);
    else if (!all_seen)
      code= count_by_jumps(of, part + 1, &found);
    out->push_back(MY_MAX(MY_MIN(found, of.entries), 1));
  }
  return code;
}

hf_code count(const hf_table *table, const std::vector<Index_key> &keys, const std::vector<uint> &index_of,
              const Effort &effort, Statistics *out)
{
  hf_buffer *buffer= nullptr;
  hf_code code= hf_table_rows(table, 0, &out->rows);
  if (code == HF_OK)
    code= hf_buffer_new(&buffer);
  out->distinct.resize(keys.size());
  uint last_index= 0;
  for (size_t i= 0; code == HF_OK && i < keys.size(); i++)
  {
    last_index= MY_MAX(last_index, index_of[i]);
    code= count_key({table, index_of[i], keys[i], out->rows, effort, buffer}, &out->distinct[i]);
  }
  out->leaves.resize(last_index + 1);
  for (uint i= 0; code == HF_OK && i <= last_index; i++)
    code= hf_index_leaves(table, i, &out->leaves[i]);
  hf_buffer_free(buffer);
  return code;
}

void Statistics::encode(Bytes *out) const
{
  append_length(rows, out);
  append_length(leaves.size(), out);
  for (uint64_t n : leaves)
    append_length(n, out);
  append_length(distinct.size(), out);
  for (const std::vector<uint64_t> &parts : distinct)
  {
    append_length(parts.size(), out);
    for (uint64_t n : parts)
      append_length(n, out);
  }
}

static bool take_numbers(const uchar **from, const uchar *end, size_t wanted, std::vector<uint64_t> *out)
{
  size_t count, n;
  if (!take_length(from, end, &count) || count != wanted)
    return false;
  for (size_t i= 0; i < count; i++)
  {
    if (!take_length(from, end, &n))
      return false;
    out->push_back(n);
  }
  return true;
}

bool Statistics::decode(const uchar *from, const uchar *end, const std::vector<Index_key> &keys)
{
  size_t n, indexes;
  const uchar *ahead= from;
  if (!take_length(&from, end, &n))
    return false;
  rows= n;
  ahead= from;
  if (!take_length(&ahead, end, &indexes) || indexes > keys.size() + 1 || !take_numbers(&from, end, indexes, &leaves))
    return false;
  if (!take_length(&from, end, &n) || n != keys.size())
    return false;
  distinct.resize(keys.size());
  for (size_t i= 0; i < keys.size(); i++)
  {
    if (!take_numbers(&from, end, keys[i].count(), &distinct[i]))
      return false;
  }
  return from == end;
}

} // namespace holdfast
