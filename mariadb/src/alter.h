/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* An ALTER TABLE in place, between the server's calls of it. */

#ifndef HOLDFAST_ALTER_H
#define HOLDFAST_ALTER_H

#include "server.h"

namespace holdfast {

/* The table that is altered; of a partitioned one, the server keeps that of every partition. */
struct Altered : public inplace_alter_handler_ctx
{
  explicit Altered(const std::string &name) : name(name) {}
  ~Altered() override { give_up(); }

  /* Ends what was begun in the engine: if it was not committed, the table stays as it was. */
  void give_up()
  {
    hf_alter_free(alter);
    alter= nullptr;
  }

  const std::string name;
  hf_alter *alter= nullptr;                 // if indexes change
  std::vector<uint> added;                  // the altered table's numbers of new keys
  std::vector<hf_index_source> indexes;     // where the altered table's secondary indexes come from
};

} // namespace holdfast

#endif
