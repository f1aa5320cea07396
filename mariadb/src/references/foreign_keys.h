/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* FOREIGN KEYs in statements that define tables. */

#ifndef HOLDFAST_FOREIGN_KEYS_H
#define HOLDFAST_FOREIGN_KEYS_H

#include "links.h"

namespace holdfast {

/* The references that the table of a statement is to have, by name: those that it has and keeps,
   and those that come. `form` is what the table becomes, `child` the engine's name of it, and
   `before` that of the table whose place it takes under another name: what refers to that one
   refers to the table itself. */
References references_in(const Alter_info *info, const TABLE *form, const std::string &child,
                         const std::string &before= "");

/* The name that a column of the altered table gets or keeps; false if it is dropped. */
bool find_new_name(const Alter_info *info, const std::string &column, std::string *out);

/* The name of a reference that was given none, like InnoDB's. */
std::string made_name(const std::string &table, const std::string &number);

/* An error of the server, with warnings that say why, if a table that becomes `form` cannot have
   the references. Columns of new ones get the spelling of the tables that they lead to. The names
   of new ones are `names` until the table has them. */
int check_references(THD *thd, References &references, const TABLE *form, Reserved_names *names);

/* The same if those that refer to a table called `name` cannot do so when it becomes `form`. */
int check_referring(THD *thd, const std::string &name, const TABLE *form);

} // namespace holdfast

#endif
