/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* What all handlers of a table share. */

#ifndef HOLDFAST_SHARE_H
#define HOLDFAST_SHARE_H

#include "keys/cardinality.h"
#include "ddl/definition.h"
#include "keys/key_format.h"
#include "references/links.h"
#include "row/row_format.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace holdfast {

class New_indexes;

/* The engine's name of the table that the server knows by `path`. */
std::string table_name(const char *path);

/* The engine's name of an index, which has no control characters: in place of one it has a
   character beyond those that names of the server can have. And the server's name. */
std::string index_name(const LEX_CSTRING &name);
std::string server_index_name(hf_slice name);

/* Number of the engine's index for the server's key `key_no` in a new table. Index 0 holds the
   rows, ordered by the primary key or by a hidden row id. */
inline uint first_index_no(const TABLE_SHARE *share, uint key_no)
{
  if (key_no == share->primary_key)
    return 0;
  return share->primary_key < key_no ? key_no : key_no + 1;
}

/* Keys of a table's index are cut where they would come to so many bytes. */
size_t key_limit(const TABLE *table, uint key_no);

/* Bytes of a hidden row id. */
static const uint ROW_ID_LENGTH= 8;

/* How values of AUTO_INCREMENT are taken. A statement that takes values without knowing how many
   locks the name for its time, so that they are consecutive: a replica that runs the statement
   again gets the same ones. Others lock it only while such a statement is there. */
struct Numbers
{
  std::mutex mutex;     // held for a moment, while values are taken
  uint statements= 0;   // that have the lock, or wait for it
  std::string lock;     // its name
};

/* The commits of transactions that have changed rows of a table. */
struct Commits
{
  explicit Commits(const TABLE_SHARE *table);

  std::atomic<time_t> last{0};    // when, since the table was opened; 0 if there was none
  const std::string cache_key;    // by which the server's query cache knows the table; empty if it keeps no results of it
};

class Share : public Handler_share
{
public:
  explicit Share(const TABLE *table);
  ~Share() override;

  /* Opens the engine's table, if that was not done before. */
  hf_code open(const std::string &name);

  /* Opens what is now under the name. No other session may use the table. */
  hf_code reopen(const std::string &name);

  hf_table *table() const { return open_table; }
  uint64_t page_bytes() const { return bytes_of_page; }

  /* Number of the engine's index for the server's key `key_no`: they have the same name. */
  uint index_no(uint key_no) const { return index_numbers[key_no]; }

  /* True if the engine has them all, and no others. */
  bool has_all_indexes() const { return indexes_found; }

  /* True if the server's definition is the one that the rows are kept by. Nothing is known of two
     kinds: the server changes the definition of a partitioned table without a word to the
     partitions that stay, and a file that is older than versions has none. */
  bool is_of_version() const { return version_agrees; }

  /* Of keys and rows. */
  uchar format() const { return format_found; }

  /* Changes with every opening: cursors of another one are of the table that was. */
  uint generation() const { return openings; }
  bool has_primary_key() const { return primary_key != MAX_KEY; }

  /* The statistics: those that there are, counted anew when the number of rows has changed by a
     tenth since, or so many rows have got other keys. */
  std::shared_ptr<const Statistics> statistics(uint64_t rows);

  /* So many rows were changed and have other keys now. */
  void note_moved(uint64_t rows) { rows_moved.fetch_add(rows, std::memory_order_relaxed); }

  /* Counts thoroughly, and keeps that in the catalog. */
  hf_code analyze(const std::string &name);

  /* The indexes that are being added while rows change; null if there are none. No session is in
     the middle of a statement with the table when they begin to be. */
  std::shared_ptr<const New_indexes> being_added() const
  {
    return are_indexes_added.load(std::memory_order_acquire) ? std::atomic_load(&new_indexes) : nullptr;
  }
  void set_being_added(const std::shared_ptr<const New_indexes> &indexes)
  {
    std::atomic_store(&new_indexes, indexes);
    are_indexes_added= indexes != nullptr;
  }

  /* What the table refers to and what refers to it, with definitions that stay for the statement;
     null if there is nothing. Without `wait` definitions that are being changed are an error. */
  int links(THD *thd, TABLE *table, const std::string &name, bool wait, std::shared_ptr<const Links> *out);

  /* The links, which the share has no more. */
  std::shared_ptr<const Links> give_up_links();

  /* True if anything refers to the table. */
  bool is_referenced(const std::string &name);

  const std::shared_ptr<Numbers> numbers= std::make_shared<Numbers>();

  const std::shared_ptr<Commits> commits;
  const uint primary_key;
  Row_layout layout;
  std::vector<Index_key> keys;      // by the server's key numbers

private:
  bool load_statistics(const Definition &definition);
  bool find_indexes();
  hf_code count(const Effort &effort, std::shared_ptr<const Statistics> *counted) const;
  void keep(const std::shared_ptr<const Statistics> &counted);
  bool is_out_of_date(const Statistics &counted, uint64_t rows) const;
  std::shared_ptr<const Statistics> known_statistics();
  std::shared_ptr<const Links> links_of(THD *thd, TABLE *table, const std::string &name, uint64_t version);

  /* One session counts in passing at a time, and holds it while it reads pages. ANALYZE reads many:
     it takes it only to keep what it has counted. `statistics_mutex`, taken after it, is held for a
     moment. */
  std::mutex counting;
  std::mutex statistics_mutex;
  std::shared_ptr<const Statistics> known;
  std::atomic<uint64_t> rows_moved{0};  // so far
  const std::string server_version;  // of the definition; empty if it has none
  bool version_agrees= true;
  std::vector<std::string> key_names;
  std::vector<uint> index_numbers;  // by the server's key numbers
  bool indexes_found= true;
  std::shared_ptr<const New_indexes> new_indexes;
  std::atomic<bool> are_indexes_added{false};
  std::mutex links_mutex;
  std::shared_ptr<const Links> known_links;
  std::atomic<uint64_t> unlinked_version{0};  // by which there is nothing at the other end
  std::atomic<uint64_t> known_referenced{0};  // twice the version, and 1 if by that something refers to the table
  hf_table *open_table= nullptr;
  uint openings= 0;
  uchar format_found= Definition::FORMAT;
  uint64_t bytes_of_page= 0;
};

/* Gives up the links of all tables, which are to be made anew. Links keep tables at their other
   ends open, and with them the files of those that were dropped or replaced. */
void forget_links();

} // namespace holdfast

#endif
