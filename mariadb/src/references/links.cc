/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "links.h"
#include "handler/share.h"

#include <algorithm>

namespace holdfast {

/* Keys */

static bool begins_with(const KEY &key, const std::vector<std::string> &columns)
{
  static const uint OTHERS= HA_FULLTEXT | HA_SPATIAL;
  if (key.flags & OTHERS || key.algorithm == HA_KEY_ALG_LONG_HASH || key.user_defined_key_parts < columns.size())
    return false;
  for (size_t i= 0; i < columns.size(); i++)
  {
    const KEY_PART_INFO &part= key.key_part[i];
    if (part.key_part_flag & HA_PART_KEY_SEG ||
        my_strcasecmp(system_charset_info, part.field->field_name.str, columns[i].c_str()))
      return false;
  }
  return true;
}

const KEY *key_with(const TABLE *table, const std::vector<std::string> &columns)
{
  for (uint i= 0; i < table->s->keys; i++)
  {
    if (begins_with(table->key_info[i], columns))
      return &table->key_info[i];
  }
  return nullptr;
}

bool find_columns(const TABLE *table, const std::vector<std::string> &names, std::vector<Field *> *out)
{
  out->clear();
  for (const std::string &name : names)
  {
    for (Field **field= table->field; *field; field++)
    {
      if (!my_strcasecmp(system_charset_info, (*field)->field_name.str, name.c_str()))
        out->push_back(*field);
    }
  }
  return out->size() == names.size();
}

bool is_like(const std::vector<Field *> &columns, const KEY *theirs)
{
  return Index_key().stand_for(columns, *theirs);
}

/* Definitions */

Read_definition::Read_definition(THD *thd, const std::string &name, const std::string &path_arg)
  : schema(schema_of(name)), table_name(table_of(name)), path(path_arg)
{
  init_tmp_table_share(thd, &share, schema.c_str(), 0, table_name.c_str(), path.c_str());
  if (open_table_def(thd, &share, GTS_TABLE) == OPEN_FRM_OK)
    is_open= open_table_from_share(thd, &share, &empty_clex_str, 0, (uint) READ_ALL, 0, &opened, true) == OPEN_FRM_OK;
}

Read_definition::~Read_definition()
{
  if (is_open)
    closefrm(&opened);
  free_table_share(&share);
}

hf_code look_for(const std::string &name)
{
  hf_table *table= nullptr;
  hf_code code= hf_table_open(database, slice(name), &table);
  hf_table_close(table);
  return code;
}

bool keep_definitions(THD *thd, const std::vector<std::string> &tables, enum_mdl_type type, enum_mdl_duration duration,
                      bool wait)
{
  for (const std::string &name : tables)
  {
    MDL_request request;
    MDL_REQUEST_INIT(&request, MDL_key::TABLE, schema_of(name).c_str(), table_of(name).c_str(), type, duration);
    bool failed= wait ? thd->mdl_context.acquire_lock(&request, (double) thd->variables.lock_wait_timeout)
      : thd->mdl_context.try_acquire_lock(&request);
    if (failed || !request.ticket)
      return false;
  }
  return true;
}

bool keep_children(THD *thd, const std::string &name, enum_mdl_type type)
{
  for (;;)
  {
    uint64_t version= references_version();
    std::vector<std::string> children;
    for (const Reference &reference : references_to(name))
    {
      if (reference.child != name)
        children.push_back(reference.child);
    }
    // An ALTER that is under way there has read what the table refers to, and is going to write it.
    if (!keep_definitions(thd, children, type, MDL_TRANSACTION, true))
      return false;
    if (version == references_version())
      return true;
  }
}

/* Links */

static Columns numbers(const std::vector<Field *> &fields)
{
  Columns all;
  for (const Field *field : fields)
    all.push_back(field->field_index);
  return all;
}

/* The engine's number of the index of a table's key. */
static uint find_index(const hf_table *table, const TABLE *definition, uint key_no)
{
  if (key_no == definition->s->primary_key)
    return 0;
  hf_slice name;
  for (uint index= 1; hf_index_name(table, index, &name) == HF_OK; index++)
  {
    std::string text= server_index_name(name);
    if (!my_strcasecmp(system_charset_info, definition->key_info[key_no].name.str, text.c_str()))
      return index;
  }
  return UINT_MAX;
}

/* Leads from these columns of `mine` to those of `theirs`, if types and
   indexes are as they have to be. */
static void connect(Link *link, const TABLE *mine, const std::vector<std::string> &columns, const TABLE *theirs,
                    const std::vector<std::string> &their_columns)
{
  std::vector<Field *> fields, their_fields;
  const KEY *key= key_with(theirs, their_columns);
  if (!key || !find_columns(mine, columns, &fields) || !find_columns(theirs, their_columns, &their_fields) ||
      !link->key.stand_for(fields, *key))
    return;
  link->key_no= (uint) (key - theirs->key_info);
  link->key.set_limit(key_limit(theirs, link->key_no));
  link->key_name= key->name.str;
  link->is_whole= columns.size() == key->user_defined_key_parts;
  link->is_row_key= link->key_no == theirs->s->primary_key && link->is_whole;
  link->columns= numbers(fields);
  link->other_columns= numbers(their_fields);
  for (const Field *field : their_fields)
    link->other_nullable.push_back(field->real_maybe_null());
  hf_table *table= nullptr;
  if (hf_table_open(database, slice(link->other), &table) != HF_OK)
    return;
  link->index= find_index(table, theirs, link->key_no);
  if (link->index == UINT_MAX)
    hf_table_close(table);
  else
    link->table= table;
}

static std::unique_ptr<Link> make_link(THD *thd, const TABLE *table, const std::string &name, const Reference &reference, bool to_parent)
{
  std::unique_ptr<Link> link(new Link);
  link->reference= reference;
  link->to_parent= to_parent;
  const bool is_own= reference.parent == reference.child;
  link->other= is_own ? name : to_parent ? reference.parent : reference.child;
  const std::vector<std::string> &columns= to_parent ? reference.columns : reference.parent_columns;
  const std::vector<std::string> &others= to_parent ? reference.parent_columns : reference.columns;
  std::vector<Field *> fields;
  if (find_columns(table, columns, &fields))
    link->own_key= Index_key(fields);
  if (const KEY *key= key_with(table, columns))
    link->own_key_no= (uint) (key - table->key_info);
  if (link->other == name)
    connect(link.get(), table, columns, table, others);
  else if (look_for(link->other) == HF_OK)
  {
    Read_definition definition(thd, link->other);
    if (const TABLE *other= definition.table())
      connect(link.get(), table, columns, other, others);
  }
  return link;
}

std::shared_ptr<const Links> make_links(THD *thd, TABLE *table, const std::string &name, uint64_t version)
{
  std::shared_ptr<Links> links= std::make_shared<Links>();
  links->version= version;
  for (const Reference &reference : references_of(name))
    links->parents.push_back(make_link(thd, table, name, reference, true));
  if (!is_in_passing(name))
  {
    for (const Reference &reference : references_to(name))
      links->children.push_back(make_link(thd, table, name, reference, false));
  }
  for (const Link_list *list : {&links->children, &links->parents})
  {
    for (const auto &link : *list)
      links->in_order.push_back(link.get());
  }
  std::stable_sort(links->in_order.begin(), links->in_order.end(),
                   [](const Link *a, const Link *b) { return a->own_key_no < b->own_key_no; });
  return links;
}

} // namespace holdfast
