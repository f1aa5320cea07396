/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* CHECK TABLE and OPTIMIZE TABLE.

   A check has two parts. The engine reads every page of the file and walks every tree. What it
   cannot know is checked here, at one snapshot: that every row is one, that it has the entries
   which its columns give, and that there are no others. The entries that the rows give are summed
   up, and those that are there; so nothing is looked up unless something is wrong. */

#include "plugin/errors.h"
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

static bool operator==(const hf_entry_sum &a, const hf_entry_sum &b)
{
  return a.count == b.count && a.hashes == b.hashes;
}

/* Goes through what an index has at the snapshot. `each` is given keys and values; what it returns,
   if not 0, is the end of it. */
template <class Each> int ha_holdfast::each_entry(uint index, Each each)
{
  static const Bytes open;
  if (int error= open_cursor(index))
    return error;
  reading.is_scan= true;
  // All columns are looked at.
  reading.heads_refused= true;
  if (int error= seek(open, true, open, false, false))
    return error;
  for (uint n= 0;; n++)
  {
    if (n % 1024 == 0 && thd_kill_level(ha_thd()))
      return HA_ERR_ABORTED_BY_USER;
    hf_slice key, value;
    hf_code code= hf_cursor_next(scan.cursor, &key, &value);
    if (code == HF_NOT_FOUND)
      return 0;
    if (int error= fail(code))
      return error;
    if (int error= each(key, value))
      return error;
  }
}

/* Goes through the rows. `each` finds the row in record[0] and its key in row_key, and is told
   whether it could be decoded. */
int ha_holdfast::each_row(const std::function<int(bool)> &each)
{
  return each_entry(0, [&](const hf_slice &key, const hf_slice &value) {
    row_key.assign(key.data, key.data + key.len);
    auto decoded= share->layout.decode(table, table->record[0], value.data, value.len, true);
    return each(decoded == Row_layout::DECODED);
  });
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

/* The entries that the rows give, of every index. */
int ha_holdfast::sum_rows(Findings *findings, std::vector<hf_entry_sum> *given)
{
  ha_rows rows= 0;
  return each_row([&](bool decoded) {
    rows++;
    if (!decoded)
    {
      findings->add("row " + std::to_string(rows) + " cannot be decoded");
      return 0;
    }
    for (uint key_no= 0; key_no < table->s->keys; key_no++)
    {
      if (key_no == share->primary_key)
        continue;
      size_t prefix;
      make_entry(share->keys[key_no], table->record[0], row_key, &key_a, &rest_a, &prefix);
      hf_entry_sum_add(&(*given)[key_no], slice(key_a), slice(rest_a));
    }
    return 0;
  });
}

/* Which rows lack their entry in an index. */
int ha_holdfast::find_lacking(Findings *findings, uint key_no)
{
  ha_rows rows= 0;
  return each_row([&](bool decoded) {
    bool found= true;
    rows++;
    int error= decoded ? find_entry(key_no, &found) : 0;
    if (!error && !found)
      findings->add("row " + std::to_string(rows) + " lacks its entry in index " + table->key_info[key_no].name.str);
    return error;
  });
}

/* Rows and entries each in one scan; only where they do not agree, entry by entry. A transaction
   of the check reads all of them, without locks: those that SERIALIZABLE or LOCK TABLES ask for
   would wait for other transactions. The statement has committed what its session had begun, so
   nothing of that is missed. */
int ha_holdfast::check_entries(Findings *findings)
{
  if (int error= begin_alone())
    return error;
  const hf_lock lock= reading.lock;
  reading.lock= HF_LOCK_NONE;
  MY_BITMAP *columns= tmp_use_all_columns(table, &table->read_set);
  std::vector<hf_entry_sum> given(table->s->keys);
  int error= sum_rows(findings, &given);
  bool agree= true;
  for (uint key_no= 0; !error && key_no < table->s->keys; key_no++)
  {
    if (key_no == share->primary_key)
      continue;
    hf_entry_sum there= {0, 0};
    error= each_entry(index_no_of(key_no), [&](const hf_slice &key, const hf_slice &value) {
      hf_entry_sum_add(&there, key, value);
      return 0;
    });
    if (error || there == given[key_no])
      continue;
    agree= false;
    findings->add("the " + std::to_string(there.count) + " entries of index " + table->key_info[key_no].name.str +
                  " are not those of the " + std::to_string(given[key_no].count) + " rows");
    error= find_lacking(findings, key_no);
  }
  tmp_restore_column_map(&table->read_set, columns);
  end_alone();
  reading.lock= lock;
  reading.heads_refused= false;
  return error || agree ? error : fail(verify(findings, true));
}

/* What the engine knows: pages and trees, and if `entries`, whether those of
   other indexes lead to rows. */
hf_code ha_holdfast::verify(Findings *findings, bool entries)
{
  return hf_table_verify(database, slice(name), entries, collect_finding, findings);
}

int ha_holdfast::check(THD *thd, HA_CHECK_OPT *options)
{
  Findings findings(thd);
  hf_code code= verify(&findings, false);
  if (code == HF_INTERRUPTED)
    return HA_ADMIN_FAILED;
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
    // The check's snapshot was given up: that says nothing about the table.
    if (error == HA_ERR_TABLE_DEF_CHANGED && !findings.count)
    {
      findings.add("the rows were not all compared with their index entries: versions of rows that the check needs reached "
                   "holdfast_version_limit; check again, or start the server with a higher limit");
      return HA_ADMIN_FAILED;
    }
    if (error && error != HA_ERR_TABLE_DEF_CHANGED)
      findings.add("the rows cannot be read");
  }
  return findings.count ? HA_ADMIN_CORRUPT : HA_ADMIN_OK;
}

/* Rebuilding the table packs its pages and counts its values anew. */
int ha_holdfast::optimize(THD *, HA_CHECK_OPT *)
{
  return HA_ADMIN_TRY_ALTER;
}
