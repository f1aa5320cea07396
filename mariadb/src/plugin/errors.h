/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Error codes of the engine as the server's. */

#ifndef HOLDFAST_ERROR_H
#define HOLDFAST_ERROR_H

#include "server.h"

namespace holdfast {

/* The server's error for `code`, for a connection. Tells the server when the whole transaction has
   to be rolled back. `not_found` is what HF_NOT_FOUND means to the caller. */
int server_error(hf_code code, THD *thd, int not_found= HA_ERR_KEY_NOT_FOUND);

/* Says that the snapshot of a transaction that met HF_SNAPSHOT_TOO_OLD is too old because of a
   setting, if so: the server's words for the error are about a table that is younger. */
void say_given_up(hf_transaction *transaction);

/* Says that a wait came to its limit or was interrupted, if that is what `code` says: of errors
   that it does not expect where it asks, the server says no more than their numbers. */
void say_wait_ended(hf_code code, THD *thd);

/* The server's error for `code` where there is no connection; writes what the
   engine said to the error log. */
int logged_error(hf_code code, const char *doing);

} // namespace holdfast

#endif
