/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* What the rows are like that were written before the columns were changed in place.

   A layout is told by runs of columns: those that lay side by side then and do so now, in the
   same order. What they are like is not said: as they are now, for what an ALTER in place
   changes of a column means nothing to a row. A column that is gone is a run by itself, and says
   what is needed to pass over it. A column that a layout does not have came later, and has the
   value that was its default then.

   Columns are those that are in a row, by their numbers among them. Null bits are counted from that
   of the first column that may be NULL. As bytes, numbers are LEB128:

     layouts            their number, 255 at most; of each, by version:
       null bytes         their number
       first null bit     where in the null bytes it is, 0 or 1
       runs               their number; of each:
         first              0 if it is a column that is gone, else the number of its first column
                            now, and 1
         columns            their number, unless it is one that is gone. Of that:
         kind               0 fixed, 1 CHAR, 2 VARCHAR, 3 BLOB
         width              of a fixed one
         null bits          0 if no column may or might be NULL, 1 if none might, else 2 and how
                            much further they lay than they do now; of a column that is gone, where
                            its own lay. n is 2 n, -n is 2 n - 1
     defaults           their number; of each:
       column             its number
       value              0 for NULL, else the number of its bytes, and 1; the bytes

   Before columns could go, or come before others, a layout was the beginning of all later ones:

     layouts            their number; of each: null bytes, first null bit, the number of its columns
     defaults           their number; of each, from the first column on that the first layout
                        lacks: the value */

#ifndef HOLDFAST_ROW_HISTORY_H
#define HOLDFAST_ROW_HISTORY_H

#include "lengths.h"

namespace holdfast {

/* How the value of a column lies in a row. The numbers are kept with tables. */
enum Column_kind
{
  FIXED,      // the bytes of the record
  CHAR,       // these have a length of their own,
  VARCHAR,    // and these two may be in the tail
  BLOB
};

struct Row_history
{
  static constexpr uint GONE= UINT_MAX;

  enum Null_bits
  {
    NO_NULLS,     // none of the columns may be NULL, nor might it then
    NEVER_NULL,   // those that may be NULL now might not then
    HAD_BITS
  };

  struct Run
  {
    uint first;           // number of the first column now, or GONE
    uint columns;         // how many; one if it is gone
    Null_bits nulls;
    int null_shift;       // how much further the bits lay that it HAD; of a column that is gone, where its own lay
    Column_kind kind;     // of a column that is gone
    uint width;           // of that, if it is FIXED
  };

  struct Layout
  {
    /* Appends a run, to the last one if that goes on in it. */
    void append(const Run &run);

    uint null_bytes;
    uint first_null_bit;            // of the first nullable column, in the null bytes
    std::vector<Run> runs;
    std::vector<uint> lacking;      // numbers of the defaults of columns that it does not have; known when the history is a table's
  };

  struct Default
  {
    uint column;
    bool is_null;
    std::string bytes;        // as in a row, without their length
  };

  /* Versions that a byte can tell apart, but for the current one. */
  static constexpr size_t MAX_LAYOUTS= 255;

  /* Runs of all layouts, so that what is kept with a table stays small. */
  static constexpr size_t MAX_RUNS= 20000;

  bool is_too_long() const;

  void encode(Bytes *out) const;

  /* Takes it off the front; false if there is none. */
  bool decode(const uchar **from, const uchar *end);

  /* The same from when layouts were beginnings. */
  bool decode_beginnings(const uchar **from, const uchar *end);

  std::vector<Layout> layouts;        // by version; that of the current version is not among them
  std::vector<Default> defaults;      // of the columns that some layout lacks

private:
  template <typename Take_runs> bool decode_layouts(const uchar **from, const uchar *end, Take_runs take_runs);
};

} // namespace holdfast

#endif
