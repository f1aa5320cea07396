/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */


/* The server forgets a table's cached results when a transaction of a session is committed. Of a prepared transaction that has no session
   any more it does not know the tables: then they all go. */

#include "query_cache.h"
#include "sql_table.h"

namespace holdfast {

/* Forgets the results that need a table, which the engine knows by the names of the server's files. */
extern "C" void forget_results_of(void *thd, hf_slice name, hf_slice)
{
  std::string path((const char *) name.data, name.len);
  size_t slash= path.find('/');
  if (slash == std::string::npos)
    return;
  std::string schema= path.substr(0, slash), table= path.substr(slash + 1);
  // Results are those of the whole table.
  table.resize(MY_MIN(table.size(), table.find("#P#")));
  char key[2 * (SAFE_NAME_LEN + 1)];
  size_t n= filename_to_tablename(schema.c_str(), key, SAFE_NAME_LEN, true) + 1;
  n+= filename_to_tablename(table.c_str(), key + n, SAFE_NAME_LEN, true) + 1;
  mysql_query_cache_invalidate4(static_cast<THD *>(thd), key, (uint) n, false);
}

void forget_cached_results()
{
  // When the server starts, there are none.
  if (THD *thd= current_thd)
    hf_table_list(database, forget_results_of, thd);
}

} // namespace holdfast
