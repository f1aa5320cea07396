/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Lengths and other numbers as LEB128, in rows, entries of indexes and definitions. */

#ifndef HOLDFAST_LENGTHS_H
#define HOLDFAST_LENGTHS_H

#include "plugin/server.h"

namespace holdfast {

inline void append_length(size_t n, Bytes *out)
{
  for (; n >= 0x80; n>>= 7)
    out->push_back((uchar) (n | 0x80));
  out->push_back((uchar) n);
}

/* Takes a length off the front; false if there is none. */
inline bool take_length(const uchar **from, const uchar *end, size_t *n)
{
  *n= 0;
  for (uint shift= 0; *from < end && shift < 63; shift+= 7)
  {
    uchar byte= *(*from)++;
    *n|= (size_t) (byte & 0x7F) << shift;
    if (byte < 0x80)
      return true;
  }
  return false;
}

inline void append_text(const std::string &text, Bytes *out)
{
  append_length(text.size(), out);
  out->insert(out->end(), text.begin(), text.end());
}

/* Takes a text with its length off the front; false if there is none. */
inline bool take_text(const uchar **from, const uchar *end, std::string *text)
{
  size_t n;
  if (!take_length(from, end, &n) || n > (size_t) (end - *from))
    return false;
  text->assign((const char *) *from, n);
  *from+= n;
  return true;
}

/* The key of the row that an entry of a secondary index is of, and how many bytes of the entry's
   key are before it. False if the entry is damaged. */
inline bool find_row_key(hf_slice key, hf_slice value, Bytes *row_key, size_t *prefix)
{
  const uchar *from= value.data;
  if (!take_length(&from, from + value.len, prefix) || *prefix > key.len)
    return false;
  row_key->assign(key.data + *prefix, key.data + key.len);
  return true;
}

} // namespace holdfast

#endif
