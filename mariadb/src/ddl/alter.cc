/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* ALTER TABLE without copying: changes of the definition that mean nothing to what is stored,
   columns that come, go and move, indexes that come and go, and tables that are made anew as they
   are. The new version of the definition is kept in the engine's catalog, so that after a crash the
   server knows which of two it has. */

#include "alter.h"
#include "defaults.h"
#include "definition.h"
#include "plugin/errors.h"
#include "references/foreign_keys.h"
#include "handler/ha_holdfast.h"

#include <algorithm>

using namespace holdfast;

static const alter_table_operations CHANGED_INDEXES= ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX |
  ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX;

/* Rows stay as they are, and the table's history says what they are like. */
static const alter_table_operations CHANGED_COLUMNS= ALTER_ADD_STORED_BASE_COLUMN | ALTER_ADD_VIRTUAL_COLUMN | ALTER_DROP_STORED_COLUMN |
  ALTER_DROP_VIRTUAL_COLUMN | ALTER_STORED_COLUMN_ORDER | ALTER_VIRTUAL_COLUMN_ORDER | ALTER_COLUMN_NULLABLE;

/* The engine's catalog has the names and the order of indexes, and their pages. */
static const alter_table_operations CHANGED_CATALOG= CHANGED_INDEXES | CHANGED_COLUMNS | ALTER_RENAME_INDEX | ALTER_INDEX_ORDER;

/* What means nothing to what is stored, beside what the server itself knows of. Whether rows refer
   to others is not looked at in place. */
static const alter_table_operations NOTHING_STORED= ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_INDEX_IGNORABILITY |
  ALTER_CHANGE_INDEX_COMMENT | ALTER_CONVERT_TO | ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY;

namespace {

bool is_dropped(const Alter_inplace_info *info, const KEY *key)
{
  for (uint i= 0; i < info->index_drop_count; i++)
  {
    if (info->index_drop_buffer[i] == key)
      return true;
  }
  return false;
}

bool is_renamed(const Alter_inplace_info *info, const KEY *key)
{
  return std::any_of(info->rename_keys.begin(), info->rename_keys.end(),
                     [&](const Alter_inplace_info::Rename_key_pair &pair) { return pair.old_key == key; });
}

/* The number of the key that stays, under its name or another; MAX_KEY if there is none. */
uint kept_key(const TABLE *table, const Alter_inplace_info *info, const KEY &altered)
{
  for (const Alter_inplace_info::Rename_key_pair &pair : info->rename_keys)
  {
    if (!my_strcasecmp(system_charset_info, pair.new_key->name.str, altered.name.str))
      return (uint) (pair.old_key - table->key_info);
  }
  for (uint i= 0; i < table->s->keys; i++)
  {
    const KEY *key= &table->key_info[i];
    // Its name may have gone to another one.
    if (!is_dropped(info, key) && !is_renamed(info, key) && !my_strcasecmp(system_charset_info, key->name.str, altered.name.str))
      return i;
  }
  return MAX_KEY;
}

/* True if the indexes stay in their order. The server speaks of another one whenever a statement
   names a key to add. */
bool keeps_indexes(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
  if (table->s->keys != altered->s->keys)
    return false;
  for (uint i= 0; i < altered->s->keys; i++)
  {
    if (kept_key(table, info, altered->key_info[i]) != i)
      return false;
  }
  return true;
}

/* True if an index of this key can come or go by itself. Whether a virtual column is stored in the
   rows depends on the indexes that it is in. */
bool stands_alone(const KEY &key)
{
  if (key.flags & (HA_FULLTEXT | HA_SPATIAL) || key.algorithm == HA_KEY_ALG_LONG_HASH)
    return false;
  for (uint i= 0; i < key.user_defined_key_parts; i++)
  {
    if (!key.key_part[i].field->stored_in_db())
      return false;
  }
  return true;
}

/* True if rows are under the same keys with both definitions. */
bool has_same_row_keys(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
  uint from= table->s->primary_key, to= altered->s->primary_key;
  if (from == MAX_KEY || to == MAX_KEY)
    return from == to;
  return kept_key(table, info, altered->key_info[to]) == from;
}

/* True if records are laid out alike with both definitions. */
bool has_same_records(const TABLE *table, const TABLE *altered)
{
  const TABLE_SHARE *from= table->s, *to= altered->s;
  return from->fields == to->fields && from->reclength == to->reclength && from->null_bytes == to->null_bytes;
}

/* True if the statement gives all rows the same value of this new column, or none is kept. */
bool has_one_default(const Field *field)
{
  static const uint DIFFERS= VCOL_FIELD_REF | VCOL_NON_DETERMINISTIC | VCOL_AUTO_INC | VCOL_IMPOSSIBLE | VCOL_NEXTVAL;
  if (!field->stored_in_db())
    return true;
  const Virtual_column_info *value= field->default_value;
  // RAND() has the flag of functions that a session gives one value.
  bool differs= value && ((value->flags & DIFFERS) || (value->expr->used_tables() & RAND_TABLE_BIT));
  return !field->vcol_info && !differs && field->unireg_check != Field::NEXT_NUMBER && !field->compression_method();
}

/* Where the altered table's columns come from. A column that has the name of
   one that goes is a new one. */
Sources sources_of(const Alter_inplace_info *info)
{
  Sources sources;
  List_iterator_fast<Create_field> columns(info->alter_info->create_list);
  while (const Create_field *column= columns++)
    sources.push_back(column->field ? column->field->field_index : NEW_COLUMN);
  return sources;
}

/* True if the altered table's rows can have column `i` without being written. */
bool can_have(const TABLE *table, const TABLE *altered, uint i, uint source)
{
  const Field *now= altered->field[i];
  if (source == NEW_COLUMN)
    return has_one_default(now);
  // Keys have a byte that says whether a part that can be NULL is.
  static const uint MATTERS= PART_KEY_FLAG | FIELD_IN_PART_FUNC_FLAG;
  const Field *was= table->field[source];
  return was->real_maybe_null() == now->real_maybe_null() || !(was->flags & MATTERS);
}

/* True if rows that stay as they are can be those of the altered table. */
bool can_change_columns(const TABLE *table, TABLE *altered, const Alter_inplace_info *info, const Sources &sources)
{
  const TABLE_SHARE *from= table->s, *to= altered->s;
  if (info->error_if_not_empty || from->long_unique_table || to->long_unique_table || from->versioned || to->versioned ||
      from->period.name || to->period.name || info->index_add_count || !has_same_row_keys(table, altered, info))
    return false;
  if (sources.size() != to->fields)
    return false;
  for (uint i= 0; i < to->fields; i++)
  {
    if (!can_have(table, altered, i, sources[i]))
      return false;
  }
  return try_defaults(altered, sources);
}

/* True if the indexes of the statement can come and go by themselves. */
bool can_change_indexes(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
  if (info->ignore || table->s->long_unique_table || altered->s->long_unique_table ||
      table->s->period.unique_keys || altered->s->period.unique_keys || !has_same_row_keys(table, altered, info))
    return false;
  for (uint i= 0; i < info->index_drop_count; i++)
  {
    if (!stands_alone(*info->index_drop_buffer[i]))
      return false;
  }
  for (uint i= 0; i < altered->s->keys; i++)
  {
    const KEY &key= altered->key_info[i];
    if (kept_key(table, info, key) == MAX_KEY && !stands_alone(key))
      return false;
  }
  return true;
}

/* True if the reference is there before and after a statement that leaves
   `all` to the table `name`. */
bool stays(const Reference &reference, const std::string &name, const References &all)
{
  return reference.child != name ||
    std::any_of(all.begin(), all.end(), [&](const Reference &other) { return other.name == reference.name; });
}

/* True if a column goes that refers to others, or is referred to. The server says what is wrong
   with that, if it is to copy the table. */
bool drops_reference(const std::string &name, const Alter_info *info, const References &all)
{
  auto drops= [&](const std::vector<std::string> &columns)
  {
    std::string kept;
    return std::any_of(columns.begin(), columns.end(),
                       [&](const std::string &column) { return !find_new_name(info, column, &kept); });
  };
  for (const Reference &reference : references_of(name))
  {
    if (stays(reference, name, all) && drops(reference.columns))
      return true;
  }
  for (const Reference &reference : references_to(name))
  {
    if (stays(reference, name, all) && drops(reference.parent_columns))
      return true;
  }
  return false;
}

/* What other tables refer to when columns have their new names. */
std::map<std::string, References> references_of_others(const std::string &name, const Alter_info *info)
{
  std::map<std::string, References> changed;
  for (const Reference &referring : references_to(name))
  {
    if (referring.child == name || changed.count(referring.child))
      continue;
    References all= references_of(referring.child);
    for (Reference &reference : all)
    {
      for (std::string &column : reference.parent_columns)
      {
        if (reference.parent == name)
          find_new_name(info, column, &column);
      }
    }
    changed[referring.child]= all;
  }
  return changed;
}

/* True if what is stored may follow from a virtual column: another one that an index has, a
   computed one that is stored, or what tells partitions apart. */
bool stores_computed(const TABLE *table, const Row_layout &layout)
{
  for (Field **field= table->vfield; field && *field; field++)
  {
    if ((*field)->stored_in_db() || (*field)->flags & FIELD_IN_PART_FUNC_FLAG)
      return true;
  }
  return layout.keeps_virtual();
}

/* Says which index would be missed, if one would. */
bool misses_index(const TABLE *table, const TABLE *altered, const std::vector<std::string> &before, const std::vector<std::string> &after)
{
  const KEY *key= key_with(table, before);
  if (!key || key_with(altered, after))
    return false;
  my_error(ER_DROP_INDEX_FK, MYF(0), key->name.str);
  return true;
}

} // namespace

/* A longer VARCHAR: a row has lengths of its own. Keys are made for a length, as may be
   what tells partitions apart. */
bool ha_holdfast::can_convert_nocopy(const Field &field, const Column_definition &altered) const
{
  static const uint MATTERS= PART_KEY_FLAG | FIELD_IN_PART_FUNC_FLAG;
  return field.real_type() == MYSQL_TYPE_VARCHAR && altered.type_handler() == field.type_handler() &&
    altered.charset == field.charset() && altered.length >= field.field_length && !(field.flags & MATTERS) &&
    !table->s->long_unique_table && !field.compression_method() && !altered.compression_method() &&
    !field.vcol_info && !altered.vcol_info;
}

/* The server itself knows which changes are of names, defaults and comments alone. Of
   those, two are something to the engine: indexed virtual columns are stored, and the
   catalog has the names of indexes. */
enum_alter_inplace_result ha_holdfast::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
  alter_table_operations all= info->handler_flags;
  // Of the answers of partitions the server takes the one that comes first in its list: not that of
  // one that refuses. So the first partition answers for all.
  if (parts() && *parts() != this)
    return HA_ALTER_INPLACE_NO_LOCK;
  if (makes_anew(info))
  {
    if (can_make_anew(info))
      return HA_ALTER_INPLACE_COPY_LOCK;
    // The server drops and adds the virtual column of a long unique key, too.
    if (all & (ALTER_ADD_VIRTUAL_COLUMN | ALTER_DROP_VIRTUAL_COLUMN))
      info->unsupported_reason= "INPLACE ADD or DROP of virtual columns cannot be combined with other ALTER TABLE actions";
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  if (all & ALTER_VIRTUAL_GCOL_EXPR && stores_computed(table, share->layout))
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  // The server writes the file of a sequence otherwise: it has no version that is known here.
  if (is_sequence || altered->s->table_type == TABLE_TYPE_SEQUENCE)
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  uint used= info->create_info->used_fields;
  info->create_info->used_fields&= ~OPTIONS_NOT_STORED;
  if (sets_auto_increment(info) && can_set_auto_increment(info->create_info->auto_increment_value))
    info->create_info->used_fields&= ~HA_CREATE_USED_AUTO;
  // The server knows no change in place of a table with system versioning, whose history is rows
  // like others to the engine.
  TABLE_SHARE *becomes= altered->s;
  const auto versioned= becomes->versioned;
  if (table->s->versioned == versioned)
    becomes->versioned= VERS_UNDEFINED;
  info->handler_flags= all & ~(CHANGED_CATALOG | NOTHING_STORED);
  enum_alter_inplace_result result= handler::check_if_supported_inplace_alter(altered, info);
  info->handler_flags= all;
  becomes->versioned= versioned;
  info->create_info->used_fields= used;
  if (all & ALTER_STORED_COLUMN_TYPE)
    info->unsupported_reason= my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_COLUMN_TYPE);
  if (result != HA_ALTER_INPLACE_NO_LOCK)
    return result;
  if (all & ALTER_ADD_FOREIGN_KEY && !thd_test_options(ha_thd(), OPTION_NO_FOREIGN_KEY_CHECKS))
  {
    info->unsupported_reason= my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_FK_CHECK);
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  if (drops_reference(name, info->alter_info, references_in(info->alter_info, altered, name)))
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  if (all & CHANGED_COLUMNS)
  {
    const Sources sources= sources_of(info);
    const Row_layout becomes(altered);
    const auto can_become= [&](ha_holdfast &part) { return part.share->layout.can_become(becomes, sources); };
    if (!can_change_columns(table, altered, info, sources) || !all_parts(can_become))
      return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  if (!(all & CHANGED_INDEXES))
    return HA_ALTER_INPLACE_INSTANT;
  // Entries of new indexes are made from records of the table as it is.
  if (info->index_add_count && !has_same_records(table, altered))
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  if (!can_change_indexes(table, altered, info))
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  // All other changes of definitions wait while children get new names of columns: there must be no
  // notes of writers to put in then.
  if (all & ALTER_COLUMN_NAME && info->index_add_count && !references_of_others(name, info->alter_info).empty())
    return HA_ALTER_INPLACE_NOCOPY_LOCK;
  // Why it is not made at once, if that is asked for.
  info->unsupported_reason= info->index_add_count ? "ADD INDEX" : "DROP INDEX";
  return HA_ALTER_INPLACE_NOCOPY_NO_LOCK;
}

/* Says why an ALTER in place ends. */
bool ha_holdfast::alter_failed(int error)
{
  if (error)
    handler::print_error(error, MYF(0));
  return error != 0;
}

/* What the altered table refers to, and what refers to it: false if it can be. */
bool ha_holdfast::prepare_references(TABLE *altered, const Alter_inplace_info *info, Altered *ctx)
{
  ctx->references= references_in(info->alter_info, altered, name);
  if (info->handler_flags & ALTER_COLUMN_NAME)
  {
    if (!keep_children(ha_thd(), name, MDL_SHARED_UPGRADABLE))
      return true;
    ctx->others= references_of_others(name, info->alter_info);
  }
  if (!thd_test_options(ha_thd(), OPTION_NO_FOREIGN_KEY_CHECKS))
  {
    References before= references_of(name);
    for (const Reference &reference : ctx->references)
    {
      auto same= std::find_if(before.begin(), before.end(), [&](const Reference &r) { return r.name == reference.name; });
      if (same != before.end() && misses_index(table, altered, same->columns, reference.columns))
        return true;
    }
    for (const Reference &reference : references_to(name))
    {
      std::vector<std::string> columns= reference.parent_columns;
      for (std::string &column : columns)
        find_new_name(info->alter_info, column, &column);
      if (stays(reference, name, ctx->references) && misses_index(table, altered, reference.parent_columns, columns))
        return true;
    }
  }
  return alter_failed(check_references(ha_thd(), ctx->references, altered, &ctx->names));
}

bool ha_holdfast::inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  Altered *ctx= static_cast<Altered *>(info->handler_ctx);
  return ctx->anew ? fill_anew(ctx) : ctx->added && fill_indexes(ctx, altered);
}

bool ha_holdfast::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  Altered *ctx= new (ha_thd()->mem_root) Altered(name, share);
  info->handler_ctx= ctx;
  if (!ctx || prepare_references(altered, info, ctx))
    return true;
  if (makes_anew(info))
    return alter_failed(fail(hf_load_begin_anew(share->table(), definition_wait_limit_ms(ha_thd()), &ctx->anew)));
  if (!(info->handler_flags & CHANGED_CATALOG))
    return false;
  std::vector<hf_index_spec> specs;
  std::vector<uint> added;
  ctx->keeps_indexes= keeps_indexes(table, altered, info);
  for (uint i= 0; i < altered->s->keys; i++)
  {
    const KEY &key= altered->key_info[i];
    uint kept= kept_key(table, info, key);
    ctx->index_names.push_back(index_name(key.name));
    if (kept == MAX_KEY)
    {
      ctx->indexes.push_back({true, (uint32_t) added.size(), slice("", 0)});
      added.push_back(i);
      specs.push_back({slice(ctx->index_names.back()), (key.flags & HA_NOSAME) != 0});
    }
    else if (i != altered->s->primary_key)
      ctx->indexes.push_back({false, index_no_of(kept), slice(ctx->index_names.back())});
  }
  if (info->handler_flags & CHANGED_COLUMNS)
  {
    Sources sources= sources_of(info);
    if (!repeat_defaults(altered, sources))
      return alter_failed(HA_ERR_GENERIC);
    Row_layout layout(altered);
    ctx->history= share->layout.history_for(layout, sources);
    layout.add_defaults(altered, sources, altered->record[0], &ctx->history);
    // A row could not tell which of so many layouts it has.
    if (ctx->history.is_too_long())
      return alter_failed(HA_ERR_UNSUPPORTED);
  }
  // What a prepared transaction has changed might not be in the new indexes.
  hf_code code= check_unprepared(name);
  if (code == HF_OK)
    code= hf_alter_begin(database, slice(name), specs.data(), specs.size(), info->online,
                         definition_wait_limit_ms(ha_thd()), &ctx->alter);
  if (code == HF_OK && !added.empty())
    ctx->added= std::make_shared<New_indexes>(altered, added);
  // No other session is in the middle of a statement with the table: all later statements know the
  // new indexes.
  if (info->online)
    share->set_being_added(ctx->added);
  return alter_failed(fail(code));
}

namespace {

/* What the engine is to keep with one of the altered tables. */
hf_code altered_definition(const Altered *ctx, const TABLE *altered, alter_table_operations changes,
                          Definition *definition)
{
  hf_code code= read_definition(ctx->name, definition);
  if (code != HF_OK)
    return code;
  definition->version= Definition(altered->s, false).version;
  // What ANALYZE counted was of other indexes.
  if (!ctx->keeps_indexes)
    definition->statistics.clear();
  // All rows of a table that was made anew are of the layout that it has.
  if (changes & (CHANGED_COLUMNS | ALTER_RECREATE_TABLE))
    definition->history= ctx->history;
  definition->references= ctx->references;
  return HF_OK;
}

/* Adds what the engine is to keep with tables that refer to the altered one. */
hf_code add_others(const Altered *ctx, Definitions *definitions)
{
  for (const auto &other : ctx->others)
  {
    if (hf_code code= definitions->add(other.first, other.second, other.first); code != HF_OK)
      return code;
  }
  return HF_OK;
}

/* Gives tables their new indexes and columns, all at once. */
hf_code commit_tables(inplace_alter_handler_ctx *const *tables, const TABLE *altered, alter_table_operations changes)
{
  std::vector<hf_alter *> alters;
  // No table refers to one of several partitions.
  std::unique_ptr<Definitions> others(static_cast<const Altered *>(*tables)->others.empty() ? nullptr : new Definitions);
  for (; *tables; tables++)
  {
    const Altered *ctx= static_cast<const Altered *>(*tables);
    Definition definition;
    hf_code code= altered_definition(ctx, altered, changes, &definition);
    if (code == HF_OK)
      code= hf_alter_become(ctx->alter, ctx->indexes.data(), ctx->indexes.size(), slice(definition.bytes()));
    if (code == HF_OK && others)
      code= add_others(ctx, others.get());
    if (code != HF_OK)
      return code;
    alters.push_back(ctx->alter);
  }
  return hf_alter_commit(database, alters.data(), alters.size(), others ? others->all() : nullptr, others ? others->count() : 0,
                         definition_wait_limit_ms(current_thd));
}

/* Puts tables that were made anew in their places, all at once. */
hf_code replace_tables(inplace_alter_handler_ctx *const *tables, const TABLE *altered)
{
  std::vector<hf_load *> loads;
  std::vector<std::string> definitions;
  std::vector<hf_slice> slices;
  for (; *tables; tables++)
  {
    const Altered *ctx= static_cast<const Altered *>(*tables);
    Definition definition;
    if (hf_code code= altered_definition(ctx, altered, ALTER_RECREATE_TABLE, &definition); code != HF_OK)
      return code;
    loads.push_back(ctx->anew);
    definitions.push_back(definition.bytes());
  }
  for (const std::string &definition : definitions)
    slices.push_back(slice(definition));
  return hf_load_replace(database, loads.data(), slices.data(), loads.size());
}

/* What changes is known to the server alone, and which version of the definition it is. */
hf_code write_version(const Altered *ctx, const TABLE *altered)
{
  Definitions changed;
  Definition definition;
  hf_code code= altered_definition(ctx, altered, 0, &definition);
  changed.add(ctx->name, definition);
  if (code == HF_OK)
    code= add_others(ctx, &changed);
  return code == HF_OK ? changed.write() : code;
}

/* Publishes what refers to what now. */
void know_references_of(const Altered *ctx)
{
  know_references(ctx->name, ctx->references);
  for (const auto &other : ctx->others)
    know_references(other.first, other.second);
  table_has_changed(ctx->name);
}

} // namespace

/* Partitions are committed together, by the first of them: it takes the list to say so. */
bool ha_holdfast::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit)
{
  Altered *ctx= static_cast<Altered *>(info->handler_ctx);
  if (!commit)
  {
    if (ctx)
      ctx->give_up();
    return false;
  }
  inplace_alter_handler_ctx *alone[]= {ctx, nullptr};
  inplace_alter_handler_ctx **tables= info->group_commit_ctx ? info->group_commit_ctx : alone;
  hf_code code= HF_OK;
  // First, because what the catalog changes has to be opened again. Every number that this sets is
  // right, also if the rest fails.
  if (sets_auto_increment(info) && alter_failed(set_auto_increment(info->create_info->auto_increment_value)))
    return true;
  if (makes_anew(info))
    code= replace_tables(tables, altered);
  else if (code == HF_OK && info->handler_flags & CHANGED_CATALOG)
    code= commit_tables(tables, altered, info->handler_flags);
  else
  {
    for (auto table= tables; *table && code == HF_OK; table++)
      code= write_version(static_cast<Altered *>(*table), altered);
  }
  for (auto table_of= tables; *table_of; table_of++)
  {
    if (static_cast<Altered *>(*table_of)->say_duplicate(code, table, altered))
      return true;
  }
  info->group_commit_ctx= nullptr;
  if (code == HF_OK)
  {
    know_references_of(ctx);
    return false;
  }
  return alter_failed(fail(code));
}
