/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

#include "row_format.h"

namespace holdfast {

static const uchar ROW_FORMAT= 1, ROW_WITH_TAIL= 2;

/* So long may the columns of variable length be together, and then those in the head of a row with a tail, if that can be had. */
static const size_t HEAD_BYTES= 2000;

/* What columns in the head of a row with a tail may have; the first that makes it short enough is taken. */
static const size_t LIMITS[]= {1024, 256, 64};

static const size_t NO_TAIL= SIZE_MAX;

/* Where the null bytes of a row with a tail are. */
static const size_t TAIL_FIELDS_END= 8;

void append_length(size_t n, Bytes *out)
{
  for (; n >= 0x80; n>>= 7)
    out->push_back((uchar) (n | 0x80));
  out->push_back((uchar) n);
}

bool take_length(const uchar **from, const uchar *end, size_t *n)
{
  *n= 0;
  for (uint shift= 0; *from < end && shift < 63; shift+= 7)
  {
    uchar byte= *(*from)++;
    *n|= (size_t) (byte & 0x7F) << shift;
    if (byte < 0x80)
      return true;
  }
  return false;
}

void Row_history::encode(Bytes *out) const
{
  append_length(layouts.size(), out);
  for (const Layout &layout : layouts)
  {
    append_length(layout.null_bytes, out);
    append_length(layout.first_null_bit, out);
    append_length(layout.columns, out);
  }
  append_length(defaults.size(), out);
  for (const Default &value : defaults)
  {
    append_length(value.is_null ? 0 : value.bytes.size() + 1, out);
    out->insert(out->end(), value.bytes.begin(), value.bytes.end());
  }
}

bool Row_history::decode(const uchar **from, const uchar *end)
{
  size_t n;
  if (!take_length(from, end, &n) || n > MAX_LAYOUTS)
    return false;
  layouts.resize(n);
  for (Layout &layout : layouts)
  {
    if (!take_length(from, end, &layout.null_bytes) || !take_length(from, end, &layout.first_null_bit) ||
        !take_length(from, end, &layout.columns))
      return false;
  }
  if (!take_length(from, end, &n) || n > MAX_FIELDS)
    return false;
  defaults.resize(n);
  for (Default &value : defaults)
  {
    if (!take_length(from, end, &n) || n > (size_t) (end - *from) + 1)
      return false;
    value.is_null= !n;
    if (!n)
      continue;
    value.bytes.assign((const char *) *from, n - 1);
    *from+= n - 1;
  }
  return true;
}

Row_layout::Row_layout(const TABLE *table)
  : null_bytes(table->s->null_bytes), first_null_bit(table->s->db_create_options & HA_OPTION_PACK_RECORD ? 0 : 1)
{
  columns.reserve(table->s->fields);
  for (uint i= 0; i < table->s->fields; i++)
  {
    Field *field= table->field[i];
    has_bits|= field->real_type() == MYSQL_TYPE_BIT;
    // A virtual column is computed again, unless an index needs it: then its old value has to be known.
    if (!field->stored_in_db() && !(field->flags & PART_KEY_FLAG) && field->part_of_key_not_clustered.is_clear_all())
      continue;
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
      // A character of more than one byte makes the padding long; CHAR of one byte is worth it from some length on.
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
    CHARSET_INFO *charset= table->field[column.field_no]->charset();
    memcpy(to, value, n);
    charset->fill((char *) to + n, column.width - n, ' ');
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

/* Whether so many bytes can be a value of the column. */
bool Row_layout::fits(const Column &column, size_t n)
{
  switch (column.kind) {
  case FIXED:
    return n == column.width;
  case BLOB:
    return true;
  default:
    return n <= column.width - column.length_bytes;
  }
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

/* Takes the `n` bytes of a column off the front, and puts them into the record if they are wanted. False if they are no value of it. */
inline bool Row_layout::take_value(const TABLE *table, const Column &column, uchar *record, const uchar **from, const uchar *end,
                                   size_t n, bool wanted)
{
  if (n > (size_t) (end - *from) || !fits(column, n))
    return false;
  if (wanted)
    put(table, column, record, *from, n);
  *from+= n;
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
    if (n && !column.is_in_tail(n, limit))
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

bool Row_layout::heads_do(const TABLE *table) const
{
  for (uint i : long_columns)
  {
    if (columns[i].tail_bytes() > LIMITS[0] && bitmap_is_set(table->read_set, columns[i].field_no))
      return false;
  }
  return true;
}

/* The null bytes of an older row. What they say of the columns that it lacks means nothing. */
void Row_layout::take_null_bytes(const Row_history::Layout &then, const uchar *from, uchar *record) const
{
  uint shift= then.first_null_bit > first_null_bit;
  for (size_t i= 0; i < null_bytes; i++)
  {
    uint bits= i < then.null_bytes ? from[i] : 0;
    if (i + 1 < then.null_bytes)
      bits|= from[i + 1] << 8;
    record[i]= (uchar) (bits >> shift);
  }
}

/* Gives a row that lacks column `i` the value that was the default when the column came. False if nobody knows it. */
bool Row_layout::put_default(const TABLE *table, size_t i, uchar *record, bool wanted) const
{
  size_t nth= i - history.layouts[0].columns;
  if (nth >= history.defaults.size())
    return false;
  const Row_history::Default &value= history.defaults[nth];
  const Column &column= columns[i];
  if (value.is_null ? !column.null_bit : !fits(column, value.bytes.size()))
    return false;
  if (column.null_bit)
    record[column.null_offset]&= ~column.null_bit;
  if (value.is_null)
    record[column.null_offset]|= column.null_bit;
  if (!wanted)
    return true;
  if (value.is_null)
    put_null(table, column, record);
  else
    put(table, column, record, (const uchar *) value.bytes.data(), value.bytes.size());
  return true;
}

Row_layout::Decoded Row_layout::decode(TABLE *table, uchar *record, const uchar *row, size_t length, bool all) const
{
  if (length < 2 || (row[0] != ROW_FORMAT && row[0] != ROW_WITH_TAIL) || row[1] > history.layouts.size())
    return DAMAGED;
  const uchar *from= row + 2, *end= row + length, *tail= end;
  size_t limit= NO_TAIL;
  bool is_cut= false;
  if (row[0] == ROW_WITH_TAIL)
  {
    if (length < TAIL_FIELDS_END || uint4korr(row + 4) > length)
      return DAMAGED;
    limit= uint2korr(row + 2);
    tail= row + uint4korr(row + 4);
    is_cut= tail == end;
    from= row + TAIL_FIELDS_END;
  }
  const Row_history::Layout *then= row[1] < history.layouts.size() ? &history.layouts[row[1]] : nullptr;
  size_t nulls= then ? then->null_bytes : null_bytes, there= then ? then->columns : columns.size();
  if (from > tail || nulls > (size_t) (tail - from))
    return DAMAGED;
  if (then)
    take_null_bytes(*then, from, record);
  else
    memcpy(record, from, null_bytes);
  from+= nulls;
  const uchar *head_end= tail;
  for (size_t i= 0; i < columns.size(); i++)
  {
    const Column &column= columns[i];
    if (column.run_columns > 1 && i + column.run_columns <= there)
    {
      if (column.run_width > (size_t) (head_end - from))
        return DAMAGED;
      memcpy(record + column.offset, from, column.run_width);
      from+= column.run_width;
      i+= column.run_columns - 1;
      continue;
    }
    bool wanted= all || bitmap_is_set(table->read_set, column.field_no);
    if (i >= there)
    {
      if (!put_default(table, i, record, wanted))
        return DAMAGED;
      continue;
    }
    if (column.is_null(record))
    {
      if (wanted)
        put_null(table, column, record);
      continue;
    }
    size_t n= column.width;
    if (column.kind != FIXED && !take_length(&from, head_end, &n))
      return DAMAGED;
    if (column.is_in_tail(n, limit))
    {
      if (is_cut && wanted)
        return CUT;
      if (!is_cut && !take_value(table, column, record, &tail, end, n, wanted))
        return DAMAGED;
    }
    else if (!take_value(table, column, record, &from, head_end, n, wanted))
      return DAMAGED;
  }
  return DECODED;
}

bool Row_layout::begins(const Row_layout &altered) const
{
  uint shift= first_null_bit - altered.first_null_bit;
  if (columns.size() > altered.columns.size() || shift > 1 || (shift && has_bits))
    return false;
  for (size_t i= 0; i < columns.size(); i++)
  {
    const Column &a= columns[i], &b= altered.columns[i];
    if (a.field_no != b.field_no || a.kind != b.kind || a.width != b.width || a.length_bytes != b.length_bytes ||
        !a.null_bit != !b.null_bit || (a.null_bit && a.null_bit_no() != b.null_bit_no() + shift))
      return false;
  }
  return true;
}

Row_history Row_layout::history_for(const Row_layout &altered, const TABLE *table, const uchar *record) const
{
  Row_history next= history;
  next.layouts.push_back({null_bytes, first_null_bit, columns.size()});
  next.defaults.resize(columns.size() - next.layouts[0].columns);
  for (size_t i= columns.size(); i < altered.columns.size(); i++)
  {
    const Column &column= altered.columns[i];
    if (column.is_null(record))
    {
      next.defaults.push_back({true, ""});
      continue;
    }
    size_t n;
    const uchar *value= value_of(table, column, record, &n);
    next.defaults.push_back({false, n ? std::string((const char *) value, n) : ""});
  }
  return next;
}

} // namespace holdfast
