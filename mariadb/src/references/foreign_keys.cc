/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* FOREIGN KEYs in statements that define tables, and what the server asks about them. */

#include "foreign_keys.h"
#include "plugin/errors.h"
#include "plugin/transaction.h"
#include "handler/ha_holdfast.h"

#include <algorithm>

using namespace holdfast;

/* The name that a column of the table has now, if the statement gives it another one. */
static std::string new_name(const Alter_info *info, const std::string &column)
{
  std::string name= column;
  find_new_name(info, column, &name);
  return name;
}

namespace {

LEX_CSTRING lower_case(const LEX_CSTRING &name, char *buffer, size_t size)
{
  if (!lower_case_table_names)
    return name;
  strmake(buffer, name.str, MY_MIN(name.length, size - 1));
  return {buffer, my_casedn_str(files_charset_info, buffer)};
}

/* The engine's name of the table that a FOREIGN KEY refers to. */
std::string parent_of(const Foreign_key &key, const TABLE *form)
{
  char schema[NAME_LEN + 1], table[NAME_LEN + 1];
  return name_in_engine(key.ref_db.str ? lower_case(key.ref_db, schema, sizeof(schema)) : form->s->db,
                     lower_case(key.ref_table, table, sizeof(table)));
}

std::string text_of(const LEX_CSTRING &name)
{
  return std::string(name.str, name.length);
}

enum_fk_option action_of(enum_fk_option option)
{
  return option == FK_OPTION_UNDEF ? FK_OPTION_RESTRICT : option;
}

/* Writes names of columns as the table does, where it has them. */
void spell_as(const TABLE *table, std::vector<std::string> *names)
{
  for (std::string &name : *names)
  {
    std::vector<Field *> fields;
    if (find_columns(table, {name}, &fields))
      name= text_of(fields[0]->field_name);
  }
}

Reference reference_of(const Foreign_key &key, const TABLE *form, const Alter_info *info, const std::string &child,
                       const std::string &before)
{
  Reference reference;
  reference.child= child;
  reference.parent= parent_of(key, form);
  if (reference.parent == before)
    reference.parent= child;
  reference.name= key.constraint_name.str ? text_of(key.constraint_name) : key.name.str ? text_of(key.name) : "";
  reference.is_new= !key.old;
  reference.on_delete= action_of(key.delete_opt);
  reference.on_update= action_of(key.update_opt);
  bool is_own= reference.parent == child;
  for (const Key_part_spec &column : const_cast<List<Key_part_spec> &>(key.columns))
    reference.columns.push_back(key.old ? new_name(info, text_of(column.field_name)) : text_of(column.field_name));
  for (const Key_part_spec &column : const_cast<List<Key_part_spec> &>(key.ref_columns))
    reference.parent_columns.push_back(key.old && is_own ? new_name(info, text_of(column.field_name))
                                       : text_of(column.field_name));
  spell_as(form, &reference.columns);
  if (is_own)
    spell_as(form, &reference.parent_columns);
  return reference;
}

/* The number in a name that was made for a reference; 0 if the name is no such one. */
ulong number_in(const std::string &name, const std::string &table)
{
  std::string prefix= made_name(table, "");
  if (name.compare(0, prefix.size(), prefix))
    return 0;
  std::string number= name.substr(prefix.size());
  bool is_number= !number.empty() && number[0] != '0' && number.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? strtoul(number.c_str(), nullptr, 10) : 0;
}

bool by_name(const Reference &a, const Reference &b)
{
  return a.name < b.name;
}

} // namespace

namespace holdfast {

bool find_new_name(const Alter_info *info, const std::string &column, std::string *out)
{
  List_iterator_fast<Create_field> fields(const_cast<Alter_info *>(info)->create_list);
  while (const Create_field *field= fields++)
  {
    if (!field->field || my_strcasecmp(system_charset_info, field->field->field_name.str, column.c_str()))
      continue;
    *out= text_of(field->field_name);
    return true;
  }
  return false;
}

std::string made_name(const std::string &table, const std::string &number)
{
  return table + "_ibfk_" + number;
}

References references_in(const Alter_info *info, const TABLE *form, const std::string &child, const std::string &before)
{
  References all;
  if (!info)
    return all;
  std::string table= table_of(child);
  List_iterator_fast<Key> keys(const_cast<Alter_info *>(info)->key_list);
  while (const Key *key= keys++)
  {
    if (key->type == Key::FOREIGN_KEY)
      all.push_back(reference_of(*static_cast<const Foreign_key *>(key), form, info, child, before));
  }
  // Behind those of the table as it is, also of one that goes. As with InnoDB, a name that is given
  // now does not count.
  ulong last= 0;
  for (const Reference &reference : references_of(child))
    last= MY_MAX(last, number_in(reference.name, table));
  for (Reference &reference : all)
  {
    if (reference.name.empty())
      reference.name= made_name(table, std::to_string(++last));
  }
  std::sort(all.begin(), all.end(), by_name);
  return all;
}

static bool checks_are_on(THD *thd)
{
  return !thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS);
}

/* Says why a reference cannot be. */
static int cannot_add(THD *thd, const Reference &reference, const char *why, const std::string &what)
{
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_CANNOT_ADD_FOREIGN,
                      "Table `%s`: FOREIGN KEY `%s` cannot be: %s `%s`", table_of(reference.child).c_str(),
                      reference.name.c_str(), why, what.c_str());
  return HA_ERR_CANNOT_ADD_FOREIGN;
}

/* What there is to say about the reference where its own table is concerned. */
static int check_child(THD *thd, const Reference &reference, const TABLE *form)
{
  std::vector<Field *> fields;
  bool nulls= reference.on_delete == FK_OPTION_SET_NULL || reference.on_update == FK_OPTION_SET_NULL;
  if (reference.on_delete == FK_OPTION_SET_DEFAULT || reference.on_update == FK_OPTION_SET_DEFAULT)
    return cannot_add(thd, reference, "this engine does not have the action", "SET DEFAULT");
  if (form->versioned())
    return cannot_add(thd, reference, "a table with system versioning cannot refer to", table_of(reference.parent));
  if (!find_columns(form, reference.columns, &fields))
    return cannot_add(thd, reference, "there is no such column as", reference.columns.back());
  if (!key_with(form, reference.columns))
    return cannot_add(thd, reference, "no index begins with the whole columns of", table_of(reference.child));
  for (const Field *field : fields)
  {
    if (nulls && !field->real_maybe_null())
      return cannot_add(thd, reference, "SET NULL for a column that is NOT NULL,", field->field_name.str);
  }
  return 0;
}

/* True if a reference is refused whose parent's NULL cannot come to the child. As with InnoDB: in
   strict mode, and where nothing is said of DELETE. Else it is the row that is refused. */
static bool brings_nulls(THD *thd, const Reference &reference)
{
  return thd->is_strict_mode() && reference.on_update == FK_OPTION_CASCADE && reference.on_delete == FK_OPTION_RESTRICT;
}

/* Whether the reference can lead to `parent`. */
static int check_parent(THD *thd, const Reference &reference, const TABLE *form, const TABLE *parent)
{
  std::vector<Field *> fields;
  if (parent->versioned())
    return cannot_add(thd, reference, "it cannot refer to a table with system versioning,", table_of(reference.parent));
  if (!find_columns(parent, reference.parent_columns, &fields))
    return cannot_add(thd, reference, "a column that it refers to is not in", table_of(reference.parent));
  const char *why= nullptr;
  const KEY *key= key_with(parent, reference.parent_columns);
  if (!key)
    why= "no index begins with the whole columns in";
  else if (!find_columns(form, reference.columns, &fields) || !is_like(fields, key))
    why= "columns have other types than those in";
  if (!why)
    return 0;
  // Of a change in place the server would only say that it cannot be.
  if (thd_sql_command(thd) == SQLCOM_ALTER_TABLE && !checks_are_on(thd))
    my_error(ER_FK_NO_INDEX_PARENT, MYF(0), reference.name.c_str(), table_of(reference.parent).c_str());
  return cannot_add(thd, reference, why, table_of(reference.parent));
}

/* The same of a new reference, which the parent's NULLs are to be able to follow. */
static int check_parent_of_new(THD *thd, const Reference &reference, const TABLE *form, const TABLE *parent)
{
  if (int error= check_parent(thd, reference, form, parent))
    return error;
  std::vector<Field *> fields, parent_fields;
  find_columns(form, reference.columns, &fields);
  find_columns(parent, reference.parent_columns, &parent_fields);
  for (size_t i= 0; brings_nulls(thd, reference) && i < fields.size(); i++)
  {
    if (!fields[i]->real_maybe_null() && parent_fields[i]->real_maybe_null())
      return cannot_add(thd, reference, "ON UPDATE CASCADE from a column that can be NULL to one that is NOT NULL,",
                        fields[i]->field_name.str);
  }
  return 0;
}

/* True if the statement brings rows along that refer to others, without
   locking what they refer to. */
static bool brings_rows(THD *thd)
{
  return thd_sql_command(thd) != SQLCOM_CREATE_TABLE || thd->lex->first_select_lex()->item_list.elements;
}

/* Of the new references, where they lead. Gives them the spelling of what is there. */
static int check_new(THD *thd, Reference &reference, const TABLE *form)
{
  if (reference.parent == reference.child)
    return check_parent_of_new(thd, reference, form, form);
  // If there are rows, no session may be in the middle of deleting what they refer to. Else one
  // that is finds the reference. With checks off, too, the parent is not altered before it is
  // known: a column may get another name.
  bool checks= checks_are_on(thd);
  enum_mdl_type lock= checks && brings_rows(thd) ? MDL_SHARED_NO_WRITE : MDL_SHARED_UPGRADABLE;
  if (!keep_definitions(thd, {reference.parent}, lock, MDL_TRANSACTION, true))
    return HA_ERR_LOCK_WAIT_TIMEOUT;
  hf_code code= look_for(reference.parent);
  if (code == HF_TABLE_NOT_FOUND)
    return checks ? cannot_add(thd, reference, "in this engine there is no table", table_of(reference.parent)) : 0;
  // Rows that are copied look for what they refer to in a snapshot, in which a row is still there
  // that a prepared transaction without a session has deleted.
  if (checks && code == HF_OK && thd_sql_command(thd) == SQLCOM_ALTER_TABLE)
    code= check_unprepared(reference.parent);
  say_wait_ended(code, thd);
  if (code != HF_OK)
    return server_error(code, thd);
  Read_definition parent(thd, reference.parent);
  if (!parent.table())
    return HA_ERR_CANNOT_ADD_FOREIGN;
  spell_as(parent.table(), &reference.parent_columns);
  return check_parent_of_new(thd, reference, form, parent.table());
}

/* By their order, names that differ in the case of their letters are not neighbours. */
static bool has_same_name(const Reference &a, const Reference &b)
{
  return !my_strcasecmp(system_charset_info, a.name.c_str(), b.name.c_str());
}

int check_references(THD *thd, References &references, const TABLE *form, Reserved_names *names)
{
  for (size_t i= 0; i < references.size(); i++)
  {
    Reference &reference= references[i];
    auto end= references.begin() + i;
    auto other= std::find_if(references.begin(), end, [&](const Reference &earlier) { return has_same_name(earlier, reference); });
    bool is_twice= other != end;
    if (is_twice && reference.is_new && other->is_new)
      return cannot_add(thd, reference, "there is another of the name", reference.name);
    if (is_twice || (reference.is_new && !names->add(reference)))
    {
      my_error(ER_DUP_CONSTRAINT_NAME, MYF(0), "FOREIGN KEY", reference.name.c_str());
      return HA_ERR_CANNOT_ADD_FOREIGN;
    }
    if (!reference.is_new && !checks_are_on(thd))
      continue;
    int error= check_child(thd, reference, form);
    if (!error && reference.is_new)
      error= check_new(thd, reference, form);
    else if (!error && reference.parent == reference.child)
      error= check_parent(thd, reference, form, form);
    if (error)
      return error;
  }
  return 0;
}

int check_referring(THD *thd, const std::string &name, const TABLE *form)
{
  if (!checks_are_on(thd))
    return 0;
  for (const Reference &reference : references_to(name))
  {
    if (reference.child == name)
      continue;
    Read_definition child(thd, reference.child);
    int error= child.table() ? check_parent(thd, reference, child.table(), form) : 0;
    if (error)
      return error;
  }
  return 0;
}

/* For the server, names live as long as its statement. */
static LEX_CSTRING *lex_string(THD *thd, const std::string &text)
{
  return thd_make_lex_string(thd, nullptr, text.data(), text.size(), 1);
}

/* What the server wants to know about a reference; `link` may be null. */
static FOREIGN_KEY_INFO *info_of(THD *thd, const Reference &reference, const TABLE *table, const Link *link, bool is_child)
{
  void *memory= thd->alloc(sizeof(FOREIGN_KEY_INFO));
  if (!memory)
    return nullptr;
  FOREIGN_KEY_INFO *info= new (memory) FOREIGN_KEY_INFO();
  info->foreign_id= lex_string(thd, reference.name);
  info->foreign_db= lex_string(thd, schema_of(reference.child));
  info->foreign_table= lex_string(thd, table_of(reference.child));
  info->referenced_db= lex_string(thd, schema_of(reference.parent));
  info->referenced_table= lex_string(thd, table_of(reference.parent));
  info->delete_method= reference.on_delete;
  info->update_method= reference.on_update;
  info->referenced_key_name= nullptr;
  const KEY *own= is_child ? nullptr : key_with(table, reference.parent_columns);
  if (own)
    info->referenced_key_name= lex_string(thd, own->name.str);
  else if (is_child && link && link->is_usable())
    info->referenced_key_name= lex_string(thd, link->key_name);
  std::vector<Field *> fields;
  uint n= (uint) reference.columns.size();
  bool has_fields= find_columns(table, is_child ? reference.columns : reference.parent_columns, &fields);
  for (uint i= 0; i < n; i++)
  {
    info->foreign_fields.push_back(lex_string(thd, reference.columns[i]), thd->mem_root);
    info->referenced_fields.push_back(lex_string(thd, reference.parent_columns[i]), thd->mem_root);
    if (has_fields && fields[i]->real_maybe_null())
      info->set_nullable(thd, !is_child, i, n);
    if (link && link->is_usable() && link->other_nullable[i])
      info->set_nullable(thd, is_child, i, n);
  }
  return info;
}

/* The link of a reference; null if there is none. */
static const Link *find_link(const Link_list *links, const Reference &reference)
{
  if (!links)
    return nullptr;
  for (const auto &link : *links)
  {
    if (link->reference.child == reference.child && link->reference.name == reference.name)
      return link.get();
  }
  return nullptr;
}

static void list_references(THD *thd, const References &references, const TABLE *table, const Link_list *links, bool is_child,
                            List<FOREIGN_KEY_INFO> *list)
{
  for (const Reference &reference : references)
  {
    if (FOREIGN_KEY_INFO *info= info_of(thd, reference, table, find_link(links, reference), is_child))
      list->push_back(info, thd->mem_root);
  }
}

} // namespace holdfast

/* What the server asks */

char *ha_holdfast::get_foreign_key_create_info()
{
  String text;
  for (const Reference &reference : references_of(name))
  {
    text.append(STRING_WITH_LEN(",\n "));
    reference.append_clause(ha_thd(), &text);
  }
  return text.length() ? strdup(text.c_ptr_safe()) : nullptr;
}

/* The links for an answer. The tables at the other ends stay as they are until it is found, and not
   for the statement: of two ALTERs, of a parent and of its child, each would wait for the other. */
static std::shared_ptr<const Links> links_now(THD *thd, Share *share, TABLE *table, const std::string &name)
{
  std::shared_ptr<const Links> now;
  MDL_savepoint before= thd->mdl_context.mdl_savepoint();
  share->links(thd, table, name, false, &now);
  thd->mdl_context.rollback_to_savepoint(before);
  return now;
}

int ha_holdfast::get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list)
{
  std::shared_ptr<const Links> now= links_now(thd, share, table, name);
  list_references(thd, references_of(name), table, now ? &now->parents : nullptr, true, list);
  return 0;
}

/* True if rows of the table may be changed because others are deleted or changed. */
static bool has_rows_that_follow(const std::string &name)
{
  const References references= references_of(name);
  return std::any_of(references.begin(), references.end(), [](const Reference &reference) {
    return reference.on_delete == FK_OPTION_SET_NULL || follows(reference.on_update);
  });
}

int ha_holdfast::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list)
{
  std::shared_ptr<const Links> now;
  References referring= references_to(name);
  // For statements that change rows the names do, and what may follow: a DELETE opens tables by
  // what they do ON DELETE, all the way down, and does not know that a row is changed in between,
  // by SET NULL.
  if (thd_sql_command(thd) == SQLCOM_ALTER_TABLE)
    now= links_now(thd, share, table, name);
  else if (has_rows_that_follow(name))
  {
    for (Reference &reference : referring)
    {
      if (!follows(reference.on_delete))
        reference.on_delete= reference.on_update;
    }
  }
  list_references(thd, referring, table, now ? &now->children : nullptr, false, list);
  return 0;
}

bool ha_holdfast::referenced_by_foreign_key() const noexcept
{
  return share->is_referenced(name);
}

bool ha_holdfast::can_switch_engines()
{
  return references_of(name).empty() && references_to(name).empty();
}
