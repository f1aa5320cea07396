/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Rows and what refers to them: after a row is written, its parents are looked for; after one is
   changed or deleted, its children are, and they follow or keep it. Both by locking reads, of
   what is there now: a child holds a shared lock on its parent's entry until it commits, so that
   a parent cannot go unseen.

   A reference belongs to a key of its table on either side. If a row breaks several rules, the
   error is that of the first key: for each key its children come first, then its parents, then a
   duplicate. An INSERT looks for the parents of each key before it writes the key's entry. Parents
   in the table itself are looked for when all entries are written, since a row may refer to itself;
   UPDATE looks at all references then. Where a reference waits for the entries, a duplicate in one
   of them is told only if no reference of that key or of one before it has an error.

   As with InnoDB, the row that children follow has no new entry yet, in the index whose reference
   they follow and in later ones: another reference of theirs to the new value does not find it.

   Children that follow are changed by the handler of their own table, which the server has opened
   for the statement; the chain goes down through `change_row` and `delete_row`. Nothing is told to
   triggers or to the binary log: a replica's engine does the same. */

#include "plugin/errors.h"
#include "handler/ha_holdfast.h"
#include "sql_parse.h"
#include "sql_prepare.h"
#include "sql_table.h"

#include <algorithm>

using namespace holdfast;

/* Of the server; no header declares it. */
TABLE *find_fk_open_table(THD *thd, const char *db, size_t db_len, const char *table, size_t table_len);

/* How many tables an action may go through, one below the other. */
static const uint MAX_CHAIN= 255;

/* What the engine needs of the stack, at most, to change a row, in bytes. */
static const long STACK_FOR_ROW= 64 * 1024;

namespace {

/* A part of an index, in which no other cursor reads. */
class Entries
{
public:
  ~Entries() { hf_cursor_close(cursor); }

  /* All entries of an index that begin with `key`. */
  hf_code seek(hf_transaction *transaction, const hf_table *table, uint index, const Bytes &key, hf_lock lock)
  {
    Bytes end= key;
    step_over_prefix(&end);
    hf_code code= hf_cursor_open(table, index, &cursor);
    hf_seek where= {slice(key), slice(end), true, false, false, false, false, false, false, lock};
    return code == HF_OK ? hf_cursor_seek(cursor, transaction, &where) : code;
  }

  hf_code next(hf_slice *key, hf_slice *value) { return hf_cursor_next(cursor, key, value); }

private:
  hf_cursor *cursor= nullptr;
};

/* While it lives, a handler reads what a reference leads to. Chains may come to a table again. */
class Following
{
public:
  explicit Following(bool *flag_arg) : flag(flag_arg), before(*flag_arg) { *flag= true; }
  ~Following() { *flag= before; }

private:
  bool *flag, before;
};

/* While it lives, all columns of the table are read and written, and its records are put back in
   the end: a chain may come to a table again while a row of it is in them. Of what is put back
   nothing but columns in keys is looked at. */
class Whole_records
{
public:
  explicit Whole_records(TABLE *table) : table(table), read_set(table->read_set), write_set(table->write_set)
  {
    for (const uchar *record : table->record)
      kept.insert(kept.end(), record, record + table->s->reclength);
    table->column_bitmaps_set_no_signal(&table->s->all_set, &table->s->all_set);
  }

  ~Whole_records()
  {
    table->column_bitmaps_set_no_signal(read_set, write_set);
    const uchar *from= kept.data();
    for (uchar *record : table->record)
    {
      memcpy(record, from, table->s->reclength);
      from+= table->s->reclength;
    }
  }

private:
  TABLE *const table;
  MY_BITMAP *const read_set, *const write_set;
  Bytes kept;
};

/* A link of the chain of actions that a statement has come to. */
class In_chain
{
public:
  In_chain(Connection *connection, const Action &action) : chain(connection->chain) { chain.push_back(action); }
  ~In_chain() { chain.pop_back(); }

private:
  std::vector<Action> &chain;
};

/* While it lives, values that do not fit are no news. */
class Silent_stores
{
public:
  explicit Silent_stores(THD *thd) : thd(thd), count_cuts(thd->count_cuted_fields), abort_on_warning(thd->abort_on_warning)
  {
    thd->count_cuted_fields= CHECK_FIELD_IGNORE;
    thd->abort_on_warning= false;
  }

  ~Silent_stores()
  {
    thd->count_cuted_fields= count_cuts;
    thd->abort_on_warning= abort_on_warning;
  }

private:
  THD *const thd;
  const enum_check_fields count_cuts;
  const bool abort_on_warning;
};

/* True if an entry that begins with a key is of it. That of a longer key may have a hash which
   begins like the key ends. */
bool is_of_key(const Link &link, const Bytes &key, hf_slice value)
{
  const uchar *from= value.data;
  size_t prefix;
  return !link.is_whole || (take_length(&from, from + value.len, &prefix) && prefix == key.size());
}

/* The table of a child, if the server has opened it for the statement, to be written. */
TABLE *follower_of(THD *thd, const std::string &child)
{
  std::string schema= schema_of(child), name= table_of(child);
  TABLE *table= find_fk_open_table(thd, schema.data(), schema.size(), name.data(), name.size());
  return table && table->reginfo.lock_type >= TL_FIRST_WRITE ? table : nullptr;
}

} // namespace

/* Has a prepared statement prepared again whose list of tables is from before a reference: the
   tables that are to follow are not open. HA_ERR_TABLE_DEF_CHANGED if so. */
int ha_holdfast::check_followers(THD *thd)
{
  Reprepare_observer *observer= thd->m_reprepare_observer;
  if (!observer || !table->pos_in_table_list || !share->is_referenced(name))
    return 0;
  uint events= table->pos_in_table_list->trg_event_map;
  for (const Reference &reference : references_to(name))
  {
    bool may_follow= ((events & trg2bit(TRG_EVENT_DELETE)) && follows(reference.on_delete)) ||
      ((events & trg2bit(TRG_EVENT_UPDATE)) && follows(reference.on_update));
    if (may_follow && !follower_of(thd, reference.child) && observer->report_error(thd))
      return HA_ERR_TABLE_DEF_CHANGED;
  }
  return 0;
}

/* What the statement's rows refer to and what refers to them by now: a table without rows may come
   to refer to them at any time. */
int ha_holdfast::find_links()
{
  const uint64_t version= references_version();
  if (linking.is_known && linking.version == version)
    return 0;
  linking.is_known= false;
  linking.links.reset();
  THD *thd= ha_thd();
  if (!thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS))
  {
    if (share->links(thd, table, name, true, &linking.links))
      return fail(HF_LOCK_TIMEOUT);
  }
  linking.version= version;
  linking.is_known= true;
  return 0;
}

/* A row is refused for a reference. */
int ha_holdfast::refused_for(const Reference &reference, int error)
{
  linking.refusing.length(0);
  reference.append_words(ha_thd(), &linking.refusing);
  return error;
}

bool ha_holdfast::get_error_message(int error, String *text)
{
  if (error == HA_ERR_NO_REFERENCED_ROW || error == HA_ERR_ROW_IS_REFERENCED)
    text->copy(linking.refusing);
  return false;
}

bool ha_holdfast::get_foreign_dup_key(char *child, uint child_size, char *key, uint key_size)
{
  if (!connection)
    return false;
  strmake(child, connection->duplicate_child.c_str(), child_size - 1);
  strmake(key, connection->duplicate_child_key.c_str(), key_size - 1);
  return true;
}

/* The entry that a row has got in an index of its table while its children follow, and does not
   have yet for them. False if there is none. */
bool ha_holdfast::get_early_entry(const Link &link, Bytes *entry) const
{
  const auto &chain= connection->chain;
  for (const Action &action : chain)
  {
    const ha_holdfast *parent= action.parent;
    bool is_followed= &action == &chain.back() && action.link->reference.name == link.reference.name;
    if (!action.after || parent->name != link.other || is_followed || link.key_no < action.link->own_key_no)
      continue;
    const Index_key &key= parent->share->keys[link.key_no];
    if (key.is_same(parent->table, action.before, action.after))
      continue;
    entry->clear();
    if (link.index != 0)
      key.encode_record(parent->table, action.after, entry);
    entry->insert(entry->end(), parent->new_row.key.begin(), parent->new_row.key.end());
    return true;
  }
  return false;
}

/* Whether the table at the other end has an entry for `key` beside `early`, which may be null. */
int ha_holdfast::find_linked(const Link &link, const Bytes &key, hf_lock lock, const Bytes *early, bool *found)
{
  hf_code code;
  if (link.is_row_key && early && key == *early)
    code= HF_NOT_FOUND;
  else if (link.is_row_key)
    code= hf_get(transaction(), link.table, 0, slice(key), lock, false, false, nullptr);
  else
  {
    Entries entries;
    hf_slice entry, value;
    code= entries.seek(transaction(), link.table, link.index, key, lock);
    auto is_early= [&] { return early && entry.len == early->size() && !memcmp(entry.data, early->data(), entry.len); };
    do
    {
      if (code == HF_OK)
        code= entries.next(&entry, &value);
    } while (code == HF_OK && (is_early() || !is_of_key(link, key, value)));
  }
  *found= code == HF_OK;
  return code == HF_NOT_FOUND ? 0 : fail(code);
}

/* A row was inserted, changed or deleted: what refers to it follows or keeps it, and
   what it refers to is looked for. Of the references that belong to keys up to `last`,
   in the order of the keys. */
int ha_holdfast::check_links(const uchar *before, const uchar *after, uint last)
{
  // A session that has locked an entry for a reference before this one has deleted it made a
  // reference that is known by now.
  if (int error= find_links())
    return error;
  if (!linking.links)
    return 0;
  const std::shared_ptr<const Links> held= linking.links;
  for (const Link *link : held->in_order)
  {
    if (link->own_key_no > last)
      break;
    int error= 0;
    if (!link->to_parent && before)
      error= act_on_children(*link, before, after);
    else if (link->to_parent && after)
      error= check_parent(*link, before, after);
    if (error)
      return error;
  }
  return 0;
}

/* The error of a row whose entries were not all written, or 0, after a look at its references. */
int ha_holdfast::check_links_after(int error, const uchar *before, const uchar *after)
{
  if (error && error != HA_ERR_FOUND_DUPP_KEY)
    return error;
  uint duplicate= connection->duplicate_key;
  int refused= check_links(before, after, error ? duplicate : UINT_MAX);
  connection->duplicate_key= duplicate;
  return refused ? refused : error;
}

/* Looks for what a new row refers to in other tables, of the references that belong to a key. */
int ha_holdfast::check_other_parents(uint key_no, const uchar *record)
{
  if (!linking.links)
    return 0;
  const std::shared_ptr<const Links> held= linking.links;
  for (const auto &link : held->parents)
  {
    if (link->own_key_no != key_no || link->other == name)
      continue;
    if (int error= check_parent(*link, nullptr, record))
      return error;
  }
  return 0;
}

/* The error of a new row, or 0, after it has been looked for what it refers to in its own table. */
int ha_holdfast::check_own_parents(int error, const uchar *record)
{
  if (!linking.links || (error && error != HA_ERR_FOUND_DUPP_KEY))
    return error;
  const uint duplicate= connection->duplicate_key, last= error ? duplicate : UINT_MAX;
  const std::shared_ptr<const Links> held= linking.links;
  int refused= 0;
  for (const Link *link : held->in_order)
  {
    if (!refused && link->to_parent && link->own_key_no <= last && link->other == name)
      refused= check_parent(*link, nullptr, record);
  }
  connection->duplicate_key= duplicate;
  return refused ? refused : error;
}

/* Looks for what a row refers to that was written, or changed. */
int ha_holdfast::check_parent(const Link &link, const uchar *before, const uchar *after)
{
  // The rows of a copy are those of the table; and the rows that they refer to elsewhere cannot
  // change. Those that they refer to in the copy may come behind them.
  bool is_copy= is_in_passing(name);
  if ((is_copy && (!link.reference.is_new || link.other == name)) ||
      (before && link.own_key.is_same(table, before, after)))
    return 0;
  return find_parent(link, after, is_copy ? HF_LOCK_NONE : HF_LOCK_LINKED_SHARED);
}

/* Looks for what a row refers to. */
int ha_holdfast::find_parent(const Link &link, const uchar *record, hf_lock lock)
{
  if (link.own_key.has_null(record))
    return 0;
  bool found= false;
  if (link.is_usable() && link.key.has_counterpart(table, record))
  {
    Bytes key, early;
    if (int error= encode_linked(link, record, &key))
      return error;
    const Bytes *beside= get_early_entry(link, &early) ? &early : nullptr;
    if (int error= find_linked(link, key, lock, beside, &found))
      return error;
  }
  return found ? 0 : refused_for(link.reference, HA_ERR_NO_REFERENCED_ROW);
}

/* The key at the other end for a record. */
int ha_holdfast::encode_linked(const Link &link, const uchar *record, Bytes *key)
{
  link.key.encode_record(table, record, key);
  // Of keys that were cut, none can be found by a part.
  return !link.is_whole && link.key.is_cut_within(key->size()) ? HA_ERR_INDEX_COL_TOO_LONG : 0;
}

/* A row was deleted, or changed to be `after`: its children follow, or keep it. */
int ha_holdfast::act_on_children(const Link &link, const uchar *before, const uchar *after)
{
  enum_fk_option action= after ? link.reference.on_update : link.reference.on_delete;
  if (!link.own_key.count() || link.own_key.has_null(before) || (after && link.own_key.is_same(table, before, after)))
    return 0;
  // Without an index, dropped while keys were not looked at, it cannot be told whether there are
  // children.
  if (!link.is_usable())
    return refused_for(link.reference, HA_ERR_ROW_IS_REFERENCED);
  if (!link.key.has_counterpart(table, before))
    return 0;
  Bytes key, new_key;
  if (int error= encode_linked(link, before, &key))
    return error;
  if (after && link.key.has_counterpart(table, after))
    link.key.encode_record(table, after, &new_key);
  // Other bytes that compare alike are the same parent.
  if (key == new_key && action != FK_OPTION_CASCADE)
    return 0;
  return follows(action) ? change_children(link, key, before, after) : keep_for_children(link, key);
}

int ha_holdfast::keep_for_children(const Link &link, const Bytes &key)
{
  bool found;
  int error= find_linked(link, key, HF_LOCK_LINKED_SHARED, nullptr, &found);
  return !error && found ? refused_for(link.reference, HA_ERR_ROW_IS_REFERENCED) : error;
}

/* Has the handler of the child's table do what the reference says. */
int ha_holdfast::change_children(const Link &link, const Bytes &key, const uchar *before, const uchar *after)
{
  TABLE *child= follower_of(ha_thd(), link.other);
  // A statement that the server did not prepare for this cannot change children.
  if (!child)
    return keep_for_children(link, key);
  ha_holdfast *follower= static_cast<ha_holdfast *>(child->file);
  if (connection->chain.size() >= MAX_CHAIN)
    return HA_ERR_FK_DEPTH_EXCEEDED;
  uchar here;
  if (check_stack_overrun(ha_thd(), STACK_FOR_ROW, &here))
    return HA_ERR_GENERIC;
  bool is_update= after || link.reference.on_delete == FK_OPTION_SET_NULL;
  // As with InnoDB, an update does not come back to a table that it has come from: it might not
  // end.
  In_chain chain(connection, {after ? share : nullptr, this, &link, before, after});
  const auto &above= connection->chain;
  auto has_updated= [&](const Action &action) { return action.updated == follower->share; };
  if (is_update && std::any_of(above.begin(), above.end(), has_updated))
    return keep_for_children(link, key);
  int error= follower->follow(link, key, after ? table : nullptr);
  if (error == HA_ERR_FOUND_DUPP_KEY)
  {
    connection->duplicate_child= child->s->table_name.str;
    connection->duplicate_child_key= child->key_info[connection->duplicate_key].name.str;
    return HA_ERR_FOREIGN_DUPLICATE_KEY;
  }
  if (error == HA_ERR_ROW_IS_REFERENCED || error == HA_ERR_NO_REFERENCED_ROW)
    linking.refusing.copy(follower->linking.refusing);
  return error;
}

/* The parent of the rows under `key` was deleted, or has become the record
   of `parent`: they follow. */
int ha_holdfast::follow(const Link &link, const Bytes &key, TABLE *parent)
{
  Whole_records records(table);
  Following following(&reading.follows_link);
  reading.lock= HF_LOCK_EXCLUSIVE;
  reading.is_scan= reading.skip_locked= reading.is_semi_consistent= false;
  linking.is_known= false;
  if (int error= begin_transaction())
    return error;
  // A cursor of its own, since the chain may come to this handler again. No row that follows gets a
  // later place in its range.
  Entries entries;
  hf_code code= entries.seek(transaction(), share->table(), link.index, key, lock_of_rows());
  for (bool is_first= true;; is_first= false)
  {
    hf_slice entry, value;
    if (code == HF_OK)
      code= entries.next(&entry, &value);
    if (code != HF_OK)
      return code == HF_NOT_FOUND ? 0 : fail(code);
    if (is_first)
      mysql_query_cache_invalidate4(ha_thd(), table->s->table_cache_key.str, (uint) table->s->table_cache_key.length, true);
    if (++rows_read % ROWS_BETWEEN_LOOKS == 0 && thd_kill_level(ha_thd()))
      return HA_ERR_ABORTED_BY_USER;
    size_t prefix;
    row_key.assign(entry.data, entry.data + entry.len);
    if (link.index != 0 && !find_row_key(entry, value, &row_key, &prefix))
      return damaged();
    int error= read_by_row_key(table->record[0], HA_ERR_KEY_NOT_FOUND);
    // Further down in the chain it may have been deleted, or changed.
    if (error == HA_ERR_KEY_NOT_FOUND || (!error && !is_under(link, key)))
      continue;
    if (!error)
      error= follow_with_row(link, parent);
    if (error)
      return error;
    connection->followed++;
  }
}

/* True if the row in record[0] has an entry of `key`, which is made for the link. */
bool ha_holdfast::is_under(const Link &link, const Bytes &key)
{
  key_a.clear();
  share->keys[link.key_no].encode_record(table, table->record[0], &key_a);
  return link.is_whole ? key_a == key : key_a.size() >= key.size() && !memcmp(key_a.data(), key.data(), key.size());
}

/* True if the row in record[0] refers to the record of `parent`, or to nothing. */
bool ha_holdfast::refers_to(const Link &link, TABLE *parent)
{
  if (link.own_key.has_null(parent->record[0]))
    return true;
  if (!link.key.has_counterpart(parent, parent->record[0]))
    return false;
  Bytes key;
  link.key.encode_record(parent, parent->record[0], &key);
  return is_under(link, key);
}

/* Deletes or changes the row in record[0]. */
int ha_holdfast::follow_with_row(const Link &link, TABLE *parent)
{
  enum_fk_option action= parent ? link.reference.on_update : link.reference.on_delete;
  if (!parent && action == FK_OPTION_CASCADE)
    return delete_row_itself(table->record[0]);
  store_record(table, record[1]);
  Silent_stores silent(ha_thd());
  for (size_t i= 0; i < link.columns.size(); i++)
  {
    Field *to= table->field[link.other_columns[i]], *from= parent ? parent->field[link.columns[i]] : nullptr;
    if (action == FK_OPTION_SET_NULL || from->is_null())
    {
      if (!to->real_maybe_null())
        return refused_for(link.reference, HA_ERR_ROW_IS_REFERENCED);
      to->set_null();
      continue;
    }
    to->set_notnull();
    field_conv(to, from);
  }
  // A value may be too long for the column, or too short for a BINARY.
  if (action == FK_OPTION_CASCADE && !refers_to(link, parent))
    return refused_for(link.reference, HA_ERR_ROW_IS_REFERENCED);
  if (table->vfield && table->update_virtual_fields(this, VCOL_UPDATE_FOR_WRITE))
    return HA_ERR_GENERIC;
  return change_row(table->record[1], table->record[0]);
}

/* Rows that may be otherwise than their records

   A trigger or a function may change what a row refers to before the statement
   changes the row itself. As with InnoDB, the statement then changes what it wants of
   the row as it is by that time.

   The server computes virtual columns again for the record of a row. With another sql_mode or
   div_precision_increment it may come to other values than those by
   which the row has its entries. */

/* Puts the row that `before` was into a record, as it is now. */
int ha_holdfast::read_now(const uchar *before, Bytes *now, bool *found)
{
  if (int error= begin_transaction())
    return error;
  keep_key();
  if (share->has_primary_key())
  {
    row_key.clear();
    primary_key().encode_record(table, before, &row_key);
  }
  hf_code code= linking.row ? HF_OK : hf_buffer_new(&linking.row);
  if (code == HF_OK)
    code= hf_get(transaction(), share->table(), 0, slice(row_key), HF_LOCK_EXCLUSIVE, false, false, linking.row);
  *found= code == HF_OK;
  if (code != HF_OK)
    return fail(code, 0);
  hf_slice bytes;
  hf_buffer_bytes(linking.row, &bytes);
  now->resize(table->s->reclength);
  bool decoded= share->layout.decode(table, now->data(), bytes.data, bytes.len, true) == Row_layout::DECODED;
  return decoded ? 0 : damaged();
}

int ha_holdfast::change_row_now(const uchar *before, const uchar *after)
{
  DBUG_ASSERT(after == table->record[0]);
  Bytes now;
  bool found;
  if (int error= read_now(before, &now, &found))
    return error;
  if (!found)
    return HA_ERR_KEY_NOT_FOUND;
  if (share->layout.take_others(table, before, now.data(), table->record[0]) && table->vfield)
  {
    MY_BITMAP *read_set= table->read_set, *write_set= table->write_set;
    table->column_bitmaps_set_no_signal(&table->s->all_set, &table->s->all_set);
    int error= table->update_virtual_fields(this, VCOL_UPDATE_FOR_WRITE);
    table->column_bitmaps_set_no_signal(read_set, write_set);
    if (error)
      return HA_ERR_GENERIC;
  }
  return change_row(now.data(), after);
}

/* One that has gone with the row that it referred to is deleted. */
int ha_holdfast::delete_row_now(const uchar *record)
{
  Bytes now;
  bool found;
  if (int error= read_now(record, &now, &found))
    return error;
  if (!found)
    return may_have_followed() ? 0 : HA_ERR_KEY_NOT_FOUND;
  return delete_row_itself(now.data());
}
