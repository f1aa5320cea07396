/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* What the engine's catalog keeps with a table for the server:

     format      1 byte, 2, or 4 if it has a history: of the keys and rows of the table, too
     flags       1 byte: 1 the table is temporary
     version     16 bytes, the server's of the definition
     history     of the layouts of rows (row_history.h); with format 3 from when columns came at the end only
     statistics  those of the last ANALYZE; nothing before the first one */

#ifndef HOLDFAST_DEFINITION_H
#define HOLDFAST_DEFINITION_H

#include "row_history.h"

namespace holdfast {

struct Definition
{
  /* With 2, all weights of a text are in its keys. With 3, there are rows of several layouts, each the beginning of the next; with 4, of any. */
  static const uchar FORMAT= 2, FORMAT_WITH_BEGINNINGS= 3, FORMAT_WITH_HISTORY= 4;

  /* Of a definition that is none. */
  static const uchar NO_FORMAT= 0;

  bool temporary= false;
  uchar format= FORMAT;
  std::string version;
  Row_history history;
  std::string statistics;

  Definition() = default;
  Definition(const TABLE_SHARE *table, bool temporary);

  /* Of another format, nothing but that is read; of bytes that are none, NO_FORMAT. */
  explicit Definition(hf_slice bytes);

  static bool is_readable(uchar format) { return format >= FORMAT && format <= FORMAT_WITH_HISTORY; }

  std::string bytes() const;

private:
  bool decode_history(const uchar **from, const uchar *end);
};

/* Reads and changes the definition of a table. */
hf_code read_definition(const std::string &name, Definition *out);
hf_code write_definition(const std::string &name, const Definition &definition);

} // namespace holdfast

#endif
