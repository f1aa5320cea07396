/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* What the engine's catalog keeps with a table for the server:

     format      1 byte, 1
     flags       1 byte: 1 the table is temporary
     version     16 bytes, the server's of the definition
     statistics  those of the last ANALYZE; nothing before the first one */

#ifndef HOLDFAST_DEFINITION_H
#define HOLDFAST_DEFINITION_H

#include "server.h"

namespace holdfast {

struct Definition
{
  bool temporary= false;
  bool known= true;  // false if the bytes are of another format: then so are the keys and rows
  std::string version;
  std::string statistics;

  Definition() = default;
  Definition(const TABLE_SHARE *table, bool temporary);

  /* Leaves everything else as it is if the bytes are of another format. */
  explicit Definition(hf_slice bytes);

  std::string bytes() const;
};

/* Reads and changes the definition of a table. */
hf_code read_definition(const std::string &name, Definition *out);
hf_code write_definition(const std::string &name, const Definition &definition);

} // namespace holdfast

#endif
