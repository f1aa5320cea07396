/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "key_format.h"

namespace holdfast {

static const uchar NULL_VALUE= 0, NOT_NULL= 1;

/* Points a field somewhere else for as long as it lives. */
class Moved_field
{
public:
  Moved_field(Field *field_arg, const uchar *to) : field(field_arg), before(field_arg->ptr)
  {
    field->ptr= const_cast<uchar *>(to);
  }
  ~Moved_field() { field->ptr= before; }

private:
  Field *field;
  uchar *before;
};

Index_key_part::Index_key_part(const KEY_PART_INFO &info)
  : field_no(info.fieldnr - 1), offset(info.offset), length(info.length), null_offset(info.null_offset),
    null_bit(info.null_bit), invert(info.key_part_flag & HA_REVERSE_SORT ? 0xFF : 0), is_signed(false),
    fixed(0), needs_fixed(false), charset(nullptr), image_length_bytes(0), chars(0), is_char(false),
    compares_codes(false), piece(0), space_length(0), level_count(0), levels()
{
  const Field *field= info.field->table->field[field_no];
  if (!field->real_maybe_null())
    null_bit= 0;
  marks_null= null_bit != 0;
  has_rest= false;
  kind= choose_kind(field);
  is_prefix= choose_whether_prefix(field);
}

/* True if the key holds only the beginning of the column. */
bool Index_key_part::choose_whether_prefix(const Field *field) const
{
  if (!charset)
    return kind != SORTED && fixed < field->pack_length();
  return (field->real_type() == MYSQL_TYPE_VARCHAR || is_char) ? length < field->field_length : true;
}

/* True if values are compared by their bytes, and a shorter one is another one. */
bool Index_key_part::is_binary() const
{
  return kind == PLAIN ? is_char : charset == &my_charset_bin;
}

/* BINARY has one length, which a value for VARBINARY or for another BINARY need not have. */
void Index_key_part::stand_for_binary(const Index_key_part &other)
{
  kind= other.kind;
  charset= other.charset;
  level_count= other.level_count;
  chars= length;
  fixed= other.fixed;
  needs_fixed= kind == PLAIN;
}

bool Index_key_part::stand_for(const Index_key_part &other, const Field *mine, const Field *theirs)
{
  bool is_text= kind == BYTES || kind == PADDED;
  if (is_prefix || other.is_prefix)
    return false;
  if (is_binary() && other.is_binary())
    stand_for_binary(other);
  else if (kind != other.kind || charset != other.charset || is_signed != other.is_signed ||
           fixed != (is_text ? fixed : other.fixed))
    return false;
  else if (!is_text && (mine->real_type() != theirs->real_type() || mine->type_handler() != theirs->type_handler() ||
                        mine->decimals() != theirs->decimals()))
    return false;
  marks_null= other.marks_null;
  invert= other.invert;
  return true;
}

Index_key_part::Kind Index_key_part::choose_kind(const Field *field)
{
  fixed= field->pack_length();
  switch (field->real_type()) {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
    is_signed= !(field->flags & UNSIGNED_FLAG);
    return INTEGER;
  case MYSQL_TYPE_YEAR:
  case MYSQL_TYPE_ENUM:
  case MYSQL_TYPE_SET:
  case MYSQL_TYPE_NEWDATE:
    return INTEGER;
  case MYSQL_TYPE_NEWDECIMAL:
  case MYSQL_TYPE_TIMESTAMP2:
  case MYSQL_TYPE_DATETIME2:
  case MYSQL_TYPE_TIME2:
  case MYSQL_TYPE_BIT:
    return PLAIN;
  case MYSQL_TYPE_STRING:
    if (field->type_handler() == &type_handler_string)
    {
      is_char= true;
      if (field->charset() == &my_charset_bin)
      {
        fixed= length;
        return PLAIN;
      }
      choose_weights(field);
      return kind;
    }
    break;
  case MYSQL_TYPE_VARCHAR:
  case MYSQL_TYPE_BLOB:
  case MYSQL_TYPE_TINY_BLOB:
  case MYSQL_TYPE_MEDIUM_BLOB:
  case MYSQL_TYPE_LONG_BLOB:
  case MYSQL_TYPE_GEOMETRY:
    image_length_bytes= HA_KEY_BLOB_LENGTH;
    choose_weights(field);
    return kind;
  default:
    break;
  }
  has_rest= true;
  fixed= field->sort_length();
  return SORTED;
}

size_t Index_key_part::max_length() const
{
  size_t nullable= null_bit ? 1 : 0;
  size_t weights= charset && charset != &my_charset_bin ? charset->strnxfrmlen(length) : length;
  switch (kind) {
  case BYTES:
    return nullable + 2 * (weights + level_count) + (piece ? (level_count - 1) * (piece + 1) : 0);
  case PADDED:
    return nullable + (weights / piece + level_count) * (piece + 1);
  default:
    return nullable + fixed;
  }
}

size_t Index_key_part::usual_length() const
{
  if (kind != BYTES && kind != PADDED)
    return max_length();
  uchar letter[8];
  int n= charset->wc_mb('a', letter, letter + sizeof(letter));
  Bytes text, encoded;
  for (uint i= 0; i < chars && n > 0; i++)
    text.insert(text.end(), letter, letter + n);
  encode_text(text.data(), text.size(), &encoded);
  return encoded.size() + (null_bit ? 1 : 0);
}

/* Appends a value that is not null. `from` is where the column's bytes are; text is
   there without its length. */
void Index_key_part::encode_value(TABLE *table, const uchar *from, size_t n, Bytes *out) const
{
  size_t begin= out->size();
  switch (kind) {
  case INTEGER:
    out->resize(begin + fixed);
    for (uint i= 0; i < fixed; i++)
      (*out)[begin + i]= from[fixed - 1 - i];
    if (is_signed)
      (*out)[begin]^= 0x80;
    break;
  case PLAIN:
    out->insert(out->end(), from, from + fixed);
    break;
  case SORTED:
    out->resize(begin + fixed);
    if (charset)
    {
      charset->strnxfrm(out->data() + begin, fixed, chars, from, (uint) text_length(from, n),
                        MY_STRXFRM_PAD_WITH_SPACE | MY_STRXFRM_PAD_TO_MAXLEN);
    }
    else
    {
      Moved_field moved(field(table), from);
      field(table)->sort_string(out->data() + begin, fixed);
    }
    break;
  case BYTES:
  case PADDED:
    encode_text(from, n, out);
    break;
  }
}

static void invert_from(Bytes *bytes, size_t begin)
{
  for (size_t i= begin; i < bytes->size(); i++)
    (*bytes)[i]= (uchar) ~(*bytes)[i];
}

/* The text of the column in a record. */
void Index_key_part::text_of(TABLE *table, const uchar *record, const uchar **text, size_t *n) const
{
  const uchar *at= record + offset;
  *text= at;
  *n= length;
  if (!image_length_bytes)
    return;
  if (field(table)->real_type() == MYSQL_TYPE_VARCHAR)
  {
    uint length_bytes= static_cast<Field_varstring *>(field(table))->length_bytes;
    *n= length_bytes == 1 ? *at : uint2korr(at);
    *text= at + length_bytes;
    return;
  }
  Field_blob *blob= static_cast<Field_blob *>(field(table));
  *n= blob->get_length(at);
  // An empty one may have no pointer, which is nothing to ask a collation about.
  *text= *n ? blob->get_ptr(at) : at;
}

bool Index_key_part::has_counterpart(TABLE *table, const uchar *record) const
{
  if (!needs_fixed || is_null(record))
    return true;
  const uchar *from;
  size_t n;
  text_of(table, record, &from, &n);
  return n == fixed;
}

void Index_key_part::encode_record(TABLE *table, const uchar *record, Bytes *out) const
{
  size_t begin= out->size();
  if (marks_null)
    out->push_back(is_null(record) ? NULL_VALUE : NOT_NULL);
  if (!is_null(record))
  {
    const uchar *from;
    size_t n;
    text_of(table, record, &from, &n);
    encode_value(table, from, n, out);
  }
  if (invert)
    invert_from(out, begin);
}

bool Index_key_part::is_same(TABLE *table, const uchar *a, const uchar *b) const
{
  if (is_null(a) || is_null(b))
    return is_null(a) && is_null(b);
  const uchar *text_a, *text_b;
  size_t n_a, n_b;
  text_of(table, a, &text_a, &n_a);
  text_of(table, b, &text_b, &n_b);
  return n_a == n_b && !memcmp(text_a, text_b, n_a);
}

void Index_key_part::encode_image(TABLE *table, const uchar **key, Bytes *out) const
{
  size_t begin= out->size();
  const uchar *at= *key;
  bool null= false;
  if (null_bit)
  {
    null= *at++ != 0;
    out->push_back(null ? NULL_VALUE : NOT_NULL);
  }
  size_t n= length;
  if (image_length_bytes)
  {
    n= uint2korr(at);
    at+= image_length_bytes;
  }
  if (!null)
    encode_value(table, at, n, out);
  *key= at + length;
  if (invert)
    invert_from(out, begin);
}

/* Behind the weights of one level. */
const uchar *Index_key_part::skip_level(const Level &level, const uchar *from, const uchar *end) const
{
  if (level.is_padded)
  {
    while ((size_t) (end - from) > piece)
    {
      from+= piece + 1;
      if ((uchar) (from[-1] ^ invert) == REST_NONE)
        return from;
    }
    return nullptr;
  }
  for (; end - from >= 2; from++)
  {
    if ((uchar) (from[0] ^ invert) != 0)
      continue;
    if ((uchar) (from[1] ^ invert) == 0)
      return from + 2;
    from++;
  }
  return nullptr;
}

const uchar *Index_key_part::skip_value(const uchar *from, const uchar *end) const
{
  if (kind != BYTES && kind != PADDED)
    return (size_t) (end - from) >= fixed ? from + fixed : nullptr;
  for (uint i= 0; from && i < level_count; i++)
    from= skip_level(levels[i], from, end);
  return from;
}

const uchar *Index_key_part::skip(const uchar *from, const uchar *end) const
{
  if (!null_bit)
    return skip_value(from, end);
  if (from == end)
    return nullptr;
  return (uchar) (*from ^ invert) == NULL_VALUE ? from + 1 : skip_value(from + 1, end);
}

void Index_key_part::decode_integer(uchar *to, const uchar *from) const
{
  for (uint i= 0; i < fixed; i++)
    to[fixed - 1 - i]= (uchar) (from[i] ^ invert);
  if (is_signed)
    to[fixed - 1]^= 0x80;
}

/* Bytes of the column's value in a record, as `append_rest` keeps them. */
void Index_key_part::append_rest(TABLE *table, const uchar *record, Bytes *rest) const
{
  if (!has_rest || is_null(record))
    return;
  const uchar *from;
  size_t n;
  text_of(table, record, &from, &n);
  if (!charset)
    n= field(table)->pack_length();
  else if (is_char)
    n= charset->lengthsp((const char *) from, n);
  rest->push_back((uchar) n);
  rest->push_back((uchar) (n >> 8));
  rest->insert(rest->end(), from, from + n);
}

static void put_varchar(Field *field, uchar *to, const uchar *from, size_t n)
{
  uint length_bytes= static_cast<Field_varstring *>(field)->length_bytes;
  to[0]= (uchar) n;
  if (length_bytes == 2)
    to[1]= (uchar) (n >> 8);
  memcpy(to + length_bytes, from, n);
}

/* Takes the value off the front of what is kept beside the key, and puts it into the record if
   that is all of the column. */
bool Index_key_part::decode_rest(TABLE *table, uchar *to, const uchar **rest, const uchar *rest_end) const
{
  if (rest_end - *rest < 2 || rest_end - *rest - 2 < uint2korr(*rest))
    return false;
  size_t n= uint2korr(*rest);
  const uchar *value= *rest + 2;
  *rest= value + n;
  Field *column= field(table);
  if (n > (charset && !is_char ? column->field_length : column->pack_length()))
    return false;
  if (is_prefix)
    return true;
  if (image_length_bytes)
    put_varchar(column, to, value, n);
  else
  {
    memcpy(to, value, n);
    if (is_char)
      charset->fill((char *) to + n, column->field_length - n, ' ');
  }
  return true;
}

/* Puts bytes that were escaped, and end in two zeros, into the record. */
bool Index_key_part::decode_bytes(Field *column, uchar *to, const uchar *from, const uchar *end) const
{
  uchar value[MAX_KEY_LENGTH];
  size_t n= 0;
  for (; from < end - 2 && n < sizeof(value); from++)
  {
    value[n]= (uchar) (*from ^ invert);
    if (value[n++] == 0)
      from++;
  }
  if (n > column->field_length)
    return false;
  put_varchar(column, to, value, n);
  return true;
}

bool Index_key_part::decode(TABLE *table, uchar *record, const uchar **from, const uchar *end, const uchar **rest,
                      const uchar *rest_end) const
{
  const uchar *at= *from, *next= skip(at, end);
  if (!next)
    return false;
  *from= next;
  Field *column= field(table);
  uchar *to= record + offset;
  if (null_bit)
  {
    if ((uchar) (*at ^ invert) == NULL_VALUE)
    {
      record[null_offset]|= null_bit;
      memcpy(to, table->s->default_values + offset, column->pack_length());
      return true;
    }
    record[null_offset]&= (uchar) ~null_bit;
    at++;
  }
  if (has_rest)
    return decode_rest(table, to, rest, rest_end);
  if (is_prefix)
    return true;
  if (kind == BYTES)
    return decode_bytes(column, to, at, next);
  if (kind == INTEGER)
    decode_integer(to, at);
  else
  {
    for (uint i= 0; i < fixed; i++)
      to[i]= (uchar) (at[i] ^ invert);
  }
  return true;
}

} // namespace holdfast
