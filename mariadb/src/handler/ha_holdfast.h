/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* The handler: a table as one statement uses it.

   Index 0 of the engine's table holds the rows, under the primary key or a hidden row id; the
   others hold entries, whose key is the index key followed by the row's key. An entry's value is
   the length of the index key (LEB128), and what a covered query needs and weights cannot give
   back. Every index has versions and locks of its own, so a covered query needs no row.

   One cursor at a time. It holds no page between calls; its bytes, and with them the blobs of the
   record, are valid until the next row is read. */

#ifndef HOLDFAST_HANDLER_H
#define HOLDFAST_HANDLER_H

#include "share.h"
#include "state.h"
#include "plugin/transaction.h"

#include <functional>

/* Bytes of a key in the server's format. */
static const uint MAX_ENGINE_KEY= 3072;

class Findings;

namespace holdfast {

struct Altered;

/* Between looks at whether the query was killed. */
static const uint ROWS_BETWEEN_LOOKS= 64;

} // namespace holdfast

class ha_holdfast final : public handler
{
public:
  ha_holdfast(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) {}
  ~ha_holdfast() override;

  /* What the engine can do. */
  Table_flags table_flags() const override;
  ulong index_flags(uint index, uint part, bool all_parts) const override;
  const char *index_type(uint) override { return "BTREE"; }
  enum row_type get_row_type() const override { return ROW_TYPE_DYNAMIC; }
  uint max_supported_record_length() const override { return HA_MAX_REC_LENGTH; }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_parts() const override { return MAX_REF_PARTS; }
  uint max_supported_key_length() const override { return MAX_ENGINE_KEY; }
  uint max_supported_key_part_length() const override { return MAX_ENGINE_KEY; }
  uint lock_count() const override { return 0; }
  uint8 table_cache_type() override { return HA_CACHE_TBL_TRANSACT; }

  /* DDL. */
  int open(const char *name, int mode, uint test_if_locked) override;
  int close() override;
  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
  int delete_table(const char *name) override;
  int rename_table(const char *from, const char *to) override;
  int truncate() override;
  handler *clone(const char *name, MEM_ROOT *mem_root) override;
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info) override;
  bool can_convert_nocopy(const Field &field, const Column_definition &altered) const override;
  bool check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes) override;
  bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override;

  /* Why a cluster refuses a table was said. */
  void print_error(int error, myf flags) override
  {
    if (error != HA_ERR_UNSUPPORTED || !ha_thd()->is_error())
      handler::print_error(error, flags);
  }

  /* Statements. */
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type) override;
  int external_lock(THD *thd, int type) override;
  int start_stmt(THD *thd, thr_lock_type type) override;
  int reset() override;

  /* Reading. */
  int rnd_init(bool all_rows) override;
  int rnd_end() override
  {
    end_alone();
    return index_end();
  }
  int rnd_next(uchar *record) override;
  int rnd_pos(uchar *record, uchar *position) override;
  void position(const uchar *record) override;
  void unlock_row() override;
  void try_semi_consistent_read(bool yes) override;
  bool was_semi_consistent_read() override { return place.given_unlocked; }
  int index_init(uint index, bool sorted) override;
  int index_end() override;
  int index_read_map(uchar *record, const uchar *key, key_part_map map, enum ha_rkey_function find) override;
  int index_read_last_map(uchar *record, const uchar *key, key_part_map map) override
  {
    return index_read_map(record, key, map, HA_READ_PREFIX_LAST);
  }
  int index_next(uchar *record) override;
  int index_next_same(uchar *record, const uchar *key, uint length) override;
  int index_prev(uchar *record) override;
  int index_first(uchar *record) override;
  int index_last(uchar *record) override;
  int read_range_first(const key_range *from, const key_range *to, bool eq_range, bool sorted) override;
  int read_range_next() override;
  Item *idx_cond_push(uint index, Item *condition) override;
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *param, uint count, uint mode, HANDLER_BUFFER *buffer) override;
  int multi_range_read_next(range_id_t *range) override;
  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *param, uint count, uint *buffer_size,
                                      uint *flags, Cost_estimate *cost) override;
  ha_rows multi_range_read_info(uint index, uint count, uint keys, uint key_parts, uint *buffer_size, uint *flags,
                                Cost_estimate *cost) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t size) override;

  /* Writing. */
  int extra(enum ha_extra_function what) override;
  int write_row(const uchar *record) override;
  int update_row(const uchar *before, const uchar *after) override;
  int delete_row(const uchar *record) override;
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override;
  int reset_auto_increment(ulonglong value) override;
  void update_create_info(HA_CREATE_INFO *info) override;

  /* FOREIGN KEYs. */
  char *get_foreign_key_create_info() override;
  void free_foreign_key_create_info(char *text) override { free(text); }
  int get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  int get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  bool referenced_by_foreign_key() const noexcept override;
  bool can_switch_engines() override;
  bool get_error_message(int error, String *text) override;
  bool get_foreign_dup_key(char *child, uint child_size, char *key, uint key_size) override;

  /* Statistics. */
  int info(uint flag) override;
  ha_rows records_in_range(uint index, const key_range *min, const key_range *max, page_range *pages) override;
  double scan_time() override;
  double read_time(uint index, uint ranges, ha_rows rows) override;
  const key_map *keys_to_use_for_scanning() override { return &key_map_full; }
  int analyze(THD *thd, HA_CHECK_OPT *options) override;
  int optimize(THD *thd, HA_CHECK_OPT *options) override;
  int check(THD *thd, HA_CHECK_OPT *options) override;

private:
  holdfast::Share *get_share();
  void give_back_memory();
  int begin_statement(THD *thd);
  int begin_transaction();
  int begin_change();
  hf_transaction *transaction() { return alone ? alone : connection->transaction; }
  int begin_alone();
  int commit_alone(int error);
  void end_alone();
  const holdfast::Index_key &primary_key() const { return share->keys[share->primary_key]; }
  uint index_no_of(uint key_no) const { return share->index_no(key_no); }
  int fail(hf_code code, int not_found= HA_ERR_KEY_NOT_FOUND);
  int damaged();

  int open_cursor(uint index);
  int seek(const holdfast::Bytes &from, bool from_included, const holdfast::Bytes &to, bool to_included,
           bool backward);
  int seek_from_here(bool backward);
  int step(uchar *record, bool backward);
  void stand_beyond(bool backward);
  void find_range_end(const key_range *to);
  int within_range(int error);
  void keep_key();
  void pass_shown();
  void leave_cursor();
  bool has_shown() const { return ahead.given < ahead.count && ahead.changes == hf_cursor_changes(scan.cursor); }
  hf_code show_entries();
  hf_code next_entry(hf_slice *key, hf_slice *value);
  int fetch(uchar *record, int not_found);
  int fetch_agreeing(uchar *record, const uchar *key, uint length, enum ha_rkey_function find, int not_found);
  bool agrees(uchar *record, const uchar *key, uint length, enum ha_rkey_function find);
  int read_by_row_key(uchar *record, int not_found);
  int show_row(uchar *record, hf_slice bytes, bool head_only, int not_found);
  int show_entry(uchar *record, hf_slice key, hf_slice value);
  bool is_covered();
  bool is_cut(size_t index_key) const;
  bool decode_entry(uchar *record, hf_slice key, hf_slice value);
  int check_pushed_condition();
  bool all_columns() const;
  bool wants_heads() const;
  hf_lock lock_of_rows() const;

  int take_row_id();
  int take_references(const std::string &table, const TABLE *form, const HA_CREATE_INFO *info, holdfast::Definition *out,
                      holdfast::Reserved_names *names);
  bool can_set_auto_increment(ulonglong value);
  handler **parts();
  bool all_parts(const std::function<bool(ha_holdfast &)> &holds);
  int set_auto_increment(ulonglong value);
  int set_own_auto_increment(ulonglong value);
  int number_behind_all(ulonglong *out);
  bool can_make_anew(const Alter_inplace_info *info);
  bool alter_failed(int error);
  bool prepare_references(TABLE *altered, const Alter_inplace_info *info, holdfast::Altered *ctx);
  hf_code add_entries(const holdfast::Altered *ctx);
  bool fill_indexes(holdfast::Altered *ctx, TABLE *altered);
  bool fill_anew(const holdfast::Altered *ctx);
  int note_change(const uchar *before, const uchar *after);
  void make_entry(const holdfast::Index_key &index, const uchar *record, const holdfast::Bytes &row,
                  holdfast::Bytes *key, holdfast::Bytes *rest, size_t *prefix);
  int insert_entry(uint key_no, const uchar *record, const holdfast::Bytes &row);
  int insert_row();
  int insert_entries(const uchar *record);
  int load_entries(hf_load *to, const uchar *record);
  int load_failed(hf_load *failed, hf_code code);
  bool decode_duplicate(hf_slice bytes);
  bool can_load() const;
  int begin_copy();
  int check_copy();
  int end_copy();
  bool is_unique_in(uint key_no, const uchar *record) const
  {
    return (table->key_info[key_no].flags & HA_NOSAME) && !share->keys[key_no].has_null(record);
  }
  int change_row(const uchar *before, const uchar *after);
  int delete_row_itself(const uchar *record);
  int update_row_itself(const uchar *after);
  int update_entry(uint key_no, const uchar *before, const uchar *after);
  uint64_t begin_row();
  int undo_row(uint64_t savepoint, int error);
  int note_auto_increment();
  int note_no_number(bool is_refused);
  int keep_numbers(std::unique_lock<std::mutex> *kept);
  int check_followers(THD *thd);
  int find_links();
  int refused_for(const holdfast::Reference &reference, int error);
  int find_linked(const holdfast::Link &link, const holdfast::Bytes &key, hf_lock lock, const holdfast::Bytes *early, bool *found);
  bool get_early_entry(const holdfast::Link &link, holdfast::Bytes *entry) const;
  int check_links(const uchar *before, const uchar *after, uint last);
  int check_links_after(int error, const uchar *before, const uchar *after);
  int check_other_parents(uint key_no, const uchar *record);
  int check_own_parents(int error, const uchar *record);
  int check_parent(const holdfast::Link &link, const uchar *before, const uchar *after);
  int find_parent(const holdfast::Link &link, const uchar *record, hf_lock lock);
  int encode_linked(const holdfast::Link &link, const uchar *record, holdfast::Bytes *key);
  int act_on_children(const holdfast::Link &link, const uchar *before, const uchar *after);
  int keep_for_children(const holdfast::Link &link, const holdfast::Bytes &key);
  int change_children(const holdfast::Link &link, const holdfast::Bytes &key, const uchar *before, const uchar *after);
  int follow(const holdfast::Link &link, const holdfast::Bytes &key, TABLE *parent);
  bool is_under(const holdfast::Link &link, const holdfast::Bytes &key);
  bool refers_to(const holdfast::Link &link, TABLE *parent);
  int follow_with_row(const holdfast::Link &link, TABLE *parent);
  bool may_have_followed() const { return place.followed != connection->followed; }
  bool may_be_otherwise() const { return may_have_followed() || share->layout.keeps_virtual(); }
  int read_now(const uchar *before, holdfast::Bytes *now, bool *found);
  int change_row_now(const uchar *before, const uchar *after);
  int delete_row_now(const uchar *record);
  void range_bytes(uint index, const key_range *min, const key_range *max, holdfast::Bytes *from,
                   holdfast::Bytes *to) const;
  void show_sizes(const holdfast::Statistics &counted, uint64_t rows);
  void show_large_values();
  bool speaks_for_table();
  void set_rec_per_key(const holdfast::Statistics &counted);
  template <class Each> int each_entry(uint index, Each each);
  int each_row(const std::function<int(bool)> &each);
  int find_entry(uint key_no, bool *found);
  int sum_rows(Findings *findings, std::vector<hf_entry_sum> *given);
  int find_lacking(Findings *findings, uint key_no);
  int check_entries(Findings *findings);
  hf_code verify(Findings *findings, bool entries);

  holdfast::Share *share= nullptr;
  holdfast::Connection *connection= nullptr;
  std::string name;
  bool is_sequence= false;
  hf_transaction *alone= nullptr;     // of a sequence, while it is read or written, and of CHECK TABLE

  bool is_to_be_replaced= false;      // by a copy; `store_lock` and `start_stmt` set it
  holdfast::Reading reading;
  holdfast::Scan scan;
  holdfast::Shown_ahead ahead;
  holdfast::Place place;
  holdfast::Sought sought;
  holdfast::Range_read range_read;
  holdfast::Bytes row_key;            // of the row read, written or changed last
  hf_buffer *row= nullptr;            // that was got by its key
  holdfast::Writing writing;
  holdfast::New_row new_row;
  holdfast::Bytes key_a, key_b, rest_a, rest_b;  // entries, during a call
  holdfast::Copying copying;
  holdfast::Counting counting;
  holdfast::Linking linking;
  holdfast::Estimates estimates;
  uint rows_read= 0;                  // for ROWS_BETWEEN_LOOKS
  DsMrr_impl mrr;
};

namespace holdfast {

int drop_table(handlerton *hton, const char *path);
void drop_database(handlerton *hton, char *path);

/* 0 if the table has this version of its definition. */
int check_version(handlerton *hton, const char *path, const LEX_CUSTRING *version, ulonglong create_id);

struct Listed_table
{
  std::string name;
  bool temporary;
};

/* All tables of the engine. */
std::vector<Listed_table> all_tables();

/* Drops the temporary tables of an earlier run that was cut short. */
void drop_leftovers();

} // namespace holdfast

#endif
