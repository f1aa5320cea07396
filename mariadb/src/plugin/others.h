/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* What others do with the server's tables, and cannot do with this engine's: a Galera cluster
   replicates statements that define them and none of their rows, and mariadb-backup copies their
   definitions and none of their rows. */

#ifndef HOLDFAST_OTHERS_H
#define HOLDFAST_OTHERS_H

#include "server.h"

namespace holdfast {

/* An error, which was said, if the session is to replicate what it does to other nodes
   of a cluster, and the table is not temporary. The definition that `create` gets
   calls every table temporary. */
int refuse_in_cluster(THD *thd, const TABLE_SHARE *table, bool temporary);

/* Sets the hooks of BACKUP STAGE. */
void set_backup_hooks(handlerton *hton);

} // namespace holdfast

#endif
