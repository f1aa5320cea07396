/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Rows as byte strings.

     format      1 byte, 1, or 2 if the row has a tail
     version     1 byte, of the layout: how often columns had been changed in place when the row
                 was written
     limit       2 bytes, low byte first     } only in a row with a tail
     head        4 bytes, where the tail begins }
     null bytes  as the server's record had them then
     columns     of those that are stored and not NULL, in order:
                   fixed width   the bytes of the record
                   CHAR          length without trailing spaces (LEB128), bytes
                   VARCHAR       length (LEB128), bytes
                   BLOB          length (LEB128), bytes
     tail        the bytes of each VARCHAR and BLOB that has more than `limit` of them, in order; in
                 its place is only the length

   All before the tail is the head. The engine keeps the tail of a large row elsewhere: a
   statement that needs none of the columns there reads heads, and one that changes none of them
   does not write them again.

   A blob is not copied when a row is read: the record points into the row's bytes, which have to
   stay until the next row is read. */

#ifndef HOLDFAST_ROW_H
#define HOLDFAST_ROW_H

#include "row_history.h"

#include <my_bit.h>

namespace holdfast {

/* Where the columns of an altered table come from: by their numbers, those that they
   have in the table as it is. */
typedef std::vector<uint> Sources;
static const uint NEW_COLUMN= UINT_MAX;

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

  /* Rows of before are as this says. False if no rows of this table can have been so. */
  bool set_history(const Row_history &known);

  /* True if rows can be left as they are when a table with the layout
     `altered` takes this one's place. */
  bool can_become(const Row_layout &altered, const Sources &sources) const;

  /* What there will be to know then of the rows of now, but for the defaults of new columns. */
  Row_history history_for(const Row_layout &altered, const Sources &sources) const;

  /* The values of new columns in the record, for rows that lack them. */
  void add_defaults(const TABLE *table, const Sources &sources, const uchar *record, Row_history *known) const;

  /* Makes `out` the row in `record`. Returns how many bytes its head has; 0 if it has no tail. */
  size_t encode(TABLE *table, const uchar *record, Bytes *out) const;

  /* True if two records, with all their columns, give the same row. What lies
     under a NULL is no part of it. */
  bool is_same(const TABLE *table, const uchar *a, const uchar *b) const;

  /* Puts the values that columns have in `now`, and did not have in `before`, into `after`, but
     for columns that have other values there than in `before`, and virtual ones. Returns
     whether there are such values. */
  bool take_others(const TABLE *table, const uchar *before, const uchar *now, uchar *after) const;

  /* Puts a row, or its head, into `record`: all columns if `all`, else
     those that are to be read. */
  Decoded decode(TABLE *table, uchar *record, const uchar *row, size_t length, bool all) const;

  /* True if the columns that are to be read are as a rule in the heads of rows. */
  bool heads_do(const TABLE *table) const;

  /* True if rows have virtual columns, those of indexes, by which their entries are found. */
  bool keeps_virtual() const { return has_virtual; }

private:
  struct Column
  {
    uint null_bit_no() const { return null_offset * 8 + my_find_first_bit(null_bit); }

    bool is_null(const uchar *record) const { return null_bit && (record[null_offset] & null_bit); }

    void set_null(uchar *record, bool yes) const
    {
      if (null_bit)
        record[null_offset]= (uchar) (yes ? record[null_offset] | null_bit : record[null_offset] & ~null_bit);
    }

    /* Of how many bytes values may be in a tail. */
    size_t tail_bytes() const
    {
      if (kind == BLOB)
        return width - portable_sizeof_char_ptr > 1 ? SIZE_MAX : 255;
      return kind == VARCHAR ? width - length_bytes : 0;
    }

    bool is_always_fixed() const { return kind == FIXED && !null_bit; }

    /* True if its values can be those of `altered` as they are. */
    bool can_become(const Column &altered) const;

    uint field_no;
    uint offset;
    uint width;       // in the record
    uint null_offset;
    uchar null_bit;
    Column_kind kind;
    uint length_bytes;
    uint run_columns; // this one and those after it that are in each row as they lie in the record: together one string of bytes
    uint run_width;   // of those bytes
  };

  /* What is left of a row that is being read. */
  struct Rest
  {
    const uchar *from, *head_end;
    const uchar *tail, *end;
    size_t limit;
    bool is_cut;        // the tail is not there
  };

  /* The null bits of a row of an older layout. */
  struct Older_nulls
  {
    bool is_null(const Row_history::Run &run, uint from_first) const
    {
      uint no= first + from_first + run.null_shift;
      return run.nulls == Row_history::HAD_BITS && bytes[no / 8] >> no % 8 & 1;
    }

    const uchar *bytes;
    uint first;
  };

  /* The bytes that stand for a column in a row, without their length. */
  static const uchar *value_of(const TABLE *table, const Column &column, const uchar *record, size_t *n);
  static void put(const TABLE *table, const Column &column, uchar *record, const uchar *value, size_t n);
  static bool is_same_value(const TABLE *table, const Column &column, const uchar *a, const uchar *b);
  static void put_null(const TABLE *table, const Column &column, uchar *record);
  void find_runs();

  /* True if so many bytes can be a value of the column. */
  static bool fits(const Column &column, size_t n)
  {
    switch (column.kind) {
    case FIXED:
      return n == column.width;
    case BLOB:
      return true;
    default:
      return n <= column.width - column.length_bytes;
    }
  }

  /* Bytes of a row from which values are taken, off the front. */
  struct Values
  {
    const uchar **from;
    const uchar *end;
  };

  static bool take_value(const TABLE *table, const Column &column, uchar *record, Values values, size_t n, bool wanted);
  static bool take_run(const Column &column, uchar *record, Rest *row);
  static Decoded take_column(const TABLE *table, const Column &column, uchar *record, Rest *row, bool wanted);
  static bool pass_over(const Row_history::Run &gone, Rest *row);

  /* True if a row of which all columns were taken has no bytes behind them. */
  static bool is_used_up(const Rest &row) { return row.from == row.head_end && row.tail == row.end; }

  void put_default(const TABLE *table, const Row_history::Default &value, uchar *record, bool all) const;
  Decoded decode_older(const TABLE *table, uchar *record, const Row_history::Layout &then, Rest row, bool all) const;
  Decoded take_older(const TABLE *table, uchar *record, const Row_history::Run &run, const Older_nulls &nulls, Rest *row, bool all) const;
  size_t tail_limit(const TABLE *table, const uchar *record) const;

  uint column_no(uint field_no) const;
  uint null_bit_from_first(const Column &column) const { return column.null_bit_no() - first_null_bit; }
  bool is_possible(const Row_history::Default &value) const;
  bool is_possible(const Row_history::Layout &then, const Row_history::Run &run) const;
  bool find_lacking(const std::vector<uint> &default_of, Row_history::Layout *then) const;
  std::vector<uint> columns_in(const Row_layout &altered, const Sources &sources) const;
  Row_history::Run run_in(const Row_layout &altered, const Row_history::Run &run, uint column, uint becomes) const;

  std::vector<Column> columns;
  uint null_bytes;
  uint first_null_bit;
  bool has_virtual= false;
  std::vector<uint> long_columns;   // of `columns`, those that may be in a tail
  Row_history history;
};

} // namespace holdfast

#endif
