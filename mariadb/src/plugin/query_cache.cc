/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */


/* The server forgets a table's cached results when a transaction of several statements is
   committed. Of a prepared transaction that has no session any more it does not know the tables:
   then they all go. Of a statement that is a transaction by itself it forgets them before the
   commit, as for engines that say of each table whether its results may be kept, which they may not
   while a transaction has changed it. This engine lets results of before be kept until the commit,
   and has them forgotten once more then. */

#include "query_cache.h"
#include "references/references.h"
#include "sql_table.h"

namespace holdfast {

/* Forgets the results that need a table, which the engine knows by the
   names of the server's files. */
extern "C" void forget_results_of(void *thd, hf_slice name, hf_slice)
{
  std::string table((const char *) name.data, name.len);
  if (table.find('/') == std::string::npos)
    return;
  // Results are those of the whole table.
  table.resize(MY_MIN(table.size(), table.find("#P#")));
  std::string key= schema_of(table) + '\0' + table_of(table) + '\0';
  mysql_query_cache_invalidate4(static_cast<THD *>(thd), key.data(), (uint) key.size(), false);
}

void forget_cached_results()
{
  // When the server starts, there are none.
  if (THD *thd= current_thd)
    hf_table_list(database, forget_results_of, thd);
}

void forget_cached_results(THD *thd, const std::string &cache_key)
{
  if (!cache_key.empty())
    mysql_query_cache_invalidate4(thd, cache_key.data(), (uint) cache_key.size(), false);
}

} // namespace holdfast
