/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Whole keys: their parts one behind the other, and behind those the primary key's. */

#include "key_format.h"

#include <mysql/service_sha2.h>

namespace holdfast {

/* Of SHA-256, and how much of it stands at the end of a key that was cut. */
static const size_t SHA256_LENGTH= 32, HASH_LENGTH= 16;

Index_key::Index_key(const KEY &info)
{
  parts.reserve(info.user_defined_key_parts);
  for (uint i= 0; i < info.user_defined_key_parts; i++)
    parts.emplace_back(info.key_part[i]);
}

static KEY_PART_INFO whole_column(Field *field)
{
  KEY_PART_INFO info= {};
  info.field= field;
  info.fieldnr= (uint16) (field->field_index + 1);
  info.offset= field->offset(field->table->record[0]);
  info.length= (uint16) field->key_length();
  info.null_bit= field->null_bit;
  info.null_offset= field->null_bit ? field->null_offset() : 0;
  return info;
}

Index_key::Index_key(const std::vector<Field *> &columns)
{
  for (Field *column : columns)
    parts.emplace_back(whole_column(column));
}

bool Index_key::is_cut_within(size_t length) const
{
  return length + HASH_LENGTH > limit;
}

bool Index_key::stand_for(const std::vector<Field *> &columns, const KEY &info)
{
  *this= Index_key(columns);
  if (columns.size() > info.user_defined_key_parts)
    return false;
  for (size_t i= 0; i < columns.size(); i++)
  {
    if (!parts[i].stand_for(Index_key_part(info.key_part[i]), columns[i], info.key_part[i].field))
      return false;
  }
  return true;
}

bool Index_key::has_counterpart(TABLE *table, const uchar *record) const
{
  for (const Index_key_part &part : parts)
  {
    if (!part.has_counterpart(table, record))
      return false;
  }
  return true;
}

void Index_key::extend(const KEY &info, const KEY &primary_info, const Index_key *primary_arg)
{
  primary= primary_arg;
  for (const Index_key_part &part : primary->parts)
    place_known= place_known && (part.has_whole_column() || has_whole_column(part.column()));
  uint offset= 0;
  for (uint i= 0; i < info.ext_key_parts; i++)
  {
    image_offsets.push_back(offset);
    offset+= info.key_part[i].store_length;
  }
  for (uint i= 0; i < primary_info.user_defined_key_parts; i++)
  {
    const KEY_PART_INFO &wanted= primary_info.key_part[i];
    uint at= 0;
    while (at < info.ext_key_parts &&
           (info.key_part[at].fieldnr != wanted.fieldnr || info.key_part[at].length != wanted.length))
      at++;
    if (at == info.ext_key_parts)
      return;
    primary_parts.push_back(at);
  }
}

/* True if entries have all of the column as a part of this key. */
bool Index_key::has_whole_column(uint column) const
{
  for (const Index_key_part &part : parts)
  {
    if (part.column() == column && part.has_whole_column())
      return true;
  }
  return false;
}

bool Index_key::has_only_beginning(const MY_BITMAP *columns) const
{
  for (const Index_key_part &part : parts)
  {
    if (!part.has_whole_column() && bitmap_is_set(columns, part.column()) && !has_whole_column(part.column()) &&
        !(primary && primary->has_whole_column(part.column())))
      return true;
  }
  return false;
}

/* Cuts the key from `begin` on if it is too long; of one that is not whole yet only the beginning
   stays. Returns the end of the bytes that have the order of values, or `UNCUT`: where the key
   itself is not cut, longer ones that begin like it have their hash there. */
size_t Index_key::cut(Bytes *out, size_t begin, bool whole) const
{
  size_t length= out->size() - begin;
  if (!is_cut_within(length))
    return UNCUT;
  size_t ordered= begin + limit - HASH_LENGTH;
  if (length < limit)
    return ordered;
  uchar hash[SHA256_LENGTH];
  my_sha256(hash, (const char *) out->data() + begin, length);
  out->resize(ordered);
  if (whole)
    out->insert(out->end(), hash, hash + HASH_LENGTH);
  return ordered;
}

void Index_key::encode_record(TABLE *table, const uchar *record, Bytes *out) const
{
  size_t begin= out->size();
  for (const Index_key_part &part : parts)
    part.encode_record(table, record, out);
  cut(out, begin, true);
}

bool Index_key::is_same(TABLE *table, const uchar *a, const uchar *b) const
{
  for (const Index_key_part &part : parts)
  {
    if (!part.is_same(table, a, b))
      return false;
  }
  return true;
}

size_t Index_key::encode_image(TABLE *table, const uchar *key, key_part_map map, Bytes *out) const
{
  const uchar *at= key;
  size_t begin= out->size(), i= 0;
  for (; i < parts.size() && (map >> i & 1); i++)
    parts[i].encode_image(table, &at, out);
  size_t ordered= cut(out, begin, i == parts.size());
  if (i < parts.size() || !primary)
    return ordered;
  begin= out->size();
  for (i= 0; i < primary_parts.size() && (map >> primary_parts[i] & 1); i++)
  {
    at= key + image_offsets[primary_parts[i]];
    primary->parts[i].encode_image(table, &at, out);
  }
  return MY_MIN(ordered, primary->cut(out, begin, i == primary->parts.size()));
}

bool Index_key::decode(TABLE *table, uchar *record, const uchar **from, const uchar *end, const uchar **rest,
                 const uchar *rest_end) const
{
  for (const Index_key_part &part : parts)
  {
    if (!part.decode(table, record, from, end, rest, rest_end))
      return false;
  }
  return true;
}

void Index_key::append_rest(TABLE *table, const uchar *record, Bytes *rest) const
{
  for (const Index_key_part &part : parts)
    part.append_rest(table, record, rest);
}

size_t Index_key::end_of(const uchar *entry, size_t length, size_t wanted) const
{
  const uchar *at= entry, *end= entry + length;
  for (size_t i= 0; i < wanted && i < parts.size(); i++)
  {
    at= parts[i].skip(at, end);
    if (!at)
      return length;
  }
  return (size_t) (at - entry);
}

bool Index_key::has_null(const uchar *record) const
{
  for (const Index_key_part &part : parts)
  {
    if (part.is_null(record))
      return true;
  }
  return false;
}

size_t Index_key::max_length() const
{
  size_t sum= 0;
  for (const Index_key_part &part : parts)
    sum+= part.max_length();
  return MY_MIN(sum, limit);
}

size_t Index_key::usual_length() const
{
  size_t sum= 0;
  for (const Index_key_part &part : parts)
    sum+= part.usual_length();
  return sum;
}

bool Index_key::is_fixed() const
{
  for (const Index_key_part &part : parts)
  {
    if (!part.is_fixed())
      return false;
  }
  return true;
}

void step_over_prefix(Bytes *key)
{
  while (!key->empty() && key->back() == 0xFF)
    key->pop_back();
  if (!key->empty())
    key->back()++;
}

} // namespace holdfast
