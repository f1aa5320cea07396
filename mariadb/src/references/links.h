/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* References as an open table uses them: with the index at the other end, and how its keys are
   made of this table's records.

   Links are made from the definitions of both tables, and again when one of those has changed
   (`references_version`). Their user holds metadata locks on the tables at the other ends: on
   children the server has taken them when it prepared the statement, on parents `Share::links`
   does. So no table at an end changes before the statement is over. */

#ifndef HOLDFAST_LINKS_H
#define HOLDFAST_LINKS_H

#include "keys/key_format.h"
#include "references.h"

#include <memory>

namespace holdfast {

/* Numbers of a table's columns. */
typedef std::vector<uint> Columns;

/* What a table is like at the other end of a reference. The names of columns that it does not have,
   and the types of those that do not agree, make no link. */
struct Link
{
  Link() = default;
  Link(const Link &) = delete;
  ~Link() { hf_table_close(table); }

  /* True if an index at the other end can be looked into. */
  bool is_usable() const { return table != nullptr; }

  Reference reference;
  bool to_parent= false;          // else to a child
  uint own_key_no= 0;             // the first key of this table that begins with the columns; without one, as with InnoDB, the first of all
  std::string other;              // the table at the other end: of a copy that refers to itself, the copy
  hf_table *table= nullptr;       // that, if it has an index for the reference
  uint key_no= 0;                 // of the index, for the server,
  uint index= 0;                  // and for the engine
  std::string key_name;
  bool is_row_key= false;         // the columns are all that the other rows are under
  bool is_whole= false;           // they are all of the index
  Index_key key;                  // of that, made of this table's records
  Index_key own_key;              // of this table's columns; has no parts if they are not there
  Columns columns, other_columns;
  std::vector<bool> other_nullable;
};

typedef std::vector<std::unique_ptr<Link>> Link_list;

struct Links
{
  bool is_empty() const { return parents.empty() && children.empty(); }

  uint64_t version;
  Link_list parents, children;
  std::vector<const Link *> in_order;  // all, by `own_key_no`; of a key the children first
};

/* The key of `table` that begins with these columns; null if there is none. */
const KEY *key_with(const TABLE *table, const std::vector<std::string> &columns);

/* The columns of these names; false if one is not there. */
bool find_columns(const TABLE *table, const std::vector<std::string> &names, std::vector<Field *> *out);

/* True if keys of `theirs` can be made of those columns of another table. */
bool is_like(const std::vector<Field *> &columns, const KEY *theirs);

/* The definition of a table, as the server has it in its file. */
class Read_definition
{
public:
  Read_definition(THD *thd, const std::string &name) : Read_definition(thd, name, "./" + name) {}

  /* With another name than the file's. */
  Read_definition(THD *thd, const std::string &name, const std::string &path);
  ~Read_definition();

  /* Null if it cannot be read. */
  TABLE *table() { return is_open ? &opened : nullptr; }

private:
  const std::string schema, table_name, path;
  TABLE_SHARE share;
  TABLE opened;
  bool is_open= false;
};

/* Whether the engine has the table: HF_TABLE_NOT_FOUND, or why it cannot be opened. */
hf_code look_for(const std::string &name);

/* Has the tables stay as they are until the statement or the transaction is over. False if another
   session is changing one; with `wait` the error has been reported. */
bool keep_definitions(THD *thd, const std::vector<std::string> &tables, enum_mdl_type type, enum_mdl_duration duration,
                      bool wait);

/* Has what the tables that refer to `name` refer to stay as it is, but for this statement. With
   MDL_SHARED_UPGRADABLE rows can be changed there meanwhile; with MDL_SHARED_NO_WRITE it waits for
   transactions that have changed some. False with the error said. */
bool keep_children(THD *thd, const std::string &name, enum_mdl_type type);

/* Makes the links of a table that the engine calls `name`. */
std::shared_ptr<const Links> make_links(THD *thd, TABLE *table, const std::string &name, uint64_t version);

} // namespace holdfast

#endif
