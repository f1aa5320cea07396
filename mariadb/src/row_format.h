/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* Rows as byte strings.

     format      1 byte, 1
     version     1 byte, of the layout: 0 until a table can change it in place
     null bytes  as the server's record has them
     columns     of those that are stored and not NULL, in order:
                   fixed width   the bytes of the record
                   CHAR          length without trailing spaces (LEB128), bytes
                   VARCHAR       length (LEB128), bytes
                   BLOB          length (LEB128), bytes

   A blob is not copied when a row is read: the record points into the row's bytes, which have to stay until the next
   row is read. */

#ifndef HOLDFAST_ROW_H
#define HOLDFAST_ROW_H

#include "server.h"

namespace holdfast {

/* A length as LEB128. */
void append_length(size_t n, Bytes *out);

/* Takes a length off the front; false if there is none. */
bool take_length(const uchar **from, const uchar *end, size_t *n);

class Row_layout
{
public:
  explicit Row_layout(const TABLE *table);

  /* Appends the row in `record`. */
  void encode(TABLE *table, const uchar *record, Bytes *out) const;

  /* Puts a row into `record`: all columns if `all`, else those that are to be read. False if the bytes are no row. */
  bool decode(TABLE *table, uchar *record, const uchar *row, size_t length, bool all) const;

private:
  enum Kind { FIXED, CHAR, VARCHAR, BLOB };
  struct Column
  {
    uint field_no;
    uint offset;
    uint width;       // in the record
    uint null_offset;
    uchar null_bit;
    Kind kind;
    uint length_bytes;
  };

  std::vector<Column> columns;
  uint null_bytes;
};

} // namespace holdfast

#endif
