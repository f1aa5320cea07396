/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "definition.h"

namespace holdfast {

static const char TEMPORARY= 1;

Definition::Definition(const TABLE_SHARE *table, bool temporary) : temporary(temporary)
{
  const LEX_CUSTRING &id= table->tabledef_version;
  version.assign((const char *) id.str, id.length);
  version.resize(MY_UUID_SIZE);
}

Definition::Definition(hf_slice bytes)
{
  const uchar *at= (const uchar *) bytes.data, *end= at + bytes.len;
  format= bytes.len >= 2 + MY_UUID_SIZE ? at[0] : NO_FORMAT;
  if (!is_readable(format))
    return;
  temporary= at[1] & TEMPORARY;
  version.assign((const char *) at + 2, MY_UUID_SIZE);
  at+= 2 + MY_UUID_SIZE;
  if (!decode_history(&at, end) || (format >= FORMAT_WITH_REFERENCES && !decode_references(&at, end, &references)) ||
      (format >= FORMAT_OF_COPY && !take_text(&at, end, &replaces)))
    format= NO_FORMAT;
  statistics.assign((const char *) at, end - at);
}

/* Takes the history off the front, if the format has one. False if it
   should be there and is not. */
bool Definition::decode_history(const uchar **from, const uchar *end)
{
  if (format == FORMAT_WITH_BEGINNINGS)
    return history.decode_beginnings(from, end);
  return format < FORMAT_WITH_HISTORY || history.decode(from, end);
}

/* The least that has a place for all that there is. */
uchar Definition::format_for_bytes() const
{
  if (!replaces.empty())
    return FORMAT_OF_COPY;
  if (!references.empty())
    return FORMAT_WITH_REFERENCES;
  return history.layouts.empty() ? FORMAT : FORMAT_WITH_HISTORY;
}

std::string Definition::bytes() const
{
  uchar to= format_for_bytes();
  Bytes kept;
  if (to >= FORMAT_WITH_HISTORY)
    history.encode(&kept);
  if (to >= FORMAT_WITH_REFERENCES)
    encode_references(references, &kept);
  if (to >= FORMAT_OF_COPY)
    append_text(replaces, &kept);
  return std::string{(char) to, temporary ? TEMPORARY : (char) 0} + version +
    std::string((const char *) kept.data(), kept.size()) + statistics;
}

hf_code read_definition(const std::string &name, Definition *out)
{
  hf_buffer *buffer= nullptr;
  hf_code code= hf_buffer_new(&buffer);
  if (code == HF_OK)
    code= hf_table_definition(database, slice(name), buffer);
  if (code == HF_OK)
  {
    hf_slice bytes;
    hf_buffer_bytes(buffer, &bytes);
    *out= Definition(bytes);
  }
  hf_buffer_free(buffer);
  return code;
}

static std::mutex definitions_mutex;

Definitions::Definitions() : alone(definitions_mutex) {}

hf_code Definitions::write()
{
  return hf_tables_set_definitions(database, all(), count());
}

void Definitions::add(const std::string &table, const Definition &definition)
{
  kept.emplace_back(table, definition.bytes());
}

hf_code Definitions::add(const std::string &table, const References &references, const std::string &kept_for,
                         const std::string &version)
{
  Definition definition;
  hf_code code= read_definition(table, &definition);
  if (code != HF_OK)
    return code;
  definition.references= references;
  definition.replaces.clear();
  if (!version.empty())
    definition.version= version;
  add(kept_for, definition);
  return HF_OK;
}

const hf_definition *Definitions::all()
{
  slices.clear();
  for (const auto &one : kept)
    slices.push_back({slice(one.first), slice(one.second)});
  return slices.data();
}

} // namespace holdfast
