/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

#include "variables.h"
#include "errors.h"

namespace holdfast {

static ulonglong buffer_pool_size, log_file_size, log_buffer_size, buffer_pool_size_max;
static ulong page_size, flush_log_at_trx_commit, replacement_policy, flush_method;
static uint old_blocks_pct, old_blocks_time;
static char *data_home_dir;

static const char *policy_names[]= {"holdfast", "midpoint_lru", "lru", NullS};
static TYPELIB policy_typelib= {array_elements(policy_names) - 1, "", policy_names, nullptr};
static const char *flush_method_names[]= {"O_DIRECT", "fsync", NullS};
static TYPELIB flush_method_typelib= {array_elements(flush_method_names) - 1, "", flush_method_names, nullptr};

static void apply_policy()
{
  hf_code code= hf_set_policy(database, (uint32_t) replacement_policy, old_blocks_pct, old_blocks_time);
  if (code != HF_OK)
    my_printf_error(ER_WRONG_VALUE_FOR_VAR, "Holdfast: %s", MYF(0), hf_error_message());
}

static void update_pool_size(THD *, struct st_mysql_sys_var *, void *, const void *save)
{
  ulonglong bytes= *static_cast<const ulonglong *>(save);
  if (hf_set_cache_size(database, bytes) == HF_OK)
    buffer_pool_size= bytes;
  else
    my_printf_error(ER_WRONG_VALUE_FOR_VAR, "Holdfast: %s", MYF(0), hf_error_message());
}

static void update_policy(THD *, struct st_mysql_sys_var *, void *, const void *save)
{
  replacement_policy= *static_cast<const ulong *>(save);
  apply_policy();
}

static void update_old_blocks(THD *, struct st_mysql_sys_var *, void *variable, const void *save)
{
  *static_cast<uint *>(variable)= *static_cast<const uint *>(save);
  apply_policy();
}

static MYSQL_SYSVAR_STR(data_home_dir, data_home_dir, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "Folder of the database, below the server's data folder unless it begins with a slash",
  nullptr, nullptr, "holdfast");
static MYSQL_SYSVAR_ULONGLONG(buffer_pool_size, buffer_pool_size, PLUGIN_VAR_RQCMDARG,
  "Bytes of the page cache", nullptr, update_pool_size, 128ULL << 20, 5ULL << 20, ULLONG_MAX >> 1, 0);
static MYSQL_SYSVAR_ULONGLONG(buffer_pool_size_max, buffer_pool_size_max, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "The largest value that buffer_pool_size may be set to while the server runs; address space for it is reserved. "
  "0: four times buffer_pool_size", nullptr, nullptr, 0, 0, ULLONG_MAX >> 1, 0);
static MYSQL_SYSVAR_ULONGLONG(log_file_size, log_file_size, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "Bytes of log kept between checkpoints", nullptr, nullptr, 96ULL << 20, 4ULL << 20, ULLONG_MAX >> 1, 0);
static MYSQL_SYSVAR_ULONGLONG(log_buffer_size, log_buffer_size, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "Bytes of the buffer in which the log is assembled", nullptr, nullptr, 16ULL << 20, 64ULL << 10, 4ULL << 30, 0);
static MYSQL_SYSVAR_ULONG(page_size, page_size, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "Page size of a database that is created: 16384, 32768 or 65536",
  nullptr, nullptr, 16384, 16384, 65536, 16384);
static MYSQL_SYSVAR_ULONG(flush_log_at_trx_commit, flush_log_at_trx_commit, PLUGIN_VAR_RQCMDARG,
  "What a commit waits for: 1 until the log is synced, 2 until it is written, 0 for nothing",
  nullptr, nullptr, 1, 0, 2, 0);
static MYSQL_SYSVAR_ENUM(flush_method, flush_method, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "How data files are read and written", nullptr, nullptr, 0, &flush_method_typelib);
static MYSQL_SYSVAR_ENUM(replacement_policy, replacement_policy, PLUGIN_VAR_RQCMDARG,
  "Which pages leave the cache: holdfast (scans cannot wash it out), midpoint_lru (InnoDB's), lru",
  nullptr, update_policy, 0, &policy_typelib);
static MYSQL_SYSVAR_UINT(old_blocks_pct, old_blocks_pct, PLUGIN_VAR_RQCMDARG,
  "Of midpoint_lru: percent of the list behind the midpoint", nullptr, update_old_blocks, 37, 5, 95, 0);
static MYSQL_SYSVAR_UINT(old_blocks_time, old_blocks_time, PLUGIN_VAR_RQCMDARG,
  "Of midpoint_lru: milliseconds for which further touches do not make a page young",
  nullptr, update_old_blocks, 1000, 0, UINT_MAX32, 0);
static MYSQL_THDVAR_ULONG(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
  "Seconds to wait for a row lock; 0: do not wait", nullptr, nullptr, 50, 0, 100000000, 0);
static MYSQL_THDVAR_BOOL(snapshot_isolation, PLUGIN_VAR_OPCMDARG,
  "At REPEATABLE READ: fail to change a row that another transaction changed after the snapshot, instead of changing "
  "its newest version", nullptr, nullptr, false);

struct st_mysql_sys_var *system_variables[]= {
  MYSQL_SYSVAR(data_home_dir),
  MYSQL_SYSVAR(buffer_pool_size),
  MYSQL_SYSVAR(buffer_pool_size_max),
  MYSQL_SYSVAR(log_file_size),
  MYSQL_SYSVAR(log_buffer_size),
  MYSQL_SYSVAR(page_size),
  MYSQL_SYSVAR(flush_log_at_trx_commit),
  MYSQL_SYSVAR(flush_method),
  MYSQL_SYSVAR(replacement_policy),
  MYSQL_SYSVAR(old_blocks_pct),
  MYSQL_SYSVAR(old_blocks_time),
  MYSQL_SYSVAR(lock_wait_timeout),
  MYSQL_SYSVAR(snapshot_isolation),
  nullptr
};

const char *data_dir()
{
  return data_home_dir;
}

hf_settings database_settings()
{
  hf_settings settings;
  settings.cache_size= buffer_pool_size;
  settings.cache_size_max= buffer_pool_size_max;
  settings.log_capacity= log_file_size;
  settings.log_buffer= log_buffer_size;
  settings.page_size= page_size == 49152 ? 32768 : page_size;
  settings.flush_method= (uint32_t) flush_method;
  settings.policy= (uint32_t) replacement_policy;
  settings.old_blocks_pct= old_blocks_pct;
  settings.old_blocks_time= old_blocks_time;
  return settings;
}

hf_flush flush_at_commit()
{
  return static_cast<hf_flush>(flush_log_at_trx_commit);
}

uint64_t lock_wait_timeout_ms(THD *thd)
{
  return 1000ULL * THDVAR(thd, lock_wait_timeout);
}

bool snapshot_isolation(THD *thd)
{
  return THDVAR(thd, snapshot_isolation);
}

} // namespace holdfast
