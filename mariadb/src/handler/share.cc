/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "share.h"
#include "ddl/definition.h"

#include <algorithm>
#include <set>

namespace holdfast {

/* Those with links. Lock order: this mutex, then that of a share's links. */
static std::mutex linked_mutex;
static std::set<Share *> linked;

std::string table_name(const char *path)
{
  return path[0] == '.' && path[1] == '/' ? path + 2 : path;
}

/* Control characters, and the first two bytes of what stands for them: characters from U+F0000 on,
   which have four bytes. */
static const uchar CONTROL_END= 0x20, DELETE= 0x7F, UPPER_CONTROL= 0xC2, UPPER_CONTROL_END= 0xA0, STANDS_FOR[]= {0xF3, 0xB0};

std::string index_name(const LEX_CSTRING &name)
{
  std::string out;
  for (size_t i= 0; i < name.length; i++)
  {
    uchar c= (uchar) name.str[i], next= i + 1 < name.length ? (uchar) name.str[i + 1] : 0;
    bool is_upper= c == UPPER_CONTROL && next < UPPER_CONTROL_END;
    if (c >= CONTROL_END && c != DELETE && !is_upper)
    {
      out.push_back((char) c);
      continue;
    }
    if (is_upper)
    {
      c= next;
      i++;
    }
    out.append((const char *) STANDS_FOR, sizeof(STANDS_FOR));
    out.push_back((char) (0x80 | c >> 6));
    out.push_back((char) (0x80 | (c & 0x3F)));
  }
  return out;
}

std::string server_index_name(hf_slice name)
{
  std::string out;
  for (size_t i= 0; i < name.len; i++)
  {
    if (name.len - i < 4 || memcmp(name.data + i, STANDS_FOR, sizeof(STANDS_FOR)))
    {
      out.push_back((char) name.data[i]);
      continue;
    }
    uchar c= (uchar) ((name.data[i + 2] & 0x3F) << 6 | (name.data[i + 3] & 0x3F));
    if (c > DELETE)
      out.push_back((char) UPPER_CONTROL);
    out.push_back((char) c);
    i+= 3;
  }
  return out;
}

static std::vector<Index_key> keys_of(const TABLE *table)
{
  std::vector<Index_key> keys;
  for (uint i= 0; i < table->s->keys; i++)
    keys.emplace_back(table->key_info[i]);
  return keys;
}

/* The bytes that a row's key may take of the `limit` for itself and an index key together: as many
   as text of its length usually does, a quarter of them in any case, and never so many that
   nothing is left for the other. */
static size_t row_key_limit(const Index_key &key, size_t limit)
{
  return MY_MIN(MY_MAX(key.usual_length() + 1, limit / 4), limit / 4 * 3);
}

size_t key_limit(const TABLE *table, uint key_no)
{
  uint64_t limit= 0;
  hf_key_limit(database, &limit);
  uint primary_key= table->s->primary_key;
  if (primary_key == MAX_KEY)
    return limit - ROW_ID_LENGTH;
  Index_key row_key(table->key_info[primary_key]);
  row_key.set_limit(row_key_limit(row_key, limit));
  return key_no == primary_key ? row_key.cut_at() : limit - row_key.max_length();
}

/* The version of the server's definition of a table; none if the table is partitioned, or its
   file is too old to have one. */
static std::string version_of(const TABLE_SHARE *share)
{
  bool is_partitioned= share->partition_info_str_len != 0;
  return share->tabledef_version.length && !is_partitioned ? Definition(share, false).version : "";
}

Commits::Commits(const TABLE_SHARE *table)
  : cache_key(table->table_cache_key.str, table->tmp_table == NO_TMP_TABLE ? table->table_cache_key.length : 0) {}

Share::Share(const TABLE *table)
  : commits(std::make_shared<Commits>(table->s)), primary_key(table->s->primary_key), layout(table), keys(keys_of(table)),
    server_version(version_of(table->s))
{
  for (uint i= 0; i < table->s->keys; i++)
  {
    key_names.push_back(table->key_info[i].name.str);
    keys[i].set_limit(key_limit(table, i));
    if (has_primary_key() && i != primary_key)
      keys[i].extend(table->key_info[i], table->key_info[primary_key], &keys[primary_key]);
  }
}

Share::~Share()
{
  {
    std::lock_guard<std::mutex> guard(linked_mutex);
    linked.erase(this);
  }
  if (open_table)
    hf_table_close(open_table);
}

hf_code Share::open(const std::string &name)
{
  if (open_table)
    return HF_OK;
  openings++;
  numbers->lock= "AUTO_INCREMENT of " + name;
  hf_page_size(database, &bytes_of_page);
  Definition definition;
  hf_code code= read_definition(name, &definition);
  if (code != HF_OK)
    return code;
  version_agrees= server_version.empty() || definition.version == server_version;
  format_found= layout.set_history(definition.history) ? definition.format : Definition::NO_FORMAT;
  if (!load_statistics(definition))
    known= std::make_shared<Statistics>();
  code= hf_table_open(database, slice(name), &open_table);
  if (code == HF_OK)
    indexes_found= find_indexes();
  return code;
}

/* Their order is none of the server's: it sorts keys by what they are, and so
   otherwise when others come and go. */
bool Share::find_indexes()
{
  index_numbers.assign(keys.size(), 0);
  hf_slice name;
  uint found= 0, index= 1;
  for (; hf_index_name(open_table, index, &name) == HF_OK; index++)
  {
    std::string text= server_index_name(name);
    for (uint i= 0; i < keys.size(); i++)
    {
      if (i == primary_key || my_strcasecmp(system_charset_info, key_names[i].c_str(), text.c_str()))
        continue;
      index_numbers[i]= index;
      found++;
    }
  }
  return found == index - 1 && found == keys.size() - (has_primary_key() ? 1 : 0);
}

hf_code Share::reopen(const std::string &name)
{
  hf_table_close(open_table);
  open_table= nullptr;
  return open(name);
}

/* The tables at the other ends of links. */
static std::vector<std::string> other_ends(const std::string &name)
{
  std::vector<std::string> others;
  for (const Reference &reference : references_of(name))
    others.push_back(reference.parent);
  for (const Reference &reference : references_to(name))
    others.push_back(reference.child);
  others.erase(std::remove(others.begin(), others.end(), name), others.end());
  return others;
}

int Share::links(THD *thd, TABLE *table, const std::string &name, bool wait, std::shared_ptr<const Links> *out)
{
  if (unlinked_version.load(std::memory_order_acquire) == references_version())
  {
    out->reset();
    return 0;
  }
  for (;;)
  {
    uint64_t version= references_version();
    // For this statement alone: a session that deletes a parent later finds the child, and waits.
    if (!keep_definitions(thd, other_ends(name), MDL_SHARED_HIGH_PRIO, MDL_STATEMENT, wait))
      return HA_ERR_LOCK_WAIT_TIMEOUT;
    // What has changed in the meantime may lead to other tables.
    if (version != references_version())
      continue;
    *out= links_of(thd, table, name, version);
    if ((*out)->is_empty())
    {
      unlinked_version= version;
      out->reset();
    }
    return 0;
  }
}

/* The links by this version of the references. The tables at the other ends stay as they are for
   the statement. */
std::shared_ptr<const Links> Share::links_of(THD *thd, TABLE *table, const std::string &name, uint64_t version)
{
  {
    std::lock_guard<std::mutex> guard(links_mutex);
    if (known_links && known_links->version == version)
      return known_links;
  }
  std::shared_ptr<const Links> made= make_links(thd, table, name, version);
  std::lock_guard<std::mutex> guard(linked_mutex);
  linked.insert(this);
  std::lock_guard<std::mutex> alone(links_mutex);
  known_links= made;
  return made;
}

std::shared_ptr<const Links> Share::give_up_links()
{
  std::lock_guard<std::mutex> guard(links_mutex);
  return std::move(known_links);
}

void forget_links()
{
  // The last user of a file removes it, which takes time: without the mutex.
  std::vector<std::shared_ptr<const Links>> given_up;
  std::lock_guard<std::mutex> guard(linked_mutex);
  for (Share *share : linked)
    given_up.push_back(share->give_up_links());
  linked.clear();
}

bool Share::is_referenced(const std::string &name)
{
  uint64_t version= references_version(), known= known_referenced.load(std::memory_order_relaxed);
  if (known >> 1 == version)
    return known & 1;
  bool referenced= !references_to(name).empty();
  known_referenced= version << 1 | referenced;
  return referenced;
}

bool Share::load_statistics(const Definition &definition)
{
  std::shared_ptr<Statistics> kept= std::make_shared<Statistics>();
  const uchar *from= (const uchar *) definition.statistics.data();
  if (!kept->decode(from, from + definition.statistics.size(), keys))
    return false;
  known= kept;
  return true;
}

hf_code Share::count(const Effort &effort, std::shared_ptr<const Statistics> *counted) const
{
  std::shared_ptr<Statistics> fresh= std::make_shared<Statistics>();
  fresh->moved= rows_moved;
  *counted= fresh;
  return holdfast::count(open_table, keys, index_numbers, effort, fresh.get());
}

/* The caller holds `counting`. */
void Share::keep(const std::shared_ptr<const Statistics> &counted)
{
  std::lock_guard<std::mutex> guard(statistics_mutex);
  known= counted;
}

std::shared_ptr<const Statistics> Share::known_statistics()
{
  std::lock_guard<std::mutex> guard(statistics_mutex);
  return known;
}

/* True if there are too many or too few rows by now for what was counted, or too many have got
   other keys. In a small table, where wrong numbers do little harm, all may have. */
bool Share::is_out_of_date(const Statistics &counted, uint64_t rows) const
{
  static const uint64_t FEW_ROWS= 8, FEW_MOVED= 200;
  uint64_t then= counted.rows, change= rows > then ? rows - then : then - rows;
  return counted.leaves.empty() || change > then / 10 + FEW_ROWS || rows_moved - counted.moved > then / 10 + FEW_MOVED;
}

/* Sessions go on by the old numbers while one counts. */
std::shared_ptr<const Statistics> Share::statistics(uint64_t rows)
{
  std::shared_ptr<const Statistics> now= known_statistics();
  if (!is_out_of_date(*now, rows))
    return now;
  std::unique_lock<std::mutex> alone(counting, std::defer_lock);
  if (now->leaves.empty())
    alone.lock();
  else if (!alone.try_lock())
    return now;
  now= known_statistics();
  // Where counting fails, the old numbers have to do; a reader of the rows gets the error.
  std::shared_ptr<const Statistics> counted;
  if (is_out_of_date(*now, rows) && count(IN_PASSING, &counted) == HF_OK)
    keep(counted);
  return known_statistics();
}

hf_code Share::analyze(const std::string &name)
{
  std::shared_ptr<const Statistics> counted;
  if (hf_code code= count(THOROUGH, &counted); code != HF_OK)
    return code;
  {
    // Numbers that are being counted in passing are kept before these, which are better.
    std::lock_guard<std::mutex> alone(counting);
    keep(counted);
  }
  Definitions changed;
  Definition definition;
  if (hf_code code= read_definition(name, &definition); code != HF_OK)
    return code;
  Bytes bytes;
  counted->encode(&bytes);
  definition.statistics.assign((const char *) bytes.data(), bytes.size());
  changed.add(name, definition);
  return changed.write();
}

} // namespace holdfast
