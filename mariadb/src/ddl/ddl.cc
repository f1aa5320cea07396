/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Creating, opening, renaming and dropping tables. */

#include "definition.h"
#include "plugin/errors.h"
#include "references/foreign_keys.h"
#include "handler/ha_holdfast.h"
#include "plugin/others.h"
#include "plugin/variables.h"
#include "sql_show.h"
#include "table_cache.h"

#include <algorithm>
#include <map>

using namespace holdfast;

/* What all handlers of the table share, made by the first. */
Share *ha_holdfast::get_share()
{
  lock_shared_ha_data();
  Share *shared= static_cast<Share *>(get_ha_share_ptr());
  if (!shared)
  {
    shared= new (std::nothrow) Share(table);
    if (shared)
      set_ha_share_ptr(shared);
  }
  unlock_shared_ha_data();
  return shared;
}

int ha_holdfast::open(const char *path, int, uint)
{
  name= table_name(path);
  is_sequence= table_share->table_type == TABLE_TYPE_SEQUENCE;
  share= get_share();
  if (!share)
    return HA_ERR_OUT_OF_MEM;
  lock_shared_ha_data();
  hf_code code= share->open(name);
  unlock_shared_ha_data();
  if (code != HF_OK)
    return fail(code);
  if (!Definition::is_readable(share->format()))
  {
    my_printf_error(ER_UNKNOWN_ERROR, "Holdfast: table %s is in format %u, and this version of the engine reads formats %u to %u: dump it with the "
                    "version that wrote it, drop it, and load the dump", MYF(ME_ERROR_LOG), name.c_str(), (uint) share->format(),
                    (uint) Definition::FORMAT, (uint) Definition::FORMAT_OF_COPY);
    return HA_ERR_INCOMPATIBLE_DEFINITION;
  }
  if (!share->is_of_version() && definitions_must_agree())
  {
    my_printf_error(ER_TABLE_DEF_CHANGED, "Holdfast: the .frm file of table %s is not that of the definition by which its rows are kept: put the one "
                    "that belongs to them back in its place", MYF(ME_ERROR_LOG), name.c_str());
    return HA_ERR_INCOMPATIBLE_DEFINITION;
  }
  if (!share->has_all_indexes())
  {
    my_printf_error(ER_TABLE_DEF_CHANGED, "Holdfast: table %s does not have the indexes of its definition: put the .frm file that belongs to "
                    "it back in its place", MYF(ME_ERROR_LOG), name.c_str());
    return HA_ERR_INCOMPATIBLE_DEFINITION;
  }
  if (!row && (code= hf_buffer_new(&row)) != HF_OK)
    return fail(code);
  // A scan must not meet again the rows that its statement moves by changing the primary key.
  key_used_on_scan= share->primary_key;
  if (!share->has_primary_key())
    ref_length= ROW_ID_LENGTH;
  else
    ref_length= (uint) primary_key().max_length() + (primary_key().is_fixed() ? 0 : 2);
  return info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
}

int ha_holdfast::close()
{
  hf_cursor_close(scan.cursor);
  scan.cursor= nullptr;
  hf_buffer_free(row);
  row= nullptr;
  return 0;
}

handler *ha_holdfast::clone(const char *path, MEM_ROOT *mem_root)
{
  handler *copy= handler::clone(path, mem_root);
  if (ha_holdfast *same= static_cast<ha_holdfast *>(copy))
  {
    same->connection= connection;
    same->reading.lock= reading.lock;
    same->reading.skip_locked= reading.skip_locked;
  }
  return copy;
}

/* A part of a definition that the engine does not have; null if there is none. */
static const char *unsupported_part(const HA_CREATE_INFO *info)
{
  if (info->data_file_name)
    return "DATA DIRECTORY";
  if (info->index_file_name)
    return "INDEX DIRECTORY";
  return nullptr;
}

/* The references of a table that is created, of which it is known which one it replaces. */
int ha_holdfast::take_references(const std::string &table, const TABLE *form, const HA_CREATE_INFO *info_arg, Definition *out,
                                 Reserved_names *names)
{
  THD *thd= ha_thd();
  References &all= out->references;
  // The target of a copy goes by the name that it is going to have.
  std::string child= name_in_engine(form->s->db, form->s->table_name);
  all= references_in(info_arg->alter_info, form, child, out->replaces);
  // Another table that is made like one does not refer to what that refers to.
  if (!is_in_passing(table) || info_arg->tmp_table())
    all.erase(std::remove_if(all.begin(), all.end(), [](const Reference &r) { return !r.is_new; }), all.end());
  if (!all.empty() && info_arg->tmp_table())
  {
    my_error(ER_ILLEGAL_HA_CREATE_OPTION, MYF(0), "HOLDFAST", "FOREIGN KEY of a temporary table");
    return HA_WRONG_CREATE_OPTION;
  }
  int error= check_references(thd, all, form, names);
  if (!error && table == child && !info_arg->tmp_table())
    error= check_referring(thd, table, form);
  return error;
}

/* The table that is altered, if `table` is a copy of it that gets another name; none of a
   partition, to which no table refers. */
static std::string replaced_by(THD *thd, const std::string &table, const TABLE_SHARE *definition)
{
  const TABLE_LIST *altered= thd->lex->first_select_lex()->table_list.first;
  if (!is_in_passing(table) || table.find("#P#") != std::string::npos || thd_sql_command(thd) != SQLCOM_ALTER_TABLE || !altered)
    return "";
  std::string before= name_in_engine(altered->db, altered->table_name);
  return before == name_in_engine(definition->db, definition->table_name) ? "" : before;
}

/* Says that the engine has a table, of which the server has no file: for itself it would say
   that a table cannot be made. */
static void say_exists(THD *thd, const std::string &table)
{
  String text;
  append_identifier(thd, &text, schema_of(table).c_str(), schema_of(table).size());
  text.append('.');
  append_identifier(thd, &text, table_of(table).c_str(), table_of(table).size());
  my_error(ER_TABLE_EXISTS_ERROR, MYF(0), text.c_ptr_safe());
}

static hf_code drop(const std::string &table)
{
  hf_code code= hf_table_drop(database, slice(table), definition_wait_limit_ms(current_thd));
  if (code == HF_OK)
    know_references(table, References());
  return code;
}

int ha_holdfast::create(const char *path, TABLE *form, HA_CREATE_INFO *info_arg)
{
  if (const char *part= unsupported_part(info_arg))
  {
    my_error(ER_ILLEGAL_HA_CREATE_OPTION, MYF(0), "HOLDFAST", part);
    return HA_WRONG_CREATE_OPTION;
  }
  const TABLE_SHARE *definition= form->s;
  bool temporary= info_arg->tmp_table();
  if (int error= refuse_in_cluster(ha_thd(), definition, temporary))
    return error;
  std::vector<hf_index_spec> indexes(definition->keys + (definition->primary_key == MAX_KEY ? 1 : 0));
  std::vector<std::string> names(definition->keys);
  indexes[0]= {slice("ROW_ID", 6), true};
  for (uint i= 0; i < definition->keys; i++)
  {
    const KEY &key= form->key_info[i];
    names[i]= index_name(key.name);
    indexes[first_index_no(definition, i)]= {slice(names[i]), (key.flags & HA_NOSAME) != 0};
  }
  std::string table= table_name(path);
  Definition kept(definition, temporary);
  if (!temporary)
    kept.replaces= replaced_by(ha_thd(), table, definition);
  Reserved_names reserved;
  if (int error= take_references(table, form, info_arg, &kept, &reserved))
    return error;
  hf_code code= hf_table_create(database, slice(table), indexes.data(), indexes.size(), slice(kept.bytes()), temporary);
  if (code == HF_TABLE_EXISTS)
    say_exists(ha_thd(), table);
  if (code != HF_OK)
    return fail(code);
  know_references(table, kept.references);
  if (Connection *creator= Connection::of(ha_thd()))
  {
    creator->created= table;
    creator->created_by= ha_thd()->query_id;
  }
  if (info_arg->auto_increment_value > 1)
  {
    hf_table *opened= nullptr;
    code= hf_table_open(database, slice(table), &opened);
    if (code == HF_OK)
      code= hf_mark_set(opened, HF_MARK_AUTO_INCREMENT, info_arg->auto_increment_value);
    hf_table_close(opened);
  }
  int error= fail(code);
  // It would be in the way of the next one of its name.
  if (error)
    drop(table);
  return error;
}

int ha_holdfast::delete_table(const char *path)
{
  return holdfast::drop_table(nullptr, path);
}

/* True if the server does what a crash has kept a statement from doing. References do not matter
   then: the copy of a table is about to take its name, or the statement had the checks off. A copy
   that did not get its name would be lost. */
static bool is_recovery(THD *thd)
{
  return !thd || thd_sql_command(thd) == SQLCOM_END;
}

/* The name by which others refer to a table that is renamed; none if they go on to
   refer to what has that name. */
static std::string name_for_others(const std::string &from, const std::string &to)
{
  if (is_in_passing(to))
    return "";
  if (!is_in_passing(from))
    return from;
  Definition copy;
  return read_definition(from, &copy) == HF_OK ? copy.replaces : "";
}

/* What a table refers to when another one, or itself, has got another name. */
static References with_new_name(References references, const std::string &from, const std::string &to)
{
  std::string made= made_name(table_of(from), "");
  for (Reference &reference : references)
  {
    if (reference.parent == from)
      reference.parent= to;
    if (reference.child == from && !reference.name.compare(0, made.size(), made))
      reference.name= made_name(table_of(to), reference.name.substr(made.size()));
  }
  std::sort(references.begin(), references.end(), [](const Reference &a, const Reference &b) { return a.name < b.name; });
  return references;
}

/* True if the server has a file with the definition of a table. */
static bool has_definition(const char *path)
{
  return !access((std::string(path) + reg_ext).c_str(), F_OK);
}

/* The version of the definition whose file is there already, under the new name of a
   table: the table takes the place of another one, or is a partition that becomes a
   table. Empty if there is none. */
static std::string version_under(THD *thd, const std::string &to, const char *path)
{
  bool is_partition= to.find("#P#") != std::string::npos;
  if (is_partition || is_in_passing(to) || !has_definition(path))
    return "";
  Read_definition there(thd, to);
  return there.table() ? Definition(there.table()->s, false).version : "";
}

/* Reserves the names that the references of a table get with its new name, or that it brings to
   another schema. False if another reference there has one of them. */
static bool reserve_names(const References &now, const std::string &from, const std::string &to, Reserved_names *names)
{
  const References before= references_of(from);
  const bool stays= schema_of(from) == schema_of(to);
  for (Reference reference : now)
  {
    auto is_same= [&](const Reference &other) { return other.name == reference.name; };
    if (stays && std::any_of(before.begin(), before.end(), is_same))
      continue;
    reference.child= to;
    if (!names->add(reference))
      return false;
  }
  return true;
}

/* A table that refers to one called `before` refers to it under its new name, from the same moment
   on. If `version` is not empty, it becomes the version of the renamed table's definition.
   `takes_names`: other tables of the schema may have the names that its references get. */
static hf_code rename_with_references(const std::string &before, const std::string &from, const std::string &to, const std::string &version,
                                      bool takes_names)
{
  Definitions definitions;
  Reserved_names reserved;
  std::map<std::string, References> changed;
  References own= with_new_name(references_of(from), before, to);
  if (takes_names && !reserve_names(own, from, to, &reserved))
    return HF_TABLE_EXISTS;
  const bool has_replaced= is_in_passing(from) && !before.empty();
  if (!own.empty() || !version.empty() || has_replaced)
    changed[to]= own;
  if (!before.empty())
  {
    for (const Reference &reference : references_to(before))
    {
      // Of a table that refers to itself, the copy does.
      if (reference.child != from && !(is_in_passing(from) && reference.child == before))
        changed[reference.child]= with_new_name(references_of(reference.child), before, to);
    }
  }
  for (const auto &one : changed)
  {
    const std::string &now= one.first == to ? from : one.first;
    const std::string &of_version= one.first == to ? version : std::string();
    if (hf_code code= definitions.add(now, one.second, one.first, of_version); code != HF_OK)
      return code;
  }
  hf_code code= hf_table_rename(database, slice(from), slice(to), definitions.all(), definitions.count());
  if (code != HF_OK)
    return code;
  if (!is_in_passing(to))
    changed.emplace(to, References());
  for (auto &one : changed)
    know_references(one.first, std::move(one.second));
  // Sessions may delete what the table refers to, but for its references. A table that an ALTER
  // puts aside keeps them until the copy has a name.
  if (is_in_passing(from) || !is_in_passing(to))
    know_references(from, References());
  if (has_replaced)
    know_references(before, References());
  return HF_OK;
}

/* An error if those that refer to `referred` cannot refer to the table that gets the name `to`,
   whose file is under `path`. */
static int check_renamed(THD *thd, const std::string &referred, const std::string &to, const char *path)
{
  if (references_to(referred).empty())
    return 0;
  Read_definition definition(thd, to, path);
  return definition.table() ? check_referring(thd, referred, definition.table()) : HA_ERR_CANNOT_ADD_FOREIGN;
}

int ha_holdfast::rename_table(const char *from, const char *to)
{
  THD *thd= ha_thd();
  std::string name_from= table_name(from), name_to= table_name(to);
  std::string before= name_for_others(name_from, name_to);
  if (!before.empty() && !keep_children(thd, before, MDL_SHARED_UPGRADABLE))
    return HA_ERR_LOCK_WAIT_TIMEOUT;
  const bool is_asked_for= !is_in_passing(name_to) && !is_recovery(thd);
  if (is_asked_for)
  {
    // A partition that becomes a table has no file of its own, but the table has one already.
    const char *path= has_definition(from) ? from : to;
    int error= check_renamed(thd, name_to, name_to, path);
    // Of a table that is renamed itself the indexes are what they were.
    if (!error && is_in_passing(name_from))
      error= check_renamed(thd, before, name_to, path);
    if (error)
      return error;
  }
  // What a prepared transaction without a session has changed stays under the name. This waits for
  // others that read that, before anything is locked for which others wait.
  hf_code code= check_unprepared(name_from);
  if (code == HF_OK)
    code= rename_with_references(before, name_from, name_to, version_under(thd, name_to, to), is_asked_for);
  say_wait_ended(code, thd);
  // The server does not expect this error here, either.
  if (code == HF_TABLE_EXISTS)
    my_error(ER_TABLE_EXISTS_ERROR, MYF(0), to);
  return fail(code, HA_ERR_NO_SUCH_TABLE);
}

/* Waits for transactions that have written to tables that refer to this one. With checks off its
   rows may go, but not before these transactions in the binary log. */
static bool wait_for_children(THD *thd, const std::string &name)
{
  return !thd || keep_children(thd, name, MDL_SHARED_NO_WRITE);
}

/* Where there are no rows, there are none of older layouts. */
static hf_code forget_layouts(const std::string &name)
{
  Definitions changed;
  Definition definition;
  hf_code code= read_definition(name, &definition);
  if (code != HF_OK || definition.history.layouts.empty())
    return code;
  definition.history= Row_history();
  changed.add(name, definition);
  return changed.write();
}

/* Once the rows are gone there is no error: with one, the binary log would not have the statement.
   Layouts that are not forgotten are those of no row. A table that cannot be opened is closed with
   the statement, and the next one opens it. */
int ha_holdfast::truncate()
{
  if (!wait_for_children(ha_thd(), name))
    return HA_ERR_LOCK_WAIT_TIMEOUT;
  hf_code code= hf_table_truncate(database, slice(name), definition_wait_limit_ms(ha_thd()));
  if (code != HF_OK)
    return fail(code);
  logged_error(forget_layouts(name), "forgetting the layouts of a truncated table's rows");
  if (logged_error(share->reopen(name), "opening a truncated table") && table->s->tdc)
    table->s->tdc->flush_unused(true);
  table_has_changed(name);
  return 0;
}

namespace holdfast {

/* True if the statement has created the table that it drops. */
static bool has_created(THD *thd, const std::string &table)
{
  const Connection *connection= Connection::existing(thd);
  return connection && connection->created_by == thd->query_id && connection->created == table;
}

/* True if a table that goes would leave others without what they refer to. */
static bool is_needed(THD *thd, const std::string &table)
{
  if (is_recovery(thd) || thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS) || has_created(thd, table))
    return false;
  bool with_schema= thd_sql_command(thd) == SQLCOM_DROP_DB;
  for (const Reference &reference : references_to(table))
  {
    if (reference.child != table && !(with_schema && schema_of(reference.child) == schema_of(table)))
      return true;
  }
  return false;
}

/* A CREATE ... SELECT that fails drops its table before the statement is rolled back, and would
   wait for itself. What it has written goes with the table. */
static void leave_new_table(THD *thd)
{
  Connection *connection= thd && thd_sql_command(thd) == SQLCOM_CREATE_TABLE ? Connection::existing(thd) : nullptr;
  if (connection)
    connection->leave_taken(thd);
  uint64_t changes= 0;
  if (connection && connection->transaction &&
      hf_transaction_info(connection->transaction, nullptr, &changes) == HF_OK && changes)
    connection->rollback(thd, true);
}

int drop_table(handlerton *, const char *path)
{
  THD *thd= current_thd;
  std::string table= table_name(path);
  // One that is not there is none that others refer to.
  if (is_needed(thd, table))
    return look_for(table) == HF_TABLE_NOT_FOUND ? HA_ERR_NO_SUCH_TABLE : HA_ERR_ROW_IS_REFERENCED;
  if (!wait_for_children(thd, table))
    return HA_ERR_LOCK_WAIT_TIMEOUT;
  if (!is_in_passing(table))
    leave_new_table(thd);
  hf_code code= drop(table);
  switch (code) {
  case HF_TABLE_NOT_FOUND:
    return HA_ERR_NO_SUCH_TABLE;
  case HF_LOCK_TIMEOUT:
    return HA_ERR_LOCK_WAIT_TIMEOUT;
  case HF_INTERRUPTED:
    return HA_ERR_ABORTED_BY_USER;
  default:
    return logged_error(code, "dropping a table");
  }
}

typedef std::vector<Listed_table> Table_list;

extern "C" void collect_table(void *context, hf_slice name, hf_slice definition)
{
  std::string text((const char *) name.data, name.len);
  static_cast<Table_list *>(context)->push_back({text, Definition(definition).temporary});
}

static void drop_listed(const Listed_table &table)
{
  logged_error(drop(table.name), "dropping a table");
}

Table_list all_tables()
{
  Table_list tables;
  logged_error(hf_table_list(database, collect_table, &tables), "listing tables");
  return tables;
}

/* The server has dropped the tables that it knows; what is left has lost its definition. */
void drop_database(handlerton *, char *path)
{
  std::string prefix= table_name(path);
  for (const Listed_table &table : all_tables())
  {
    if (!table.name.compare(0, prefix.size(), prefix))
      drop_listed(table);
  }
}

void drop_leftovers()
{
  for (const Listed_table &table : all_tables())
  {
    if (table.temporary)
      drop_listed(table);
  }
}

/* The name of one of the tables that a partitioned one is made of: they are altered together. */
static std::string any_partition(const std::string &table)
{
  std::string prefix= table + "#P#";
  for (const Listed_table &listed : all_tables())
  {
    if (!listed.name.compare(0, prefix.size(), prefix))
      return listed.name;
  }
  return table;
}

int check_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong)
{
  Definition definition;
  std::string name= table_name(path);
  hf_code code= read_definition(name, &definition);
  if (code == HF_TABLE_NOT_FOUND)
    code= read_definition(any_partition(name), &definition);
  if (code != HF_OK)
    return 1;
  return definition.version.compare(0, std::string::npos, (const char *) version->str, version->length) != 0;
}

} // namespace holdfast

/* True if the statement moves rows between the table and a partition of another one whose rows have
   another key: without a primary key that is the first unique one, which need not be the first of
   both. */
static bool moves_rows_to_other_key(THD *thd, const TABLE *table)
{
  static const ulong MOVES= ALTER_PARTITION_EXCHANGE | ALTER_PARTITION_CONVERT_IN;
  const TABLE_LIST *first= thd->lex->query_tables;
  if (!(thd->lex->alter_info.partition_flags & MOVES) || !first || !first->table)
    return false;
  const uint key= table->s->primary_key, other= first->table->s->primary_key;
  if (key == MAX_KEY || other == MAX_KEY)
    return key != other;
  return my_strcasecmp(system_charset_info, table->key_info[key].name.str, first->table->key_info[other].name.str) != 0;
}

bool ha_holdfast::check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes)
{
  // AUTO_INCREMENT has to be compared with the values that there are.
  bool is_same= table_changes == IS_EQUAL_YES && !(info->used_fields & HA_CREATE_USED_AUTO) &&
    !info->data_file_name && !info->index_file_name && !moves_rows_to_other_key(ha_thd(), table);
  return is_same ? COMPATIBLE_DATA_YES : COMPATIBLE_DATA_NO;
}
