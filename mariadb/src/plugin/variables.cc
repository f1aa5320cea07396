/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "variables.h"
#include "backup.h"
#include "errors.h"
#include "sql_error.h"

#include <mutex>

namespace holdfast {

static const ulonglong SMALLEST_POOL= 5ULL << 20;
/* The engine has no larger one. */
static const ulonglong LARGEST_POOL= 16ULL << 40;

static ulonglong buffer_pool_size, log_file_size, log_buffer_size, buffer_pool_size_max, version_limit, undo_limit;
static ulonglong backup_rate_limit;
static ulong page_size, flush_log_at_trx_commit, replacement_policy, flush_method;
static uint old_blocks_pct, old_blocks_time;
static my_bool check_definitions, scan_hints, buffer_pool_load_at_startup, print_all_deadlocks_to_log;
static char *data_home_dir, *backup_dir;

enum Policy { POLICY_HOLDFAST, POLICY_MIDPOINT_LRU, POLICY_LRU };
static const char *policy_names[]= {"holdfast", "midpoint_lru", "lru", NullS};
static TYPELIB policy_typelib= {array_elements(policy_names) - 1, "", policy_names, nullptr};
static const char *flush_method_names[]= {"O_DIRECT", "fsync", NullS};
static TYPELIB flush_method_typelib= {array_elements(flush_method_names) - 1, "", flush_method_names, nullptr};

/* The largest pool without a restart. */
static ulonglong largest_pool()
{
  if (buffer_pool_size_max)
    return buffer_pool_size_max;
  if (buffer_pool_size > LARGEST_POOL)
    return buffer_pool_size;
  return MY_MIN(buffer_pool_size, LARGEST_POOL / 4) * 4;
}

/* While it lives, other sessions can connect, and read and set variables: the server holds a mutex
   for all of that while a variable is set. A pool that shrinks writes pages, and a log that grows
   writes files. Changes take effect, and are shown, in one order.

   Lock order: this mutex, then the server's. */
class Unlocked_variables
{
public:
  Unlocked_variables()
  {
    mysql_mutex_unlock(&LOCK_global_system_variables);
    one_change.lock();
  }

  ~Unlocked_variables()
  {
    mysql_mutex_lock(&LOCK_global_system_variables);
    one_change.unlock();
  }

private:
  static inline std::mutex one_change;
};

static hf_code set_pool_size(ulonglong bytes)
{
  Unlocked_variables unlocked;
  return hf_set_cache_size(database, bytes);
}

static hf_code set_log_capacity(ulonglong bytes)
{
  Unlocked_variables unlocked;
  return hf_set_log_capacity(database, bytes);
}

static void refused(hf_code code)
{
  if (code != HF_OK)
    my_printf_error(ER_WRONG_VALUE_FOR_VAR, "Holdfast: %s", MYF(0), hf_error_message());
}

/* A pool of any other size is refused: silently rounded, it would mislead. */
static int check_pool_size(THD *, struct st_mysql_sys_var *, void *save, struct st_mysql_value *value)
{
  longlong wanted;
  if (value->val_int(value, &wanted))
    return 1;
  bool is_negative= wanted < 0 && !value->is_unsigned(value);
  ulonglong bytes= is_negative ? 0 : (ulonglong) wanted;
  if (bytes < SMALLEST_POOL || bytes > largest_pool())
  {
    my_printf_error(ER_WRONG_VALUE_FOR_VAR,
                    "Variable 'holdfast_buffer_pool_size' can be set to %llu up to %llu (holdfast_buffer_pool_size_max, "
                    "which is chosen at start)", MYF(0), SMALLEST_POOL, largest_pool());
    return 1;
  }
  *static_cast<ulonglong *>(save)= bytes;
  return 0;
}

static void update_pool_size(THD *, struct st_mysql_sys_var *, void *, const void *save)
{
  ulonglong bytes= *static_cast<const ulonglong *>(save);
  hf_code code= set_pool_size(bytes);
  if (code == HF_OK)
    buffer_pool_size= bytes;
  refused(code);
}

static void update_log_size(THD *, struct st_mysql_sys_var *, void *, const void *save)
{
  ulonglong bytes= *static_cast<const ulonglong *>(save);
  hf_code code= set_log_capacity(bytes);
  if (code == HF_OK)
    log_file_size= bytes;
  refused(code);
}

static void apply_policy()
{
  refused(hf_set_policy(database, static_cast<hf_policy>(replacement_policy), old_blocks_pct, old_blocks_time));
}

static void update_policy(THD *, struct st_mysql_sys_var *, void *, const void *save)
{
  replacement_policy= *static_cast<const ulong *>(save);
  apply_policy();
}

static void update_old_blocks(THD *thd, struct st_mysql_sys_var *var, void *variable, const void *save)
{
  *static_cast<uint *>(variable)= *static_cast<const uint *>(save);
  if (replacement_policy == POLICY_MIDPOINT_LRU)
    apply_policy();
  else
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                        "It takes effect when holdfast_replacement_policy is midpoint_lru; the policy %s needs no such "
                        "setting", policy_names[replacement_policy]);
}

static void update_scan_hints(THD *, struct st_mysql_sys_var *, void *, const void *save)
{
  scan_hints= *static_cast<const my_bool *>(save);
  refused(hf_set_scan_hints(database, scan_hints));
}

/* Makes the backup, because a check can fail and an update cannot. */
static int check_backup_dir(THD *thd, struct st_mysql_sys_var *, void *save, struct st_mysql_value *value)
{
  char buffer[FN_REFLEN];
  int length= sizeof(buffer);
  const char *dir= value->val_str(value, buffer, &length);
  if (!dir || !length)
  {
    my_printf_error(ER_WRONG_VALUE_FOR_VAR, "Variable 'holdfast_backup_dir' takes the name of a new directory", MYF(0));
    return 1;
  }
  if (back_up(thd, std::string(dir, length), backup_rate_limit))
    return 1;
  // What the value points to may live in the buffer here.
  *static_cast<const char **>(save)= thd_strmake(thd, dir, length);
  return 0;
}

static MYSQL_SYSVAR_STR(data_home_dir, data_home_dir, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "Folder of the database, below the server's data folder unless it begins with a slash",
  nullptr, nullptr, "#holdfast");
static MYSQL_SYSVAR_ULONGLONG(buffer_pool_size, buffer_pool_size, PLUGIN_VAR_RQCMDARG,
  "Bytes of the page cache", check_pool_size, update_pool_size, 128ULL << 20, SMALLEST_POOL, ULLONG_MAX >> 1, 0);
static MYSQL_SYSVAR_ULONGLONG(buffer_pool_size_max, buffer_pool_size_max, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "The largest value that buffer_pool_size may be set to while the server runs; address space for it is reserved. "
  "0: four times buffer_pool_size, at most 16T", nullptr, nullptr, 0, 0, ULLONG_MAX >> 1, 0);
static MYSQL_SYSVAR_ULONGLONG(log_file_size, log_file_size, PLUGIN_VAR_RQCMDARG,
  "Bytes of log kept between checkpoints", nullptr, update_log_size, 96ULL << 20, 4ULL << 20, ULLONG_MAX >> 1, 0);
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
static MYSQL_SYSVAR_BOOL(scan_hints, scan_hints, PLUGIN_VAR_OPCMDARG,
  "Whether the cache is told which reads are scans; off, the replacement policy finds out from the references alone",
  nullptr, update_scan_hints, true);
static MYSQL_SYSVAR_BOOL(buffer_pool_load_at_startup, buffer_pool_load_at_startup,
  PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Remember the hot pages at shutdown and load them in the background at startup", nullptr, nullptr, true);
static MYSQL_SYSVAR_BOOL(print_all_deadlocks, print_all_deadlocks_to_log, PLUGIN_VAR_OPCMDARG,
  "Write every deadlock to the error log", nullptr, nullptr, false);
static MYSQL_SYSVAR_BOOL(check_definitions, check_definitions, PLUGIN_VAR_OPCMDARG,
  "Whether a table is opened only with the .frm file of the definition by which its rows are kept; off, also with one that was made "
  "anew for a file that is lost", nullptr, nullptr, true);
static MYSQL_SYSVAR_ULONGLONG(version_limit, version_limit, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "Bytes of old row versions kept for long snapshots; beyond it the oldest snapshot is given up",
  nullptr, nullptr, 1ULL << 30, 1ULL << 20, ULLONG_MAX >> 1, 0);
static MYSQL_SYSVAR_ULONGLONG(undo_limit, undo_limit, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
  "Bytes of undo log that one transaction may write; a statement that needs more fails",
  nullptr, nullptr, 4ULL << 30, 1ULL << 20, ULLONG_MAX >> 1, 0);
static MYSQL_SYSVAR_STR(backup_dir, backup_dir, PLUGIN_VAR_NOCMDOPT | PLUGIN_VAR_MEMALLOC,
  "Setting it copies the database and the definitions of its tables, as of the end of the statement, into this new "
  "directory", check_backup_dir, nullptr, nullptr);
static MYSQL_SYSVAR_ULONGLONG(backup_rate_limit, backup_rate_limit, PLUGIN_VAR_RQCMDARG,
  "Bytes a second that a backup copies at most; 0: as fast as the disks go", nullptr, nullptr, 0, 0, ULLONG_MAX >> 1, 0);
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
  MYSQL_SYSVAR(scan_hints),
  MYSQL_SYSVAR(buffer_pool_load_at_startup),
  MYSQL_SYSVAR(print_all_deadlocks),
  MYSQL_SYSVAR(check_definitions),
  MYSQL_SYSVAR(version_limit),
  MYSQL_SYSVAR(undo_limit),
  MYSQL_SYSVAR(backup_dir),
  MYSQL_SYSVAR(backup_rate_limit),
  MYSQL_SYSVAR(lock_wait_timeout),
  MYSQL_SYSVAR(snapshot_isolation),
  nullptr
};

const char *data_dir()
{
  static const std::string dir= []
  {
    std::string given= data_home_dir;
    while (given.size() > 1 && given.back() == '/')
      given.pop_back();
    return given;
  }();
  return dir.c_str();
}

bool check_settings()
{
  if (page_size != 16384 && page_size != 32768 && page_size != 65536)
  {
    sql_print_error("Holdfast: holdfast_page_size=%lu is not possible; choose 16384, 32768 or 65536", page_size);
    return true;
  }
  if (!*data_dir())
  {
    sql_print_error("Holdfast: holdfast_data_home_dir is empty; give the name of the folder, or leave the option out");
    return true;
  }
  if (buffer_pool_size_max && buffer_pool_size_max < buffer_pool_size)
  {
    sql_print_warning("Holdfast: holdfast_buffer_pool_size_max=%llu is less than holdfast_buffer_pool_size=%llu, which is "
                      "taken for it", buffer_pool_size_max, buffer_pool_size);
    buffer_pool_size_max= buffer_pool_size;
  }
  buffer_pool_size_max= largest_pool();
  return false;
}

extern "C" void tell_recovery(uint64_t done, uint64_t total)
{
  if (total)
    sql_print_information("Holdfast: recovery: %llu of %llu bytes of log are applied", (ulonglong) done,
                          (ulonglong) total);
}

hf_settings database_settings()
{
  hf_settings settings;
  settings.struct_size= sizeof(settings);
  settings.cache_size= buffer_pool_size;
  settings.cache_size_max= buffer_pool_size_max;
  settings.log_capacity= log_file_size;
  settings.log_buffer= log_buffer_size;
  settings.page_size= page_size;
  settings.version_limit= version_limit;
  settings.undo_limit= undo_limit;
  settings.flush_method= static_cast<hf_flush_method>(flush_method);
  settings.policy= static_cast<hf_policy>(replacement_policy);
  settings.old_blocks_pct= old_blocks_pct;
  settings.old_blocks_time= old_blocks_time;
  settings.warm_up= buffer_pool_load_at_startup;
  settings.scan_hints= scan_hints;
  settings.recovery_progress= tell_recovery;
  return settings;
}

extern "C" void take_page_size(void *, hf_slice name, uint64_t value)
{
  if (std::string((const char *) name.data, name.len) != "page_size" || value == page_size)
    return;
  sql_print_information("Holdfast: the database has pages of %llu bytes; holdfast_page_size is for one that is created",
                        (ulonglong) value);
  page_size= (ulong) value;
}

void show_settings_found()
{
  hf_metrics(database, take_page_size, nullptr);
}

hf_flush flush_at_commit()
{
  return static_cast<hf_flush>(flush_log_at_trx_commit);
}

bool print_all_deadlocks()
{
  return print_all_deadlocks_to_log;
}

bool definitions_must_agree()
{
  return check_definitions;
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
