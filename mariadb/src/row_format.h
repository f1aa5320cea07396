/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* Rows as byte strings.

     format      1 byte, 1, or 2 if the row has a tail
     version     1 byte, of the layout: how often the table had been given columns in place when the row was written
     limit       2 bytes, low byte first     } only in a row with a tail
     head        4 bytes, where the tail begins }
     null bytes  as the server's record had them then
     columns     of those that are stored and not NULL, in order:
                   fixed width   the bytes of the record
                   CHAR          length without trailing spaces (LEB128), bytes
                   VARCHAR       length (LEB128), bytes
                   BLOB          length (LEB128), bytes
     tail        the bytes of each VARCHAR and BLOB that has more than `limit` of them, in order; in its place is only the length

   All before the tail is the head. The engine keeps the tail of a large row elsewhere: who wants none of the columns there reads
   heads, and who changes none of them does not write them again.

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
  enum Decoded
  {
    DAMAGED,    // the bytes are no row
    DECODED,
    CUT         // they are only a head, which lacks columns that are to be read
  };

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

  /* Makes `out` the row in `record`. Returns how many bytes its head has; 0 if it has no tail. */
  size_t encode(TABLE *table, const uchar *record, Bytes *out) const;

  /* Puts a row, or its head, into `record`: all columns if `all`, else those that are to be read. */
  Decoded decode(TABLE *table, uchar *record, const uchar *row, size_t length, bool all) const;

  /* Whether the columns that are to be read are as a rule in the heads of rows. */
  bool heads_do(const TABLE *table) const;

private:
  enum Kind { FIXED, CHAR, VARCHAR, BLOB };
  struct Column
  {
    size_t null_bit_no() const { return null_offset * 8 + my_find_first_bit(null_bit); }

    bool is_null(const uchar *record) const { return null_bit && (record[null_offset] & null_bit); }

    bool is_in_tail(size_t n, size_t limit) const { return n > limit && (kind == VARCHAR || kind == BLOB); }

    /* Of how many bytes values may be in a tail. */
    size_t tail_bytes() const
    {
      if (kind == BLOB)
        return width - portable_sizeof_char_ptr > 1 ? SIZE_MAX : 255;
      return kind == VARCHAR ? width - length_bytes : 0;
    }

    bool is_always_fixed() const { return kind == FIXED && !null_bit; }

    uint field_no;
    uint offset;
    uint width;       // in the record
    uint null_offset;
    uchar null_bit;
    Kind kind;
    uint length_bytes;
    uint run_columns; // this one and those after it that are in each row as they lie in the record: together one string of bytes
    uint run_width;   // of those bytes
  };

  /* The bytes that stand for a column in a row, without their length. */
  static const uchar *value_of(const TABLE *table, const Column &column, const uchar *record, size_t *n);
  static void put(const TABLE *table, const Column &column, uchar *record, const uchar *value, size_t n);
  static void put_null(const TABLE *table, const Column &column, uchar *record);
  void find_runs();
  static bool fits(const Column &column, size_t n);
  static bool take_value(const TABLE *table, const Column &column, uchar *record, const uchar **from, const uchar *end, size_t n,
                         bool wanted);
  bool put_default(const TABLE *table, size_t i, uchar *record, bool wanted) const;
  void take_null_bytes(const Row_history::Layout &then, const uchar *from, uchar *record) const;
  size_t tail_limit(const TABLE *table, const uchar *record) const;

  std::vector<Column> columns;
  uint null_bytes;
  uint first_null_bit;
  bool has_bits= false;       // of BIT columns, among the null bytes
  std::vector<uint> long_columns;   // of `columns`, those that may be in a tail
  Row_history history;
};

} // namespace holdfast

#endif
