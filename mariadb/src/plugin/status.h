/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Status variables, SHOW ENGINE HOLDFAST STATUS, SHOW ENGINE HOLDFAST MUTEX. */

#ifndef HOLDFAST_STATUS_H
#define HOLDFAST_STATUS_H

#include "server.h"

namespace holdfast {

extern struct st_mysql_show_var status_variables[];

/* Asks the engine what there is to count. Before anything is shown. */
hf_code collect_status_variables();

/* Writes the latest deadlock to the error log. */
void log_deadlock();

bool show_status(handlerton *hton, THD *thd, stat_print_fn *print, enum ha_stat_type what);

} // namespace holdfast

#endif
