/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* What a handler keeps between calls, by purpose. "Until the statement ends" is until
   `ha_holdfast::reset`. */

#ifndef HOLDFAST_HANDLER_STATE_H
#define HOLDFAST_HANDLER_STATE_H

#include "share.h"
#include "references/links.h"

namespace holdfast {

/* How the statement reads. */
struct Reading
{
  /* `store_lock` sets it, `external_lock` raises it for a statement that writes, `start_stmt` sets
     it for a statement within one; a clone has that of its original, a handler that follows a
     reference HF_LOCK_EXCLUSIVE, CHECK TABLE HF_LOCK_NONE while it reads. */
  hf_lock lock= HF_LOCK_NONE;
  /* What `store_lock` and `external_lock` have made of it: the statement around, or LOCK TABLES. */
  hf_lock outer_lock= HF_LOCK_NONE;
  /* What is read is read for the row that it refers to: set while a `Following` lives. */
  bool follows_link= false;
  /* Rows that others have locked are passed over. Set with `lock`. */
  bool skip_locked= false;
  /* A scan of rows does not wait for those that are locked, until the server finds that they
     matter. `try_semi_consistent_read` sets it, the end of the statement clears it. */
  bool is_semi_consistent= false;
  /* The cache is told that the pages are those of a scan. CHECK TABLE sets it, the next scan or
     index read clears it. */
  bool is_scan= false;
  /* The head of a row did not do: whole rows are read until the statement ends. */
  bool heads_refused= false;
  /* The server wants the columns of the index and of the primary key only. `extra` sets and clears
     it, the end of the statement clears it. The second handler of a multi-range read, which finds
     the rows that the first one reads, is told so by nothing else;
     `index_init` makes that known. */
  bool keys_only= false;

  void end_statement() { is_semi_consistent= heads_refused= keys_only= false; }
};

/* The cursor and what it was told. `open_cursor` opens it, or keeps it if it is on the same index
   and the table is the same; `seek`, and a read by the whole primary key, set what is below
   `generation`; the cursor is closed with the table. */
struct Scan
{
  hf_cursor *cursor= nullptr;
  /* The index, and the generation of the table that it was opened on. */
  uint index= 0, generation= 0;
  bool is_backward= false;
  /* It shows the heads of rows. */
  bool heads_only= false;
  /* It locks what it reads. */
  bool locks= false;
  /* Its range ends before its index does: what comes behind has to be sought. The caller of `seek`
     sets it before. */
  bool is_bounded= false;
};

/* Entries that the cursor has shown ahead, in its memory. `show_entries` asks for them,
   `pass_shown` drops those that are not given and tells the cursor how many are. Invariants: given
   <= count <= MAX; one is given only while `changes` is the cursor's number of changes; a cursor
   that locks shows none. */
struct Shown_ahead
{
  static constexpr size_t MAX= 32;
  hf_entry entries[MAX];
  /* Those before `given` have been given. */
  size_t given= 0, count= 0;
  /* How many were asked for last: twice as many the next time if all have been given. */
  size_t asked= 1;
  /* The changes of the transaction when they were shown. */
  uint64_t changes= 0;
};

/* Where the index that is read stands. */
enum Position
{
  /* The cursor stands nowhere: a read that goes on seeks behind `Place::entry_key`. So it is after
     `open_cursor`, and at the end of the statement or of the cursor's transaction, where an end of
     the index stays one. */
  NOWHERE,
  /* The cursor stands at the entry read last, by `fetch`. */
  AT_ENTRY,
  /* The index stands at a row that was got by its primary key; the cursor stands nowhere. `seek`
     ends it. */
  AT_ROW,
  /* The index has come to an end, by `stand_beyond`. `seek_from_here` ends it. */
  BEFORE_ALL,
  BEHIND_ALL
};

struct Place
{
  Position position= NOWHERE;
  /* The cursor's statement has ended: it stands nowhere, and a read that goes on seeks behind
     `entry_key`. `leave_cursor` sets it, `seek` clears it. */
  bool is_left= false;
  /* The row read last was got by its key, and locked by that: `unlock_row` has to unlock it beside
     the entry. `read_by_row_key` sets it, `fetch` clears it for the next entry. */
  bool row_was_got= false;
  /* What that read has added to the row's lock. Other handlers may read rows before `unlock_row`
     gives it up: the condition that the row does not fulfil may read tables. */
  hf_release release= HF_RELEASE_NOTHING;
  /* `Connection::followed` when the row was read last. */
  uint64_t followed= 0;
  /* The row read last is locked by others, and was given without a lock:
     `Reading::is_semi_consistent`. `next_entry` sets it; the next read, `unlock_row` and the end of
     the statement clear it. */
  bool given_unlocked= false;
  /* The key of the entry where the index stands. */
  Bytes entry_key;
  /* If not null: `entry_key`, and with index 0 the handler's `row_key`, are still to be this one,
     which is in the memory of the cursor. `fetch` sets it, `keep_key` copies it; before that
     neither of the two is read. */
  hf_slice key_in_cursor= {nullptr, 0};

  bool is_beyond() const { return position == BEFORE_ALL || position == BEHIND_ALL; }
  /* The cursor stands at no entry from now on. */
  void leave_entry()
  {
    if (position == AT_ENTRY)
      position= NOWHERE;
  }
  /* The index stands at no row that was got by its key from now on. */
  void leave_row()
  {
    if (position == AT_ROW)
      position= NOWHERE;
  }
  void end_statement()
  {
    leave_entry();
    leave_row();
    given_unlocked= false;
  }
};

/* The key that `index_read_map` looks for. */
struct Sought
{
  /* The key, and the end of all keys that begin with it. */
  Bytes lower, upper;
  /* It was cut: the cursor meets other keys, too. Each search of an index sets it. */
  bool is_loose= false;
};

/* The range that `read_range_first` has begun, as long as the server has `end_range`. */
struct Range_read
{
  /* The first key behind it. */
  Bytes end;
  /* Its first row is being looked for. */
  bool is_begun= false;
  /* `end` was cut: what comes behind an entry that is too great may be in the range. */
  bool is_end_loose= false;
};

/* The row that is written, as the engine has it: of one call. */
struct New_row
{
  Bytes key;
  Bytes bytes;
  /* The length of its head, in `bytes`. */
  size_t head= 0;
};

/* What the statement does to rows. */
struct Writing
{
  /* It has changed rows, and the connection knows it. */
  bool has_changed= false;
  /* The lock of the row that has the key of a new one: exclusive where that row is going to be
     replaced or changed. `extra` sets it. */
  hf_lock duplicate_lock= HF_LOCK_SHARED;
  /* Rows that were changed and have other keys now: of the table's statistics, at the end of the
     statement. */
  uint64_t rows_moved= 0;

  void end_statement() { *this= Writing(); }
};

/* The target of a copy (ALTER TABLE), while the server fills it: from HA_EXTRA_BEGIN_COPY to
   HA_EXTRA_END_COPY or HA_EXTRA_ABORT_COPY. */
struct Copying
{
  /* Stays until the statement ends: an error message may show bytes of it. */
  hf_load *load= nullptr;
  /* Rows go to `load`, which is not null then; else they are inserted. */
  bool is_loading= false;

  void end_statement()
  {
    hf_load_free(load);
    *this= Copying();
  }
};

/* The numbers that AUTO_INCREMENT gives to the statement. `get_auto_increment` sets them. */
struct Counting
{
  /* Rows of the statement that may still want a number; 0 until the first has asked. `write_row`
     counts them down, the end of the statement clears them. */
  ulonglong rows= 0;
  /* The series of the number that was asked for last. It stays for later statements, whose rows may
     bring their numbers. */
  ulonglong offset= 0, increment= 1;
  /* The statement has asked for a number: `get_auto_increment` sets it, the end of the statement
     clears it. */
  bool has_taken= false;
  /* Why there is no number: `write_row` returns it in place of the server's error, and clears it
     before the next row. */
  int error= 0;

  void end_statement()
  {
    rows= 0;
    has_taken= false;
  }
};

/* FOREIGN KEYs of the table and to it. */
struct Linking
{
  /* Null if there are none, and between statements: links keep the files of other tables. Of the
     statement if `is_known`, and not older than `version` of all references; `find_links` sets all
     three, the end of the statement clears the first two. */
  std::shared_ptr<const Links> links;
  bool is_known= false;
  uint64_t version= 0;
  /* The reference for which a row was refused last, in words, for the server's message. */
  String refusing;
  /* The row that the statement changes, as it is since it has followed another one. */
  hf_buffer *row= nullptr;

  void end_statement()
  {
    links.reset();
    is_known= false;
  }
};

/* What `info` has told the optimiser. */
struct Estimates
{
  /* Of rows. */
  ulonglong leaf_pages= 0;
  /* What the others come from. */
  std::shared_ptr<const Statistics> source;
};

} // namespace holdfast

#endif
