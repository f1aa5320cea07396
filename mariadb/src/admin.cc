/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* CHECK TABLE and OPTIMIZE TABLE.

   A check has two parts. The engine reads every page of the file, walks every tree and looks whether the entries of the other
   indexes lead to rows. What it cannot know is checked here, at the statement's snapshot: that every row is one, that it
   has the entries which its columns give, and that there are no others. */

#include "errors.h"
#include "ha_holdfast.h"

using namespace holdfast;

/* Findings that are shown; there may be one for each row. */
static const uint MAX_FINDINGS= 20;

class Findings
{
public:
  explicit Findings(THD *thd) : thd(thd) {}

  void add(const char *what, size_t length)
  {
    if (count++ < MAX_FINDINGS)
      push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_NOT_KEYFILE, "%.*s", (int) length, what);
  }

  void add(const std::string &what)
  {
    add(what.data(), what.size());
  }

  uint count= 0;

private:
  THD *thd;
};

extern "C" void collect_finding(void *context, hf_slice finding)
{
  static_cast<Findings *>(context)->add((const char *) finding.data, finding.len);
}

/* How many entries an index has at the snapshot; negative: a server's error. */
int ha_holdfast::count_entries(uint index, ha_rows *count)
{
  static const Bytes open;
  *count= 0;
  if (int error= open_cursor(index))
    return error;
  is_scan= true;
  if (int error= seek(open, true, open, false, false))
    return error;
  for (;;)
  {
    hf_slice key, value;
    hf_code code= hf_cursor_next(cursor, &key, &value);
    if (code == HF_NOT_FOUND)
      return 0;
    if (code != HF_OK)
      return fail(code);
    ++*count;
    if (*count % 1024 == 0 && thd_kill_level(ha_thd()))
      return HA_ERR_ABORTED_BY_USER;
  }
}

/* Whether the row in record[0] has the entry of key `key_no`. */
int ha_holdfast::find_entry(uint key_no, bool *found)
{
  size_t prefix;
  make_entry(share->keys[key_no], table->record[0], row_key, &key_a, &rest_a, &prefix);
  hf_code code= hf_get(transaction(), share->table(), index_no_of(key_no), slice(key_a), HF_LOCK_NONE, false, false, row);
  *found= false;
  if (code == HF_NOT_FOUND)
    return 0;
  if (code != HF_OK)
    return fail(code);
  hf_slice value;
  hf_buffer_bytes(row, &value);
  *found= value.len == rest_a.size() && !memcmp(value.data, rest_a.data(), value.len);
  return 0;
}

/* Every row against its entries; `*rows` is their number. */
int ha_holdfast::check_rows(Findings *findings, ha_rows *rows)
{
  static const Bytes open;
  *rows= 0;
  if (int error= open_cursor(0))
    return error;
  is_scan= true;
  if (int error= seek(open, true, open, false, false))
    return error;
  for (;;)
  {
    if (thd_kill_level(ha_thd()))
      return HA_ERR_ABORTED_BY_USER;
    hf_slice key, value;
    hf_code code= hf_cursor_next(cursor, &key, &value);
    if (code == HF_NOT_FOUND)
      return 0;
    if (code != HF_OK)
      return fail(code);
    ++*rows;
    row_key.assign(key.data, key.data + key.len);
    if (share->layout.decode(table, table->record[0], value.data, value.len, true) != Row_layout::DECODED)
    {
      findings->add("row " + std::to_string(*rows) + " cannot be decoded");
      continue;
    }
    for (uint key_no= 0; key_no < table->s->keys; key_no++)
    {
      bool found= true;
      if (key_no != share->primary_key)
      {
        if (int error= find_entry(key_no, &found))
          return error;
      }
      if (!found)
        findings->add("row " + std::to_string(*rows) + " lacks its entry in index " + table->key_info[key_no].name.str);
    }
  }
}

int ha_holdfast::check_entries(Findings *findings)
{
  if (int error= begin_transaction())
    return error;
  MY_BITMAP *columns= tmp_use_all_columns(table, &table->read_set);
  ha_rows rows;
  int error= check_rows(findings, &rows);
  for (uint key_no= 0; !error && key_no < table->s->keys; key_no++)
  {
    ha_rows entries= rows;
    if (key_no != share->primary_key)
      error= count_entries(index_no_of(key_no), &entries);
    if (!error && entries != rows)
      findings->add(std::string("index ") + table->key_info[key_no].name.str + " has " + std::to_string(entries) +
                    " entries for " + std::to_string(rows) + " rows");
  }
  tmp_restore_column_map(&table->read_set, columns);
  hf_cursor_release(cursor);
  at_entry= false;
  return error;
}

int ha_holdfast::check(THD *thd, HA_CHECK_OPT *options)
{
  Findings findings(thd);
  hf_code code= hf_table_verify(database, slice(name), collect_finding, &findings);
  if (code != HF_OK)
  {
    findings.add(hf_error_message(), strlen(hf_error_message()));
    return HA_ADMIN_FAILED;
  }
  if (!findings.count && !(options->flags & T_QUICK))
  {
    int error= check_entries(&findings);
    if (error == HA_ERR_ABORTED_BY_USER)
      return HA_ADMIN_FAILED;
    if (error)
      findings.add("the rows cannot be read");
  }
  return findings.count ? HA_ADMIN_CORRUPT : HA_ADMIN_OK;
}

/* Rebuilding the table packs its pages and counts its values anew. */
int ha_holdfast::optimize(THD *, HA_CHECK_OPT *)
{
  return HA_ADMIN_TRY_ALTER;
}
