/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "row_format.h"

namespace holdfast {

static const uchar ROW_FORMAT= 1, ROW_WITH_TAIL= 2;

/* So long may the columns of variable length be together, and then those in the head of a row with
   a tail, if that can be had. */
static const size_t HEAD_BYTES= 2000;

/* What columns in the head of a row with a tail may have; the first that makes
   it short enough is taken. */
static const size_t LIMITS[]= {1024, 256, 64};

static const size_t NO_TAIL= SIZE_MAX;

/* Where the null bytes of a row with a tail are. */
static const size_t TAIL_FIELDS_END= 8;

/* True if a value of so many bytes is in the tail of a row that has one. */
static inline bool is_in_tail(Column_kind kind, size_t n, size_t limit)
{
  return n > limit && (kind == VARCHAR || kind == BLOB);
}

Row_layout::Row_layout(const TABLE *table)
  : null_bytes(table->s->null_bytes), first_null_bit(table->s->db_create_options & HA_OPTION_PACK_RECORD ? 0 : 1)
{
  columns.reserve(table->s->fields);
  for (uint i= 0; i < table->s->fields; i++)
  {
    Field *field= table->field[i];
    // A virtual column is computed again, unless an index needs it: then its old value has to be
    // known.
    if (!field->stored_in_db() && !(field->flags & PART_KEY_FLAG) && field->part_of_key_not_clustered.is_clear_all())
      continue;
    has_virtual= has_virtual || !field->stored_in_db();
    Column column= {i, (uint) field->offset(table->record[0]), field->pack_length(), 0, 0, FIXED, 0, 0, 0};
    if (field->real_maybe_null())
    {
      column.null_offset= field->null_offset();
      column.null_bit= field->null_bit;
    }
    switch (field->real_type()) {
    case MYSQL_TYPE_VARCHAR:
      column.kind= VARCHAR;
      column.length_bytes= static_cast<Field_varstring *>(field)->length_bytes;
      break;
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
    case MYSQL_TYPE_GEOMETRY:
    case MYSQL_TYPE_BLOB_COMPRESSED:
      column.kind= BLOB;
      break;
    case MYSQL_TYPE_STRING:
      // A character of more than one byte makes the padding long; CHAR of one byte is worth it from
      // some length on.
      if (field->type_handler() == &type_handler_string && field->charset() != &my_charset_bin &&
          column.width > 4)
        column.kind= CHAR;
      break;
    default:
      break;
    }
    if (field->real_type() == MYSQL_TYPE_VARCHAR_COMPRESSED)
    {
      column.kind= VARCHAR;
      column.length_bytes= static_cast<Field_varstring *>(field)->length_bytes;
    }
    if (column.tail_bytes() > LIMITS[array_elements(LIMITS) - 1])
      long_columns.push_back((uint) columns.size());
    columns.push_back(column);
  }
  find_runs();
}

/* A table may have hundreds of numbers that are not NULL: they are copied as one. */
void Row_layout::find_runs()
{
  for (size_t i= columns.size(); i-- > 0;)
  {
    Column &column= columns[i];
    if (!column.is_always_fixed())
      continue;
    column.run_columns= 1;
    column.run_width= column.width;
    if (i + 1 == columns.size())
      continue;
    const Column &next= columns[i + 1];
    if (next.run_columns && next.offset == column.offset + column.width)
    {
      column.run_columns+= next.run_columns;
      column.run_width+= next.run_width;
    }
  }
}

const uchar *Row_layout::value_of(const TABLE *table, const Column &column, const uchar *record, size_t *n)
{
  const uchar *from= record + column.offset;
  *n= column.width;
  switch (column.kind) {
  case FIXED:
    break;
  case CHAR:
    *n= table->field[column.field_no]->charset()->lengthsp((const char *) from, *n);
    break;
  case VARCHAR:
    *n= column.length_bytes == 1 ? *from : uint2korr(from);
    from+= column.length_bytes;
    break;
  case BLOB:
  {
    Field_blob *blob= static_cast<Field_blob *>(table->field[column.field_no]);
    *n= blob->get_length(from);
    from= blob->get_ptr(from);
    break;
  }
  }
  return from;
}

void Row_layout::put(const TABLE *table, const Column &column, uchar *record, const uchar *value, size_t n)
{
  uchar *to= record + column.offset;
  switch (column.kind) {
  case FIXED:
    memcpy(to, value, n);
    break;
  case CHAR:
  {
    memcpy(to, value, n);
    if (n < column.width)
      table->field[column.field_no]->charset()->fill((char *) to + n, column.width - n, ' ');
    break;
  }
  case VARCHAR:
    to[0]= (uchar) n;
    if (column.length_bytes == 2)
      to[1]= (uchar) (n >> 8);
    memcpy(to + column.length_bytes, value, n);
    break;
  case BLOB:
  {
    uint packed= column.width - portable_sizeof_char_ptr;
    for (uint i= 0; i < packed; i++)
      to[i]= (uchar) (n >> (8 * i));
    memcpy(to + packed, &value, sizeof(value));
    break;
  }
  }
}

void Row_layout::put_null(const TABLE *table, const Column &column, uchar *record)
{
  memcpy(record + column.offset, table->s->default_values + column.offset, column.width);
}

/* From how many bytes on columns of the row in `record` are to be in its tail. */
size_t Row_layout::tail_limit(const TABLE *table, const uchar *record) const
{
  size_t limit= NO_TAIL;
  for (size_t next : LIMITS)
  {
    size_t in_head= 0;
    for (uint i : long_columns)
    {
      const Column &column= columns[i];
      size_t n;
      if (!column.is_null(record) && (value_of(table, column, record, &n), n <= limit))
        in_head+= n;
    }
    if (in_head <= HEAD_BYTES)
      break;
    limit= next;
  }
  return limit;
}

/* Takes the `n` bytes of a column off the front, and puts them into the record if they are wanted.
   False if they are no value of it. */
inline bool Row_layout::take_value(const TABLE *table, const Column &column, uchar *record, Values values, size_t n,
                                   bool wanted)
{
  if (n > (size_t) (values.end - *values.from) || !fits(column, n))
    return false;
  if (wanted)
    put(table, column, record, *values.from, n);
  *values.from+= n;
  return true;
}

size_t Row_layout::encode(TABLE *table, const uchar *record, Bytes *out) const
{
  size_t limit= tail_limit(table, record);
  bool has_tail= limit != NO_TAIL;
  out->assign({has_tail ? ROW_WITH_TAIL : ROW_FORMAT, (uchar) history.layouts.size()});
  if (has_tail)
    out->resize(TAIL_FIELDS_END);
  out->insert(out->end(), record, record + null_bytes);
  for (size_t i= 0; i < columns.size(); i++)
  {
    const Column &column= columns[i];
    if (column.run_columns)
    {
      out->insert(out->end(), record + column.offset, record + column.offset + column.run_width);
      i+= column.run_columns - 1;
      continue;
    }
    if (column.is_null(record))
      continue;
    size_t n;
    const uchar *from= value_of(table, column, record, &n);
    if (column.kind != FIXED)
      append_length(n, out);
    if (n && !is_in_tail(column.kind, n, limit))
      out->insert(out->end(), from, from + n);
  }
  if (!has_tail)
    return 0;
  size_t head= out->size();
  int2store(out->data() + 2, limit);
  int4store(out->data() + 4, head);
  for (uint i : long_columns)
  {
    size_t n;
    const uchar *from= value_of(table, columns[i], record, &n);
    if (!columns[i].is_null(record) && n > limit)
      out->insert(out->end(), from, from + n);
  }
  return head;
}

bool Row_layout::is_same(const TABLE *table, const uchar *a, const uchar *b) const
{
  for (size_t i= 0; i < columns.size(); i++)
  {
    const Column &column= columns[i];
    bool is_run= column.run_columns != 0;
    if (is_run ? memcmp(a + column.offset, b + column.offset, column.run_width) : !is_same_value(table, column, a, b))
      return false;
    i+= is_run ? column.run_columns - 1 : 0;
  }
  return true;
}

bool Row_layout::is_same_value(const TABLE *table, const Column &column, const uchar *a, const uchar *b)
{
  if (column.is_null(a) || column.is_null(b))
    return column.is_null(a) && column.is_null(b);
  const uchar *value_a= a + column.offset, *value_b= b + column.offset;
  size_t n_a= column.width, n_b= n_a;
  // A CHAR has its spaces in both.
  if (column.kind == VARCHAR || column.kind == BLOB)
  {
    value_a= value_of(table, column, a, &n_a);
    value_b= value_of(table, column, b, &n_b);
  }
  return n_a == n_b && (value_a == value_b || !n_a || !memcmp(value_a, value_b, n_a));
}

bool Row_layout::take_others(const TABLE *table, const uchar *before, const uchar *now, uchar *after) const
{
  bool taken= false;
  for (const Column &column : columns)
  {
    // A virtual column follows from the others.
    if (!table->field[column.field_no]->stored_in_db() || is_same_value(table, column, before, now) ||
        !is_same_value(table, column, before, after))
      continue;
    column.set_null(after, column.is_null(now));
    memcpy(after + column.offset, now + column.offset, column.width);
    taken= true;
  }
  return taken;
}

bool Row_layout::heads_do(const TABLE *table) const
{
  for (uint i : long_columns)
  {
    if (columns[i].tail_bytes() > LIMITS[0] && bitmap_is_set(table->read_set, columns[i].field_no))
      return false;
  }
  return true;
}

/* Takes columns off the front that lie in each row as they do in the record.
   False if they are not there. */
inline bool Row_layout::take_run(const Column &column, uchar *record, Rest *row)
{
  if (column.run_width > (size_t) (row->head_end - row->from))
    return false;
  memcpy(record + column.offset, row->from, column.run_width);
  row->from+= column.run_width;
  return true;
}

/* Takes a column that is not NULL off the front. */
inline Row_layout::Decoded Row_layout::take_column(const TABLE *table, const Column &column, uchar *record, Rest *row, bool wanted)
{
  size_t n= column.width;
  if (column.kind != FIXED && !take_length(&row->from, row->head_end, &n))
    return DAMAGED;
  if (!is_in_tail(column.kind, n, row->limit))
    return take_value(table, column, record, {&row->from, row->head_end}, n, wanted) ? DECODED : DAMAGED;
  if (row->is_cut)
    return wanted ? CUT : DECODED;
  return take_value(table, column, record, {&row->tail, row->end}, n, wanted) ? DECODED : DAMAGED;
}

/* The number of the last column of the table that is to be read; -1 if none is. */
static int last_to_read(const TABLE *table)
{
  const MY_BITMAP *columns= table->read_set;
  for (uint word= no_words_in_map(columns); word-- > 0;)
  {
    if (my_bitmap_map bits= columns->bitmap[word])
      return (int) (word * my_bitmap_map_bits) + 63 - __builtin_clzll(bits);
  }
  return -1;
}

Row_layout::Decoded Row_layout::decode(TABLE *table, uchar *record, const uchar *row, size_t length, bool all) const
{
  if (length < 2 || (row[0] != ROW_FORMAT && row[0] != ROW_WITH_TAIL) || row[1] > history.layouts.size())
    return DAMAGED;
  const uchar *end= row + length;
  Rest rest= {row + 2, end, end, end, NO_TAIL, false};
  if (row[0] == ROW_WITH_TAIL)
  {
    if (length < TAIL_FIELDS_END || uint4korr(row + 4) > length || uint4korr(row + 4) < TAIL_FIELDS_END)
      return DAMAGED;
    rest.limit= uint2korr(row + 2);
    rest.head_end= rest.tail= row + uint4korr(row + 4);
    rest.is_cut= rest.tail == end;
    rest.from= row + TAIL_FIELDS_END;
  }
  if (row[1] < history.layouts.size())
    return decode_older(table, record, history.layouts[row[1]], rest, all);
  if (null_bytes > (size_t) (rest.head_end - rest.from))
    return DAMAGED;
  memcpy(record, rest.from, null_bytes);
  rest.from+= null_bytes;
  int last= all ? INT_MAX : last_to_read(table);
  for (size_t i= 0; i < columns.size(); i++)
  {
    const Column &column= columns[i];
    if ((int) column.field_no > last)
      return DECODED;
    if (column.run_columns > 1)
    {
      if (!take_run(column, record, &rest))
        return DAMAGED;
      i+= column.run_columns - 1;
      continue;
    }
    bool wanted= all || bitmap_is_set(table->read_set, column.field_no);
    if (column.is_null(record))
    {
      if (wanted)
        put_null(table, column, record);
      continue;
    }
    Decoded decoded= take_column(table, column, record, &rest, wanted);
    if (decoded != DECODED)
      return decoded;
  }
  return is_used_up(rest) ? DECODED : DAMAGED;
}

/* Rows of older layouts */

/* Gives a row the value of a column that it lacks. */
void Row_layout::put_default(const TABLE *table, const Row_history::Default &value, uchar *record, bool all) const
{
  const Column &column= columns[value.column];
  column.set_null(record, value.is_null);
  if (!all && !bitmap_is_set(table->read_set, column.field_no))
    return;
  if (value.is_null)
    put_null(table, column, record);
  else
    put(table, column, record, (const uchar *) value.bytes.data(), value.bytes.size());
}

/* Takes a column that is gone, and was not NULL, off the front. False if there is none. */
bool Row_layout::pass_over(const Row_history::Run &gone, Rest *row)
{
  size_t n= gone.width;
  if (gone.kind != FIXED && !take_length(&row->from, row->head_end, &n))
    return false;
  bool in_tail= is_in_tail(gone.kind, n, row->limit);
  if (in_tail && row->is_cut)
    return true;
  const uchar **from= in_tail ? &row->tail : &row->from;
  if (n > (size_t) ((in_tail ? row->end : row->head_end) - *from))
    return false;
  *from+= n;
  return true;
}

/* Takes a run of columns that are there off the front. */
Row_layout::Decoded Row_layout::take_older(const TABLE *table, uchar *record, const Row_history::Run &run, const Older_nulls &nulls,
                                           Rest *row, bool all) const
{
  for (uint i= run.first, end= run.first + run.columns; i < end; i++)
  {
    const Column &column= columns[i];
    if (column.run_columns > 1 && i + column.run_columns <= end)
    {
      if (!take_run(column, record, row))
        return DAMAGED;
      i+= column.run_columns - 1;
      continue;
    }
    bool wanted= all || bitmap_is_set(table->read_set, column.field_no);
    bool is_null= column.null_bit && nulls.is_null(run, null_bit_from_first(column));
    column.set_null(record, is_null);
    if (is_null)
    {
      if (wanted)
        put_null(table, column, record);
      continue;
    }
    Decoded decoded= take_column(table, column, record, row, wanted);
    if (decoded != DECODED)
      return decoded;
  }
  return DECODED;
}

Row_layout::Decoded Row_layout::decode_older(const TABLE *table, uchar *record, const Row_history::Layout &then, Rest row,
                                             bool all) const
{
  if (then.null_bytes > (size_t) (row.head_end - row.from))
    return DAMAGED;
  Older_nulls nulls= {row.from, then.first_null_bit};
  row.from+= then.null_bytes;
  memcpy(record, table->s->default_values, null_bytes);
  for (uint i : then.lacking)
    put_default(table, history.defaults[i], record, all);
  for (const Row_history::Run &run : then.runs)
  {
    if (run.first == Row_history::GONE)
    {
      if (!nulls.is_null(run, 0) && !pass_over(run, &row))
        return DAMAGED;
      continue;
    }
    Decoded decoded= take_older(table, record, run, nulls, &row, all);
    if (decoded != DECODED)
      return decoded;
  }
  return is_used_up(row) ? DECODED : DAMAGED;
}

} // namespace holdfast
