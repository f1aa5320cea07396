/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Backup: the database, and the files in which the server keeps the definitions of its tables, into
   a new directory of the shape of the server's data directory. */

#ifndef HOLDFAST_BACKUP_H
#define HOLDFAST_BACKUP_H

#include "server.h"

namespace holdfast {

/* Can be killed. True if it failed; then the client has been told why, and the copied files are
   left for the user to examine and to remove. */
bool back_up(THD *thd, const std::string &dir, uint64_t rate_limit);

/* A server starts on a database that `back_up` has copied: what was between prepare and commit is
   rolled back, since no client was told that it had committed and the binary log that had it is not
   there. True if that failed, and was logged. */
bool settle_copy();

} // namespace holdfast

#endif
