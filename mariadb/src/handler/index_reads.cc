/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Reading by an index.

   Where a range ends is told by the bytes of keys: the cursor ends there. A record is
   asked only where the end was cut; then it is that of the row, since an entry may have
   less than the columns of its key. */

#include "ha_holdfast.h"

using namespace holdfast;

int ha_holdfast::index_init(uint index, bool)
{
  active_index= index;
  reading.is_scan= sought.is_loose= range_read.is_end_loose= range_read.is_begun= false;
  // Unless the server knows that keys are read, it computes virtual columns of the key anew, from
  // columns that entries do not have. A multi-range read that locks reads a row together with its
  // entry: with SKIP LOCKED it passes over an entry whose row is locked.
  if (reading.keys_only && reading.lock == HF_LOCK_NONE && !keyread_enabled())
    ha_start_keyread(index);
  return open_cursor(index_no_of(index));
}

/* The handler that reads ranges for this one is on the same index. */
int ha_holdfast::index_end()
{
  active_index= MAX_KEY;
  mrr.dsmrr_close();
  return 0;
}

/* The first key behind a range, so that no more is locked and read ahead. */
void ha_holdfast::find_range_end(const key_range *to)
{
  range_read.end.clear();
  size_t ordered= share->keys[active_index].encode_image(table, to->key, to->keypart_map, &range_read.end);
  range_read.is_end_loose= ordered != Index_key::UNCUT;
  if (range_read.is_end_loose)
    range_read.end.resize(ordered);
  if (range_read.is_end_loose || to->flag == HA_READ_AFTER_KEY)
    step_over_prefix(&range_read.end);
}

int ha_holdfast::read_range_first(const key_range *from, const key_range *to, bool eq_range_arg, bool)
{
  eq_range= eq_range_arg;
  set_end_range(to);
  range_key_part= table->key_info[active_index].key_part;
  range_read.is_end_loose= false;
  if (to)
    find_range_end(to);
  range_read.is_begun= true;
  int error= from ? ha_index_read_map(table->record[0], from->key, from->keypart_map, from->flag)
    : ha_index_first(table->record[0]);
  range_read.is_begun= false;
  return within_range(error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : error);
}

int ha_holdfast::read_range_next()
{
  if (eq_range)
    return ha_index_next_same(table->record[0], end_range->key, end_range->length);
  return within_range(ha_index_next(table->record[0]));
}

/* Passes over rows that are not in the range: there are such if its end was cut.
   Else the cursor has none. */
int ha_holdfast::within_range(int error)
{
  while (!error && range_read.is_end_loose && !eq_range && compare_key2(end_range) > 0)
  {
    unlock_row();
    error= ha_index_next(table->record[0]);
  }
  return error;
}

static const Bytes open_end;

/* What a search for a key reads of the index. */
struct Search
{
  const Bytes *from= &open_end, *to= &open_end;
  bool backward= false;
  /* It reads entries of the key alone. */
  bool is_bounded= false;
  /* There is nothing in its direction. */
  bool is_empty= false;

  /* `lower` is the key, `upper` the end of all keys that begin with it; with a loose key they are
     of a part of it. False if there is no such search. */
  bool begin(enum ha_rkey_function find, const Bytes &lower, const Bytes &upper, bool is_loose)
  {
    switch (find) {
    case HA_READ_KEY_EXACT:
    case HA_READ_PREFIX:
    case HA_READ_PREFIX_LAST:
      from= &lower;
      to= &upper;
      backward= find == HA_READ_PREFIX_LAST;
      is_bounded= true;
      return true;
    case HA_READ_KEY_OR_NEXT:
      from= &lower;
      return true;
    case HA_READ_AFTER_KEY:
      is_empty= upper.empty() && !is_loose;
      from= is_loose ? &lower : &upper;
      return true;
    case HA_READ_KEY_OR_PREV:
    case HA_READ_PREFIX_LAST_OR_PREV:
      to= &upper;
      backward= true;
      return true;
    case HA_READ_BEFORE_KEY:
      is_empty= lower.empty();
      to= is_loose ? &upper : &lower;
      backward= true;
      return true;
    default:
      return false;
    }
  }
};

int ha_holdfast::index_read_map(uchar *record, const uchar *key, key_part_map map, enum ha_rkey_function find)
{
  if (int error= open_cursor(index_no_of(active_index)))
    return error;
  const Index_key &index= share->keys[active_index];
  sought.lower.clear();
  size_t ordered= index.encode_image(table, key, map, &sought.lower);
  bool whole= map + 1 == (key_part_map) 1 << index.count() || map == HA_WHOLE_KEY;
  if (scan.index == 0 && find == HA_READ_KEY_EXACT && whole)
  {
    row_key= place.entry_key= sought.lower;
    // The cursor has no position: the next read seeks.
    place.position= AT_ROW;
    scan.is_bounded= true;
    scan.is_backward= false;
    return read_by_row_key(record, HA_ERR_KEY_NOT_FOUND);
  }
  // A whole key that is cut is told by its hash. That of a longer one may begin like the end of
  // one that is not.
  bool is_told_by_hash= whole && find == HA_READ_KEY_EXACT && index.is_cut(sought.lower.size());
  sought.is_loose= ordered != Index_key::UNCUT && !is_told_by_hash;
  if (sought.is_loose)
    sought.lower.resize(ordered);
  sought.upper= sought.lower;
  step_over_prefix(&sought.upper);
  Search search;
  scan.is_bounded= false;
  if (!search.begin(find, sought.lower, sought.upper, sought.is_loose))
    return HA_ERR_WRONG_COMMAND;
  if (search.is_empty)
  {
    stand_beyond(search.backward);
    return HA_ERR_KEY_NOT_FOUND;
  }
  scan.is_bounded= search.is_bounded;
  if (range_read.is_begun && end_range && !search.backward && !scan.is_bounded)
  {
    search.to= &range_read.end;
    scan.is_bounded= true;
  }
  if (int error= seek(*search.from, true, *search.to, false, search.backward))
    return error;
  // Where there is no entry of just this key, the index stands before the next one.
  place.entry_key= sought.lower;
  int error= sought.is_loose
    ? fetch_agreeing(record, key, calculate_key_len(table, active_index, key, map), find, HA_ERR_KEY_NOT_FOUND)
    : fetch(record, HA_ERR_KEY_NOT_FOUND);
  if (error == HA_ERR_KEY_NOT_FOUND && !scan.is_bounded)
    stand_beyond(search.backward);
  return error;
}

int ha_holdfast::index_next_same(uchar *record, const uchar *key, uint length)
{
  // There is one row under a whole primary key.
  if (place.position == AT_ROW)
    return HA_ERR_END_OF_FILE;
  // The cursor's range is the key's.
  if (scan.is_bounded && !scan.is_backward && sought.is_loose)
    return fetch_agreeing(record, key, length, HA_READ_KEY_EXACT, HA_ERR_END_OF_FILE);
  if (scan.is_bounded && !scan.is_backward)
    return fetch(record, HA_ERR_END_OF_FILE);
  return handler::index_next_same(record, key, length);
}

/* Goes to the next entry in a direction. From behind the last one it goes back to that, as
   from before the first one. */
inline int ha_holdfast::step(uchar *record, bool backward)
{
  if (place.position == (backward ? BEFORE_ALL : BEHIND_ALL))
    return HA_ERR_END_OF_FILE;
  if (scan.is_backward != backward || place.position != AT_ENTRY)
  {
    if (int error= seek_from_here(backward))
      return error;
  }
  int error= fetch(record, HA_ERR_END_OF_FILE);
  if (error != HA_ERR_END_OF_FILE || (end_range && !backward))
    return error;
  if (scan.is_bounded)
  {
    if (int seek_error= seek_from_here(backward))
      return seek_error;
    error= fetch(record, HA_ERR_END_OF_FILE);
  }
  if (error == HA_ERR_END_OF_FILE)
    stand_beyond(backward);
  return error;
}

void ha_holdfast::stand_beyond(bool backward)
{
  place.position= backward ? BEFORE_ALL : BEHIND_ALL;
}

int ha_holdfast::index_next(uchar *record)
{
  return step(record, false);
}

int ha_holdfast::index_prev(uchar *record)
{
  return step(record, true);
}

int ha_holdfast::index_first(uchar *record)
{
  if (int error= open_cursor(index_no_of(active_index)))
    return error;
  static const Bytes open;
  sought.is_loose= false;
  scan.is_bounded= range_read.is_begun && end_range;
  if (int error= seek(open, true, scan.is_bounded ? range_read.end : open, false, false))
    return error;
  int error= fetch(record, HA_ERR_END_OF_FILE);
  if (error == HA_ERR_END_OF_FILE && !scan.is_bounded)
    stand_beyond(false);
  return error;
}

int ha_holdfast::index_last(uchar *record)
{
  if (int error= open_cursor(index_no_of(active_index)))
    return error;
  static const Bytes open;
  sought.is_loose= scan.is_bounded= false;
  if (int error= seek(open, true, open, false, true))
    return error;
  int error= fetch(record, HA_ERR_END_OF_FILE);
  if (error == HA_ERR_END_OF_FILE)
    stand_beyond(true);
  return error;
}
