/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Prepared transactions without a session, and the server's list of them, which XA RECOVER
   shows. */

#ifndef HOLDFAST_PREPARED_H
#define HOLDFAST_PREPARED_H

#include "server.h"

namespace holdfast {

/* True if the server has loaded its plugins and is about to ask them what is prepared, or has done
   so. */
bool server_has_loaded_plugins();

/* The server, which starts, asks what is prepared. */
int recover(handlerton *hton, XID *xids, uint room);

/* Tells the server which transactions are prepared, if it does not ask: it does when it starts. */
void tell_server_of_prepared();

/* The plugin goes, and the server stays: warns of what is prepared. */
void say_what_stays_prepared();

/* The session could not end the transaction that it has prepared by XA, and has freed it. If it is
   prepared still, the server lists it, for any session to end. */
void leave_to_all_sessions(THD *thd);

} // namespace holdfast

#endif
