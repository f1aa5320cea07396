/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* INFORMATION_SCHEMA.HOLDFAST_*: the engine's listings as tables. The engine
   says which columns there are.

   A table is a plugin of its own, known to the server by its name, and to the
   engine by the listing's number. */

#ifndef HOLDFAST_INFORMATION_SCHEMA_H
#define HOLDFAST_INFORMATION_SCHEMA_H

#include "server.h"

#include <shared_mutex>

namespace holdfast {

extern struct st_mysql_information_schema information_schema;

static const uint LISTINGS= 9;

/* Held for reading while a table is filled: the server counts no use of the engine for that, and
   may uninstall it meanwhile. */
extern std::shared_mutex listings_under_way;

int begin_listing(uint number, ST_SCHEMA_TABLE *table, int (*fill)(THD *, TABLE_LIST *, COND *));
int fill_listing(uint number, THD *thd, TABLE *table);

template <uint NUMBER> int fill_as(THD *thd, TABLE_LIST *tables, COND *)
{
  return fill_listing(NUMBER, thd, tables->table);
}

/* What the server calls to have the table of listing NUMBER begin. */
template <uint NUMBER> int begin_as(void *table)
{
  static_assert(NUMBER < LISTINGS, "there is no such listing");
  return begin_listing(NUMBER, static_cast<ST_SCHEMA_TABLE *>(table), fill_as<NUMBER>);
}

} // namespace holdfast

#endif
