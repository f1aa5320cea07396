/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Which connection runs which transaction, for listings, the monitor and deadlock reports.

   The engine asks from any thread, also for connections of others. A connection is on the list as
   long as it has state of this engine; it leaves it under the list's mutex, so what is found there
   under the mutex is alive.

   Lock order: the engine's mutex of deadlock reports, or that of held transactions -> the list ->
   LOCK_thd_data, which the server only tries to take. */

#ifndef HOLDFAST_SESSIONS_H
#define HOLDFAST_SESSIONS_H

#include "server.h"

namespace holdfast {

class Connection;

void session_begins(THD *thd, const Connection *connection);
void session_ends(const Connection *connection);

/* True if the session of the connection, which has prepared the transaction of XA that the server
   knows by this element, is not in it any more: it was reset, and may have begun another one. */
bool has_left_xa(const Connection *connection, const void *element);

/* Lets the engine ask. */
hf_code answer_about_sessions();

} // namespace holdfast

#endif
