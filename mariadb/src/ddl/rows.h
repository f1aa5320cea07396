/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* The rows of a table that is altered. */

#ifndef HOLDFAST_ROWS_H
#define HOLDFAST_ROWS_H

#include "plugin/errors.h"
#include "plugin/transaction.h"

namespace holdfast {

/* All rows of a table as they are now, in a transaction of its own. */
class Rows
{
public:
  ~Rows()
  {
    hf_cursor_close(cursor);
    hf_transaction_free(transaction);
    hf_buffer_free(row);
  }

  hf_code open(const hf_table *from, bool heads)
  {
    table= from;
    hf_transaction_options options;
    options.struct_size= sizeof(options);
    options.isolation= HF_ISOLATION_REPEATABLE_READ;
    options.snapshot_isolation= false;
    options.read_only= true;
    hf_code code= hf_begin(database, &options, &transaction);
    if (code == HF_OK)
      code= hf_cursor_open(table, 0, &cursor);
    if (code == HF_OK)
      code= hf_buffer_new(&row);
    hf_seek all= {slice("", 0), slice("", 0), true, true, false, false, true, heads, false, HF_LOCK_NONE};
    return code == HF_OK ? hf_cursor_seek(cursor, transaction, &all) : code;
  }

  hf_code next(hf_slice *key, hf_slice *value) { return told(hf_cursor_next(cursor, key, value)); }

  hf_code get(const Bytes &key, hf_slice *value)
  {
    hf_code code= hf_get(transaction, table, 0, slice(key), HF_LOCK_NONE, false, false, row);
    return code == HF_OK ? hf_buffer_bytes(row, value) : told(code);
  }

private:
  /* The transaction is not the connection's, whose errors tell more. */
  hf_code told(hf_code code)
  {
    if (code == HF_SNAPSHOT_TOO_OLD)
      say_given_up(transaction);
    return code;
  }

  const hf_table *table= nullptr;
  hf_transaction *transaction= nullptr;
  hf_cursor *cursor= nullptr;
  hf_buffer *row= nullptr;
};

} // namespace holdfast

#endif
