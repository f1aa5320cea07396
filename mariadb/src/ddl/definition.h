/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* What the engine's catalog keeps with a table for the server:

     format      1 byte, 2, or 4 if it has a history, 5 if it has references, or 6 if it replaces
                 another table: of the keys and rows of the table, too
     flags       1 byte: 1 the table is temporary
     version     16 bytes, the server's of the definition
     history     of the layouts of rows (row_history.h), from format 3 on; with that from when
                 columns came at the end only
     references  to other tables (references.h), from format 5 on
     replaces    the table whose place this one takes under another name, from format 6 on
     statistics  those of the last ANALYZE; nothing before the first one */

#ifndef HOLDFAST_DEFINITION_H
#define HOLDFAST_DEFINITION_H

#include "references/references.h"
#include "row/row_history.h"

#include <mutex>

namespace holdfast {

struct Definition
{
  /* With 2, all weights of a text are in its keys. With 3, there are rows of several layouts, each
     the beginning of the next; with 4, of any. With 5, there are FOREIGN KEYs, which an older
     version would not look after. With 6, it is a copy that has no name yet. */
  static constexpr uchar FORMAT= 2, FORMAT_WITH_BEGINNINGS= 3, FORMAT_WITH_HISTORY= 4, FORMAT_WITH_REFERENCES= 5, FORMAT_OF_COPY= 6;

  /* Of a definition that is none. */
  static constexpr uchar NO_FORMAT= 0;

  bool temporary= false;
  uchar format= FORMAT;
  std::string version;
  Row_history history;
  References references;
  std::string statistics;

  /* Of a copy (ALTER TABLE ... RENAME) until it has its name: the engine's name of the table whose
     place it takes. What refers to that one refers to the copy from then on, also where the server
     gives it the name after a crash, without a statement. */
  std::string replaces;

  Definition() = default;
  Definition(const TABLE_SHARE *table, bool temporary);

  /* Of another format, nothing but that is read; of bytes that are none, NO_FORMAT. */
  explicit Definition(hf_slice bytes);

  static bool is_readable(uchar format) { return format >= FORMAT && format <= FORMAT_OF_COPY; }

  std::string bytes() const;

private:
  uchar format_for_bytes() const;
  bool decode_history(const uchar **from, const uchar *end);
};

hf_code read_definition(const std::string &name, Definition *out);

/* Definitions that change. While one of these exists, no other session changes any: what is read
   meanwhile does not grow old before it is written, though a table may be analysed while another
   one changes what is kept with it. A session that keeps all others from a table by the server's
   exclusive metadata lock changes the definition of that table without: it may wait in between, and
   sessions wait here for no kill. */
class Definitions
{
public:
  Definitions();
  void add(const std::string &table, const Definition &definition);

  /* The one that `table` has now with other references and, if `version` is not empty, with that;
     it may be kept for another name, and replaces no table any more. */
  hf_code add(const std::string &table, const References &references, const std::string &kept_for, const std::string &version= "");

  /* Has the engine keep them. */
  hf_code write();

  const hf_definition *all();
  size_t count() const { return kept.size(); }

private:
  const std::lock_guard<std::mutex> alone;
  std::vector<std::pair<std::string, std::string>> kept;
  std::vector<hf_definition> slices;
};

} // namespace holdfast

#endif
