/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

#include "share.h"
#include "definition.h"

namespace holdfast {

std::string table_name(const char *path)
{
  return path[0] == '.' && path[1] == '/' ? path + 2 : path;
}

static std::vector<Index_key> keys_of(const TABLE *table)
{
  std::vector<Index_key> keys;
  for (uint i= 0; i < table->s->keys; i++)
    keys.emplace_back(table->key_info[i]);
  return keys;
}

/* The bytes that a row's key may take of the `limit` for itself and an index key together: as many as text of its length
   usually does, a quarter of them in any case, and never so many that nothing is left for the other. */
static size_t row_key_limit(const Index_key &key, size_t limit)
{
  return MY_MIN(MY_MAX(key.usual_length() + 1, limit / 4), limit / 4 * 3);
}

Share::Share(const TABLE *table) : primary_key(table->s->primary_key), layout(table), keys(keys_of(table))
{
  uint64_t limit= 0;
  hf_key_limit(database, &limit);
  size_t row_key= ROW_ID_LENGTH;
  if (has_primary_key())
  {
    keys[primary_key].set_limit(row_key_limit(keys[primary_key], limit));
    row_key= keys[primary_key].max_length();
  }
  for (uint i= 0; i < table->s->keys; i++)
  {
    key_names.push_back(table->key_info[i].name.str);
    if (i != primary_key)
      keys[i].set_limit(limit - row_key);
    if (has_primary_key() && i != primary_key)
      keys[i].extend(table->key_info[i], table->key_info[primary_key], &keys[primary_key]);
  }
}

Share::~Share()
{
  if (open_table)
    hf_table_close(open_table);
}

hf_code Share::open(const std::string &name)
{
  if (open_table)
    return HF_OK;
  openings++;
  hf_page_size(database, &bytes_of_page);
  Definition definition;
  hf_code code= read_definition(name, &definition);
  if (code != HF_OK)
    return code;
  format_found= layout.set_history(definition.history) ? definition.format : Definition::NO_FORMAT;
  if (!load_statistics(definition))
    known= std::make_shared<Statistics>();
  code= hf_table_open(database, slice(name), &open_table);
  if (code == HF_OK)
    indexes_found= find_indexes();
  return code;
}

/* Their order is none of the server's: it sorts keys by what they are, and so otherwise when others come and go. */
bool Share::find_indexes()
{
  index_numbers.assign(keys.size(), 0);
  hf_slice name;
  uint found= 0, index= 1;
  for (; hf_index_name(open_table, index, &name) == HF_OK; index++)
  {
    std::string text((const char *) name.data, name.len);
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

bool Share::load_statistics(const Definition &definition)
{
  std::shared_ptr<Statistics> kept= std::make_shared<Statistics>();
  const uchar *from= (const uchar *) definition.statistics.data();
  if (!kept->decode(from, from + definition.statistics.size(), keys))
    return false;
  known= kept;
  return true;
}

hf_code Share::count(const Effort &effort)
{
  std::shared_ptr<Statistics> fresh= std::make_shared<Statistics>();
  hf_code code= holdfast::count(open_table, keys, index_numbers, effort, fresh.get());
  if (code == HF_OK)
    known= fresh;
  return code;
}

/* Whether so many rows are too many or too few for what was counted at `then` rows. */
static bool out_of_date(uint64_t now, uint64_t then)
{
  uint64_t change= now > then ? now - then : then - now;
  return change > then / 10 + 8;
}

std::shared_ptr<const Statistics> Share::statistics(uint64_t rows)
{
  std::lock_guard<std::mutex> guard(statistics_mutex);
  // Where counting fails, the old numbers have to do; who reads the rows will hear of it.
  if (known->leaves.empty() || out_of_date(rows, known->rows))
    count(IN_PASSING);
  return known;
}

hf_code Share::analyze(const std::string &name)
{
  std::lock_guard<std::mutex> guard(statistics_mutex);
  Definition definition;
  hf_code code= count(THOROUGH);
  if (code == HF_OK)
    code= read_definition(name, &definition);
  if (code != HF_OK)
    return code;
  Bytes bytes;
  known->encode(&bytes);
  definition.statistics.assign((const char *) bytes.data(), bytes.size());
  return write_definition(name, definition);
}

} // namespace holdfast
