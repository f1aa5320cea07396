/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* The plugin: its declaration, opening and closing the database. */

#include "backup.h"
#include "binary_log.h"
#include "errors.h"
#include "handler/ha_holdfast.h"
#include "information_schema.h"
#include "others.h"
#include "prepared.h"
#include "sessions.h"
#include "status.h"
#include "transaction.h"
#include "variables.h"

/* Of the server; no header declares it. */
void ignore_db_dirs_append(const char *name);

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

/* What the database has to do before the server uses it. True if it fails. */
static bool make_ready()
{
  if (settle_copy())
    return true;
  drop_leftovers();
  collect_references();
  show_settings_found();
  return logged_error(collect_status_variables(), "listing what is counted") ||
    logged_error(answer_about_sessions(), "naming sessions");
}

static bool close_database()
{
  std::lock_guard<std::shared_mutex> no_listing(listings_under_way);
  bool failed= logged_error(hf_close(database), "closing the database") != 0;
  database= nullptr;
  return failed;
}

static int init(void *p)
{
  if (!is_right_server())
    return 1;
  hton= static_cast<handlerton *>(p);
  hton->create= create_handler;
  hton->drop_table= drop_table;
  hton->drop_database= drop_database;
  hton->check_version= check_version;
  hton->show_status= show_status;
  hton->flags= HTON_REQUIRES_CLOSE_AFTER_TRUNCATE | HTON_SUPPORTS_EXTENDED_KEYS | HTON_SUPPORTS_FOREIGN_KEYS;
  set_transaction_hooks(hton);
  set_backup_hooks(hton);
  if (hf_api_version() != HF_API_VERSION)
  {
    sql_print_error("Holdfast: the library has version %u of its interface, the plugin was made for %u", hf_api_version(),
                    HF_API_VERSION);
    return 1;
  }
  if (check_settings())
    return 1;
  // A folder beside those of the schemas: SHOW DATABASES would list it, and DROP DATABASE remove
  // it.
  if (data_dir()[0] != '/')
    ignore_db_dirs_append(data_dir());
  hf_settings settings= database_settings();
  if (logged_error(hf_open(slice(std::string(data_dir())), &settings, &database), "opening the database"))
    return 1;
  // The server does not end what has failed to begin.
  if (make_ready())
  {
    close_database();
    return 1;
  }
  tell_server_of_prepared();
  return 0;
}

static int deinit(void *)
{
  // The server asks an engine that is gone for nothing: no later FLUSH ENGINE LOGS comes here.
  catch_up_with_binary_log();
  say_what_stays_prepared();
  return close_database() ? 1 : 0;
}

static struct st_mysql_storage_engine interface= {MYSQL_HANDLERTON_INTERFACE_VERSION};

} // namespace holdfast

#define AUTHOR "the Holdfast authors"
#define VERSION_AND_MATURITY "0.2", MariaDB_PLUGIN_MATURITY_EXPERIMENTAL

/* A table of INFORMATION_SCHEMA, by its name and the number of the engine's listing. */
#define LISTING(NAME, NUMBER, ABOUT) \
{ \
  MYSQL_INFORMATION_SCHEMA_PLUGIN, &holdfast::information_schema, NAME, AUTHOR, ABOUT, PLUGIN_LICENSE_GPL, \
  holdfast::begin_as<NUMBER>, nullptr, 0x0002, nullptr, nullptr, VERSION_AND_MATURITY \
}

maria_declare_plugin(holdfast)
{
  MYSQL_STORAGE_ENGINE_PLUGIN,
  &holdfast::interface,
  "HOLDFAST",
  AUTHOR,
  "Transactional engine whose cache cannot be washed out",
  PLUGIN_LICENSE_GPL,
  holdfast::init,
  holdfast::deinit,
  0x0002,
  holdfast::status_variables,
  holdfast::system_variables,
  VERSION_AND_MATURITY
},
LISTING("HOLDFAST_BUFFER_PAGE", 0, "Pages in Holdfast's cache"),
LISTING("HOLDFAST_BUFFER_POOL_STATS", 1, "Holdfast's cache in numbers"),
LISTING("HOLDFAST_BUFFER_POOL_PAGES_INDEX", 2, "Pages of indexes in Holdfast's cache"),
LISTING("HOLDFAST_SYS_TABLES", 3, "Holdfast's tables"),
LISTING("HOLDFAST_SYS_INDEXES", 4, "Indexes of Holdfast's tables"),
LISTING("HOLDFAST_TRX", 5, "Holdfast's open transactions"),
LISTING("HOLDFAST_LOCKS", 6, "Holdfast's locks"),
LISTING("HOLDFAST_LOCK_WAITS", 7, "Waits for locks in Holdfast: the waiter and the holder"),
LISTING("HOLDFAST_METRICS", 8, "Everything that Holdfast counts")
maria_declare_plugin_end;
