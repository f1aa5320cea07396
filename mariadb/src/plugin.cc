/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* The plugin: its declaration, opening and closing the database. */

#include "errors.h"
#include "ha_holdfast.h"
#include "status.h"
#include "transaction.h"
#include "variables.h"

namespace holdfast {

handlerton *hton;
hf_database *database;

static handler *create_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *mem_root)
{
  return new (mem_root) ha_holdfast(hton, share);
}

/* Plugins of another version load without a word and crash later. */
static bool is_right_server()
{
  if (!strncmp(server_version, MYSQL_SERVER_VERSION, strcspn(MYSQL_SERVER_VERSION, "-")))
    return true;
  sql_print_error("Holdfast: this engine was built for version %s of the server and this is %s; install the engine's "
                  "package for this version, or build it again", MYSQL_SERVER_VERSION, server_version);
  return false;
}

static int init(void *p)
{
  if (!is_right_server())
    return 1;
  hton= static_cast<handlerton *>(p);
  hton->create= create_handler;
  hton->drop_table= drop_table;
  hton->drop_database= drop_database;
  hton->show_status= show_status;
  hton->flags= HTON_REQUIRES_CLOSE_AFTER_TRUNCATE;
  set_transaction_hooks(hton);
  hf_settings settings= database_settings();
  if (logged_error(hf_open(slice(std::string(data_dir())), &settings, &database), "opening the database"))
    return 1;
  drop_leftovers();
  return 0;
}

static int deinit(void *)
{
  int error= logged_error(hf_close(database), "closing the database");
  database= nullptr;
  return error ? 1 : 0;
}

static struct st_mysql_storage_engine interface= {MYSQL_HANDLERTON_INTERFACE_VERSION};

} // namespace holdfast

maria_declare_plugin(holdfast)
{
  MYSQL_STORAGE_ENGINE_PLUGIN,
  &holdfast::interface,
  "HOLDFAST",
  "the Holdfast authors",
  "Transactional engine whose cache cannot be washed out",
  PLUGIN_LICENSE_GPL,
  holdfast::init,
  holdfast::deinit,
  0x0001,
  nullptr,
  holdfast::system_variables,
  "0.1",
  MariaDB_PLUGIN_MATURITY_EXPERIMENTAL
}
maria_declare_plugin_end;
