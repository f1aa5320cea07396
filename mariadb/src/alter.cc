/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* ALTER TABLE without copying: changes of the definition that mean nothing to what is stored. The new version of the
   definition is kept in the engine's catalog, so that after a crash the server knows which of two it has. */

#include "definition.h"
#include "errors.h"
#include "ha_holdfast.h"

using namespace holdfast;

/* The server itself knows which changes are of names, defaults and comments alone. Of those, two are something to the
   engine: indexed virtual columns are stored, and the catalog has the names of indexes. */
enum_alter_inplace_result ha_holdfast::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
  if (info->handler_flags & (ALTER_VIRTUAL_GCOL_EXPR | ALTER_RENAME_INDEX))
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  enum_alter_inplace_result result= handler::check_if_supported_inplace_alter(altered, info);
  return result == HA_ALTER_INPLACE_NO_LOCK ? HA_ALTER_INPLACE_INSTANT : result;
}

bool ha_holdfast::check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes)
{
  // AUTO_INCREMENT has to be compared with the values that there are; the copy does that.
  bool is_same= table_changes == IS_EQUAL_YES && !(info->used_fields & HA_CREATE_USED_AUTO) &&
    !info->data_file_name && !info->index_file_name;
  return is_same ? COMPATIBLE_DATA_YES : COMPATIBLE_DATA_NO;
}

namespace {

/* The table that is altered; of a partitioned one, the server keeps that of every partition. */
struct Altered : public inplace_alter_handler_ctx
{
  explicit Altered(const std::string &name) : name(name) {}
  const std::string name;
};

hf_code write_version(const std::string &name, TABLE *altered)
{
  Definition definition;
  hf_code code= read_definition(name, &definition);
  if (code != HF_OK)
    return code;
  definition.version= Definition(altered->s, false).version;
  return write_definition(name, definition);
}

} // namespace

bool ha_holdfast::prepare_inplace_alter_table(TABLE *, Alter_inplace_info *info)
{
  info->handler_ctx= new (ha_thd()->mem_root) Altered(name);
  return !info->handler_ctx;
}

/* Partitions are committed together, by the first of them: it takes the list to say so. */
bool ha_holdfast::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit)
{
  if (!commit)
    return false;
  inplace_alter_handler_ctx *alone[]= {info->handler_ctx, nullptr};
  hf_code code= HF_OK;
  for (auto ctx= info->group_commit_ctx ? info->group_commit_ctx : alone; *ctx && code == HF_OK; ctx++)
    code= write_version(static_cast<Altered *>(*ctx)->name, altered);
  info->group_commit_ctx= nullptr;
  if (code == HF_OK)
    return false;
  my_printf_error(ER_UNKNOWN_ERROR, "Holdfast: %s", MYF(ME_ERROR_LOG), hf_error_message());
  return true;
}

namespace holdfast {

int check_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong)
{
  Definition definition;
  if (read_definition(table_name(path), &definition) != HF_OK)
    return 1;
  return definition.version.compare(0, std::string::npos, (const char *) version->str, version->length) != 0;
}

} // namespace holdfast
