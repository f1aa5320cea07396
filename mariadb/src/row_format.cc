/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

#include "row_format.h"

namespace holdfast {

static const uchar ROW_FORMAT= 1, LAYOUT_VERSION= 0;

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

Row_layout::Row_layout(const TABLE *table) : null_bytes(table->s->null_bytes)
{
  columns.reserve(table->s->fields);
  for (uint i= 0; i < table->s->fields; i++)
  {
    Field *field= table->field[i];
    // A virtual column is computed again, unless an index needs it: then its old value has to be known.
    if (!field->stored_in_db() && !(field->flags & PART_KEY_FLAG) && field->part_of_key_not_clustered.is_clear_all())
      continue;
    Column column= {i, (uint) field->offset(table->record[0]), field->pack_length(), 0, 0, FIXED, 0};
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
    columns.push_back(column);
  }
}

void Row_layout::encode(TABLE *table, const uchar *record, Bytes *out) const
{
  out->push_back(ROW_FORMAT);
  out->push_back(LAYOUT_VERSION);
  out->insert(out->end(), record, record + null_bytes);
  for (const Column &column : columns)
  {
    if (column.null_bit && (record[column.null_offset] & column.null_bit))
      continue;
    const uchar *from= record + column.offset;
    size_t n= column.width;
    switch (column.kind) {
    case FIXED:
      break;
    case CHAR:
      n= table->field[column.field_no]->charset()->lengthsp((const char *) from, n);
      append_length(n, out);
      break;
    case VARCHAR:
      n= column.length_bytes == 1 ? *from : uint2korr(from);
      from+= column.length_bytes;
      append_length(n, out);
      break;
    case BLOB:
    {
      Field_blob *blob= static_cast<Field_blob *>(table->field[column.field_no]);
      n= blob->get_length(from);
      from= blob->get_ptr(from);
      append_length(n, out);
      break;
    }
    }
    if (n)
      out->insert(out->end(), from, from + n);
  }
}

bool Row_layout::decode(TABLE *table, uchar *record, const uchar *row, size_t length, bool all) const
{
  const uchar *from= row, *end= row + length;
  if (length < 2 + null_bytes || from[0] != ROW_FORMAT || from[1] != LAYOUT_VERSION)
    return false;
  from+= 2;
  memcpy(record, from, null_bytes);
  from+= null_bytes;
  for (const Column &column : columns)
  {
    uchar *to= record + column.offset;
    bool wanted= all || bitmap_is_set(table->read_set, column.field_no);
    if (column.null_bit && (record[column.null_offset] & column.null_bit))
    {
      if (wanted)
        memcpy(to, table->s->default_values + column.offset, column.width);
      continue;
    }
    size_t n= column.width;
    if (column.kind != FIXED && !take_length(&from, end, &n))
      return false;
    if (n > (size_t) (end - from) || (column.kind != BLOB && n > column.width - column.length_bytes))
      return false;
    const uchar *value= from;
    from+= n;
    if (!wanted)
      continue;
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
  return true;
}

} // namespace holdfast
