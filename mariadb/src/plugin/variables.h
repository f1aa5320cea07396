/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* System variables. */

#ifndef HOLDFAST_VARIABLES_H
#define HOLDFAST_VARIABLES_H

#include "server.h"

namespace holdfast {

extern struct st_mysql_sys_var *system_variables[];

/* Where the database is, relative to the server's data; without a slash at the end, so that it ends
   with the name of the folder. */
const char *data_dir();

/* Before the database is opened: whether the settings are impossible
   together; the error log says why. */
bool check_settings();
hf_settings database_settings();

/* After it was opened: variables show what the database has, where that
   is not up to the settings. */
void show_settings_found();

hf_flush flush_at_commit();
bool print_all_deadlocks();

/* True if a table with another version of its definition than the server's stays closed. */
bool definitions_must_agree();
uint64_t lock_wait_timeout_ms(THD *thd);
bool snapshot_isolation(THD *thd);

} // namespace holdfast

#endif
