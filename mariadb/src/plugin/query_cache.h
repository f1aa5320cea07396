/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#ifndef HOLDFAST_QUERY_CACHE_H
#define HOLDFAST_QUERY_CACHE_H

#include "server.h"

namespace holdfast {

/* Forgets the cached results of all tables of the engine. */
void forget_cached_results();

/* Forgets those of the table that the server's cache knows by this key;
   nothing if that is empty. */
void forget_cached_results(THD *thd, const std::string &cache_key);

} // namespace holdfast

#endif
