/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "backup.h"
#include "errors.h"
#include "variables.h"
#include "xid.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <unistd.h>
#include <vector>

namespace holdfast {

namespace fs= std::filesystem;

/* Files of definitions by their path below the data directory, with the
   time of their last change. */
typedef std::map<std::string, fs::file_time_type> Definitions;

/* The server's number for an error of the file system. */
static uint number_of(const std::error_code &error)
{
  return error == std::errc::no_space_on_device ? ER_DISK_FULL : ER_ERROR_ON_WRITE;
}

static bool failed(uint number, const std::string &doing, const std::error_code &error)
{
  my_printf_error(number, "Holdfast: backup: %s: %s", MYF(0), doing.c_str(), error.message().c_str());
  return true;
}

static bool copy_failed(hf_code code)
{
  if (code == HF_INTERRUPTED)
    current_thd->send_kill_message();
  else if (code != HF_OK)
    my_printf_error(code == HF_DISK_FULL ? ER_DISK_FULL : ER_UNKNOWN_ERROR, "Holdfast: backup: %s", MYF(0), hf_error_message());
  return code != HF_OK;
}

extern "C" void collect_name(void *context, hf_slice name, hf_slice)
{
  static_cast<std::set<std::string> *>(context)->emplace((const char *) name.data, name.len);
}

/* The definitions of the engine's tables: of a partitioned one, those of the whole. */
static bool find_definitions(Definitions *found)
{
  std::set<std::string> tables;
  if (copy_failed(hf_table_list(database, collect_name, &tables)))
    return true;
  std::set<std::string> stems;
  for (const std::string &table : tables)
    stems.insert(table.substr(0, table.find("#P#")));
  for (const std::string &stem : stems)
  {
    for (const std::string &name : {stem + ".frm", stem + ".par", stem.substr(0, stem.find('/')) + "/db.opt"})
    {
      std::error_code error;
      fs::file_time_type changed= fs::last_write_time(name, error);
      if (!error)
        (*found)[name]= changed;
    }
  }
  return false;
}

/* Makes the content of a file durable, or the names in a directory. */
static bool make_durable(const fs::path &path)
{
  int fd= ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  bool done= fd >= 0 && !fsync(fd);
  std::error_code error(done ? 0 : errno, std::generic_category());
  if (fd >= 0)
    ::close(fd);
  return error && failed(number_of(error), "making durable " + path.string(), error);
}

/* The directory that has the name of `dir`. */
static fs::path above(const fs::path &dir)
{
  fs::path parent= (dir.has_filename() ? dir : dir.parent_path()).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

/* They are as durable as the database beside them when this returns,
   and so is the name of `dir`. */
static bool copy_definitions(const Definitions &definitions, const fs::path &dir)
{
  std::set<fs::path> changed{dir, above(dir)};
  for (const auto &definition : definitions)
  {
    std::error_code error;
    fs::path to= dir / definition.first;
    fs::create_directories(to.parent_path(), error);
    if (error)
      return failed(number_of(error), "making " + to.parent_path().string(), error);
    fs::copy_file(definition.first, to, error);
    if (error)
      return failed(number_of(error), "copying " + definition.first, error);
    if (make_durable(to))
      return true;
    changed.insert(to.parent_path());
  }
  return std::any_of(changed.begin(), changed.end(), make_durable);
}

extern "C" bool is_killed(void *thd)
{
  // max_statement_time and KILL SOFT kill softly.
  return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED;
}

/* Under which name the database lies in the data directory when the backup is put there. */
static fs::path database_name()
{
  fs::path name= fs::path(data_dir()).filename();
  return name.empty() ? fs::path("#holdfast") : name;
}

/* In the folder of a database that was copied while its server ran, until a
   server has started on it. */
static const char MARK[]= "copied-while-in-use";

/* Says of the database in `dir` that the binary log of its server is not with it. */
static bool mark_copy(const fs::path &dir)
{
  static const char TEXT[]= "A copy of a running server's database. The first server that starts on it rolls back what was being "
    "committed, and removes this file.\n";
  const fs::path mark= dir / MARK;
  std::ofstream file(mark);
  file << TEXT;
  file.close();
  if (!file)
  {
    std::error_code error(errno, std::generic_category());
    return failed(number_of(error), "writing " + mark.string(), error);
  }
  return make_durable(mark) || make_durable(dir);
}

extern "C" void collect_of_binary_log(void *context, hf_slice bytes)
{
  XID xid;
  if (xid_from_bytes(bytes, &xid) && xid.get_my_xid())
    static_cast<std::vector<std::string> *>(context)->emplace_back((const char *) bytes.data, bytes.len);
}

/* Undoes a transaction that stood between its prepare and its commit. True if
   that failed, and was logged. */
static bool roll_back_prepared(const std::string &xid)
{
  hf_transaction *transaction= nullptr;
  if (logged_error(hf_adopt(database, slice(xid), &transaction), "taking over a prepared transaction"))
    return true;
  bool failed= logged_error(hf_rollback(transaction), "rolling back a prepared transaction") != 0;
  hf_transaction_free(transaction);
  return failed;
}

bool settle_copy()
{
  const fs::path mark= fs::path(data_dir()) / MARK;
  std::error_code error;
  if (!fs::exists(mark, error) && !error)
    return false;
  std::vector<std::string> prepared;
  if (!error && logged_error(hf_prepared(database, collect_of_binary_log, &prepared), "listing prepared transactions"))
    return true;
  // A copy of which some are left is a copy still.
  if (std::count_if(prepared.begin(), prepared.end(), roll_back_prepared))
    return true;
  if (!prepared.empty())
    sql_print_information("Holdfast: the database is a copy of a server that ran: %zu transactions that were being committed "
                          "at its end are rolled back", prepared.size());
  if (!error && fs::remove(mark, error) && !error)
    return make_durable(mark.parent_path());
  sql_print_error("Holdfast: %s cannot be removed: %s; it would roll back at a later start what was committed", mark.c_str(),
                  error.message().c_str());
  return true;
}

bool back_up(THD *thd, const std::string &name, uint64_t rate_limit)
{
  fs::path dir(name);
  std::error_code error;
  if (!fs::create_directory(dir, error))
  {
    if (!error)
      error= std::make_error_code(std::errc::file_exists);
    uint number= error == std::errc::no_space_on_device ? ER_DISK_FULL : ER_WRONG_VALUE_FOR_VAR;
    return failed(number, "making the new directory " + name, error);
  }
  Definitions before, after;
  if (find_definitions(&before) || copy_definitions(before, dir))
    return true;
  hf_backup_report report;
  std::string to= (dir / database_name()).string();
  if (copy_failed(hf_backup(database, slice(to), rate_limit, is_killed, thd, &report)) || mark_copy(to) || find_definitions(&after))
    return true;
  if (before != after)
  {
    my_printf_error(ER_TABLE_DEF_CHANGED, "Holdfast: backup: tables were created, changed or dropped meanwhile; try again, or "
                    "keep others from it by BACKUP STAGE BLOCK_DDL", MYF(0));
    return true;
  }
  sql_print_information("Holdfast: backup into %s: %llu files, %llu bytes, %llu bytes of log, up to log sequence number "
                        "%llu", name.c_str(), (ulonglong) report.files, (ulonglong) report.bytes,
                        (ulonglong) report.log_bytes, (ulonglong) report.lsn);
  return false;
}

} // namespace holdfast
