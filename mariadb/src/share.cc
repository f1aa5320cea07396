/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

#include "share.h"

namespace holdfast {

std::string table_name(const char *path)
{
  return path[0] == '.' && path[1] == '/' ? path + 2 : path;
}

static std::vector<Index_key> keys_of(const TABLE *table)
{
  std::vector<Index_key> keys;
  for (uint i= 0; i < table->s->keys; i++)
    keys.emplace_back(table->key_info[i]);
  return keys;
}

Share::Share(const TABLE *table) : primary_key(table->s->primary_key), layout(table), keys(keys_of(table)) {}

Share::~Share()
{
  if (open_table)
    hf_table_close(open_table);
}

hf_code Share::open(const std::string &name)
{
  if (open_table)
    return HF_OK;
  openings++;
  return hf_table_open(database, slice(name), &open_table);
}

hf_code Share::reopen(const std::string &name)
{
  hf_table_close(open_table);
  open_table= nullptr;
  return open(name);
}

} // namespace holdfast
