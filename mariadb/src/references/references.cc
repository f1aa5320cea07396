/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "references.h"
#include "ddl/definition.h"
#include "handler/share.h"
#include "plugin/errors.h"
#include "sp_cache.h"
#include "sql_show.h"
#include "sql_table.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

namespace holdfast {

/* As bytes */

void encode_references(const References &references, Bytes *out)
{
  append_length(references.size(), out);
  for (const Reference &reference : references)
  {
    append_text(reference.name, out);
    append_text(reference.parent, out);
    append_length(reference.columns.size(), out);
    for (size_t i= 0; i < reference.columns.size(); i++)
    {
      append_text(reference.columns[i], out);
      append_text(reference.parent_columns[i], out);
    }
    out->push_back((uchar) reference.on_delete);
    out->push_back((uchar) reference.on_update);
  }
}

static bool decode_action(const uchar **from, const uchar *end, enum_fk_option *out)
{
  if (*from == end || **from > FK_OPTION_SET_DEFAULT)
    return false;
  *out= (enum_fk_option) *(*from)++;
  return true;
}

static bool decode_reference(const uchar **from, const uchar *end, Reference *out)
{
  size_t columns;
  if (!take_text(from, end, &out->name) || !take_text(from, end, &out->parent) || !take_length(from, end, &columns) ||
      columns == 0 || columns > MAX_REF_PARTS)
    return false;
  out->columns.resize(columns);
  out->parent_columns.resize(columns);
  for (size_t i= 0; i < columns; i++)
  {
    if (!take_text(from, end, &out->columns[i]) || !take_text(from, end, &out->parent_columns[i]))
      return false;
  }
  return decode_action(from, end, &out->on_delete) && decode_action(from, end, &out->on_update);
}

bool decode_references(const uchar **from, const uchar *end, References *out)
{
  size_t n;
  if (!take_length(from, end, &n))
    return false;
  out->clear();
  for (; n > 0; n--)
  {
    out->emplace_back();
    if (!decode_reference(from, end, &out->back()))
      return false;
  }
  return true;
}

/* Names */

std::string name_in_engine(const LEX_CSTRING &schema, const LEX_CSTRING &table)
{
  char path[FN_REFLEN];
  size_t n= build_table_filename(path, sizeof(path), schema.str, table.str, "", 0);
  // The path begins with the folder of the data.
  std::string whole(path, n);
  size_t slash= whole.rfind('/'), before= whole.rfind('/', slash - 1);
  return whole.substr(before + 1);
}

static std::string part_of_name(const std::string &file)
{
  char name[SAFE_NAME_LEN + 1];
  return std::string(name, filename_to_tablename(file.c_str(), name, sizeof(name), true));
}

std::string schema_of(const std::string &name)
{
  return part_of_name(name.substr(0, name.find('/')));
}

std::string table_of(const std::string &name)
{
  return part_of_name(name.substr(name.find('/') + 1));
}

bool is_in_passing(const std::string &name)
{
  return name.find("/#sql") != std::string::npos;
}

/* Words */

static void append_name(THD *thd, const std::string &name, String *out)
{
  append_identifier(thd, out, name.data(), name.size());
}

static void append_names(THD *thd, const std::vector<std::string> &names, String *out)
{
  out->append('(');
  for (size_t i= 0; i < names.size(); i++)
  {
    if (i)
      out->append(STRING_WITH_LEN(", "));
    append_name(thd, names[i], out);
  }
  out->append(')');
}

static void append_action(const char *when, enum_fk_option action, String *out)
{
  if (action == FK_OPTION_RESTRICT || action == FK_OPTION_UNDEF)
    return;
  const LEX_CSTRING *name= fk_option_name(action);
  out->append(when, strlen(when));
  out->append(name->str, name->length);
}

void Reference::append_clause(THD *thd, String *out) const
{
  out->append(STRING_WITH_LEN(" CONSTRAINT "));
  append_name(thd, name, out);
  out->append(STRING_WITH_LEN(" FOREIGN KEY "));
  append_names(thd, columns, out);
  out->append(STRING_WITH_LEN(" REFERENCES "));
  if (schema_of(parent) != schema_of(child))
  {
    append_name(thd, schema_of(parent), out);
    out->append('.');
  }
  append_name(thd, table_of(parent), out);
  out->append(' ');
  append_names(thd, parent_columns, out);
  append_action(" ON DELETE ", on_delete, out);
  append_action(" ON UPDATE ", on_update, out);
}

void Reference::append_words(THD *thd, String *out) const
{
  append_name(thd, schema_of(child), out);
  out->append('.');
  append_name(thd, table_of(child), out);
  out->append(',');
  append_clause(thd, out);
}

/* Which table refers to which */

namespace {

bool by_schema_and_name(const Reference &a, const Reference &b)
{
  size_t in_a= a.child.find('/'), in_b= b.child.find('/');
  int schemas= a.child.compare(0, in_a, b.child, 0, in_b);
  return schemas ? schemas < 0 : a.name < b.name;
}

class Known_references
{
public:
  /* True if links have to be made anew. */
  bool set(const std::string &table, References references)
  {
    std::lock_guard<std::mutex> guard(mutex);
    bool mattered= matters(table);
    if (!is_in_passing(table))
    {
      for (const Reference &reference : by_child[table])
        children[reference.parent].erase(table);
      for (const Reference &reference : references)
        children[reference.parent].insert(table);
    }
    // What an ALTER makes goes by the name of what it is to be.
    for (Reference &reference : references)
    {
      if (!is_in_passing(table) || reference.child.empty())
        reference.child= table;
    }
    if (references.empty())
      by_child.erase(table);
    else
      by_child[table]= std::move(references);
    return (mattered || matters(table)) && changed();
  }

  bool touch(const std::string &table)
  {
    std::lock_guard<std::mutex> guard(mutex);
    return matters(table) && changed();
  }

  References of(const std::string &table)
  {
    std::lock_guard<std::mutex> guard(mutex);
    auto found= by_child.find(table);
    return found == by_child.end() ? References() : found->second;
  }

  References to(const std::string &table)
  {
    std::lock_guard<std::mutex> guard(mutex);
    References all;
    auto found= children.find(table);
    if (found == children.end())
      return all;
    for (const std::string &child : found->second)
    {
      for (const Reference &reference : by_child[child])
      {
        if (reference.parent == table)
          all.push_back(reference);
      }
    }
    std::sort(all.begin(), all.end(), by_schema_and_name);
    return all;
  }

  bool reserve_name(const Reserved_names *names, const Reference &wanted)
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (has_name(by_child, wanted) || has_name(reserved, wanted))
      return false;
    reserved[names].push_back(wanted);
    return true;
  }

  void give_up_names(const Reserved_names *names)
  {
    std::lock_guard<std::mutex> guard(mutex);
    reserved.erase(names);
  }

  std::atomic<uint64_t> version{1};

private:
  /* Routines keep lists of the tables that their statements open: those are to be made anew. */
  bool changed()
  {
    version++;
    sp_cache_invalidate();
    return true;
  }

  /* Whether another table of the schema is among these with a reference of the same name. */
  template <typename Lists> static bool has_name(const Lists &lists, const Reference &wanted)
  {
    std::string schema= schema_of(wanted.child);
    for (const auto &one : lists)
    {
      for (const Reference &reference : one.second)
      {
        if (reference.child != wanted.child && schema_of(reference.child) == schema &&
            !my_strcasecmp(system_charset_info, reference.name.c_str(), wanted.name.c_str()))
          return true;
      }
    }
    return false;
  }

  bool matters(const std::string &table)
  {
    auto found= children.find(table);
    return by_child.count(table) || (found != children.end() && !found->second.empty());
  }

  std::mutex mutex;
  std::map<std::string, References> by_child;
  std::map<const Reserved_names *, References> reserved;
  std::map<std::string, std::set<std::string>> children;  // of those that have their names, by the name of the parent
};

Known_references known;

} // namespace

extern "C" void collect_references_of(void *, hf_slice name, hf_slice definition)
{
  known.set(std::string((const char *) name.data, name.len), Definition(definition).references);
}

void collect_references()
{
  logged_error(hf_table_list(database, collect_references_of, nullptr), "listing references");
}

void know_references(const std::string &table, References references)
{
  if (known.set(table, std::move(references)))
    forget_links();
}

void table_has_changed(const std::string &table)
{
  if (known.touch(table))
    forget_links();
}

References references_of(const std::string &table)
{
  return known.of(table);
}

Reserved_names::~Reserved_names()
{
  known.give_up_names(this);
}

bool Reserved_names::add(const Reference &reference)
{
  return known.reserve_name(this, reference);
}

References references_to(const std::string &table)
{
  return known.to(table);
}

uint64_t references_version()
{
  return known.version.load(std::memory_order_acquire);
}

} // namespace holdfast
