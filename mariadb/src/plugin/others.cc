/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "others.h"
#include "handler/ha_holdfast.h"
#include "wsrep_on.h"

namespace holdfast {

int refuse_in_cluster(THD *thd, const TABLE_SHARE *table, bool temporary)
{
  if (!WSREP_ON || !WSREP(thd) || temporary)
    return 0;
  my_printf_error(ER_NOT_SUPPORTED_YET, "Holdfast: a cluster does not replicate rows of this engine: table %s.%s; "
                  "SET SESSION wsrep_on = OFF to use it on this node alone", MYF(ME_ERROR_LOG), table->db.str,
                  table->table_name.str);
  return HA_ERR_UNSUPPORTED;
}

/* BACKUP STAGE START, which is where mariadb-backup begins. A snapshot of the file
   system has the rows, too. */
static void prepare_for_backup()
{
  static const char TEXT[]= "Holdfast: mariadb-backup copies no rows of this engine's tables; back them up with "
    "SET GLOBAL holdfast_backup_dir, or by a snapshot of the file system";
  std::vector<Listed_table> tables= all_tables();
  bool lasting= false;
  for (const Listed_table &table : tables)
    lasting|= !table.temporary;
  if (!lasting)
    return;
  sql_print_warning("%s", TEXT);
  if (THD *thd= current_thd)
    push_warning(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, TEXT);
}

static void end_backup()
{
}

void set_backup_hooks(handlerton *hton)
{
  hton->prepare_for_backup= prepare_for_backup;
  hton->end_backup= end_backup;
}

} // namespace holdfast
