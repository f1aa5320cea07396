/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* FOREIGN KEYs: what a table keeps of its own, and which table refers to which.

   With a table is kept what it refers to, by names: that may be a table that is not there, if the
   reference was made with foreign_key_checks off, as dumps do. Which tables refer to a table is not
   kept: it is collected when the engine starts and follows every change of a definition.

   The target of an ALTER that copies (`#sql-...`) has references like any table, but the tables
   that it refers to do not know it until it has its name.

   As bytes, numbers are LEB128 and texts have their length before them:

     references   their number; of each:
       name       of the constraint
       parent     the engine's name of the table
       columns    their number; of each: the name of the column, and of the one that it refers to
       actions    2 bytes, as the server counts them: ON DELETE, ON UPDATE */

#ifndef HOLDFAST_REFERENCES_H
#define HOLDFAST_REFERENCES_H

#include "row/lengths.h"

namespace holdfast {

/* True if children go with their parent, or change. */
inline bool follows(enum_fk_option action)
{
  return action == FK_OPTION_CASCADE || action == FK_OPTION_SET_NULL;
}

struct Reference
{
  /* The words of SHOW CREATE TABLE for it, from the comma before CONSTRAINT on. */
  void append_clause(THD *thd, String *out) const;

  /* The same with the table before it, as errors say it. */
  void append_words(THD *thd, String *out) const;

  std::string name;
  std::string parent;
  std::vector<std::string> columns, parent_columns;
  enum_fk_option on_delete, on_update;

  /* Not kept: the engine's name of the table that has the reference, and whether the rows of
     that are still to be checked. */
  std::string child;
  bool is_new= false;
};

typedef std::vector<Reference> References;

void encode_references(const References &references, Bytes *out);

/* Takes them off the front; false if there are none. */
bool decode_references(const uchar **from, const uchar *end, References *out);

/* The engine's name of a table; and what the server calls it. */
std::string name_in_engine(const LEX_CSTRING &schema, const LEX_CSTRING &table);
std::string schema_of(const std::string &name);
std::string table_of(const std::string &name);

/* True if it is the name of a table that an ALTER makes or replaces. */
bool is_in_passing(const std::string &name);

/* Collects the references of all tables. */
void collect_references();

/* A table has these from now on; none if there is no such table. */
void know_references(const std::string &table, References references);

/* What links lead to has changed. */
void table_has_changed(const std::string &table);

References references_of(const std::string &table);

/* Names of references that a statement is about to give to a table. Until this is gone, no other
   table of the schema gets one of them. */
class Reserved_names
{
public:
  Reserved_names() = default;
  Reserved_names(const Reserved_names &) = delete;
  Reserved_names &operator=(const Reserved_names &) = delete;
  ~Reserved_names();

  /* False if another table of the schema has a reference of the same name, or is about to. */
  bool add(const Reference &reference);
};

/* Those of tables that have their names. */
References references_to(const std::string &table);

/* Changes with every change of a table that has to do with references. */
uint64_t references_version();

} // namespace holdfast

#endif
