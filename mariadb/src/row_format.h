/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* Rows as byte strings.

     format      1 byte, 1
     version     1 byte, of the layout: how often the table had been given columns in place when the row was written
     null bytes  as the server's record had them then
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

#include <my_bit.h>

namespace holdfast {

/* What the rows are like that were written before the table was given columns in place. Those have come at the end, so a row that lacks
   them is the beginning of one that does not, and has the values that were the defaults when they came. */
struct Row_history
{
  struct Layout
  {
    size_t null_bytes;
    size_t first_null_bit;    // of the first nullable column, in the null bytes
    size_t columns;           // that are in a row, if not NULL
  };
  struct Default
  {
    bool is_null;
    std::string bytes;        // as in a row, without their length
  };

  /* Versions that a byte can tell apart, but for the current one. */
  static const size_t MAX_LAYOUTS= 255;

  std::vector<Layout> layouts;        // by version; that of the current version is not among them
  std::vector<Default> defaults;      // of the columns that the first layout lacks

  void encode(Bytes *out) const;

  /* Takes it off the front; false if there is none. */
  bool decode(const uchar **from, const uchar *end);
};

/* A length as LEB128. */
void append_length(size_t n, Bytes *out);

/* Takes a length off the front; false if there is none. */
bool take_length(const uchar **from, const uchar *end, size_t *n);

class Row_layout
{
public:
  explicit Row_layout(const TABLE *table);

  /* Rows of before are as this says. */
  void set_history(const Row_history &known) { history= known; }

  /* How many layouts there were before. */
  size_t version() const { return history.layouts.size(); }

  /* What there will be to know of the rows of now when `table`, with the layout `altered`, takes this one's place: where they lack columns, they
     have those of `record`. */
  Row_history history_for(const Row_layout &altered, const TABLE *table, const uchar *record) const;

  /* Whether the columns of this layout are the first of `altered`, and their null bits lie there as they do here, or one further to
     the front. */
  bool begins(const Row_layout &altered) const;

  /* Appends the row in `record`. */
  void encode(TABLE *table, const uchar *record, Bytes *out) const;

  /* Puts a row into `record`: all columns if `all`, else those that are to be read. False if the bytes are no row. */
  bool decode(TABLE *table, uchar *record, const uchar *row, size_t length, bool all) const;

private:
  enum Kind { FIXED, CHAR, VARCHAR, BLOB };
  struct Column
  {
    size_t null_bit_no() const { return null_offset * 8 + my_find_first_bit(null_bit); }


    uint field_no;
    uint offset;
    uint width;       // in the record
    uint null_offset;
    uchar null_bit;
    Kind kind;
    uint length_bytes;
  };

  /* The bytes that stand for a column in a row, without their length. */
  static const uchar *value_of(const TABLE *table, const Column &column, const uchar *record, size_t *n);
  static void put(const TABLE *table, const Column &column, uchar *record, const uchar *value, size_t n);
  static void put_null(const TABLE *table, const Column &column, uchar *record);
  static bool fits(const Column &column, size_t n);
  bool put_default(const TABLE *table, size_t i, uchar *record, bool wanted) const;
  void take_null_bytes(const Row_history::Layout &then, const uchar *from, uchar *record) const;

  std::vector<Column> columns;
  uint null_bytes;
  uint first_null_bit;
  bool has_bits= false;       // of BIT columns, among the null bytes
  Row_history history;
};

} // namespace holdfast

#endif
