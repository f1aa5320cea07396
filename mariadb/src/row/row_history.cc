/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "row_format.h"

#include <algorithm>

namespace holdfast {

/* Of a layout, with the bit that the server may set in front of them. */
static const size_t MAX_NULL_BYTES= MAX_FIELDS / 8 + 1;

/* Takes a number off the front; false if there is none that is `most` or less. */
static bool take_number(const uchar **from, const uchar *end, size_t most, uint *out)
{
  size_t n;
  if (!take_length(from, end, &n) || n > most)
    return false;
  *out= (uint) n;
  return true;
}

static void append_nulls(const Row_history::Run &run, Bytes *out)
{
  if (run.nulls != Row_history::HAD_BITS)
    return append_length(run.nulls, out);
  size_t shift= run.null_shift < 0 ? 2 * (size_t) -run.null_shift - 1 : 2 * (size_t) run.null_shift;
  append_length(Row_history::HAD_BITS + shift, out);
}

static bool take_nulls(const uchar **from, const uchar *end, Row_history::Run *run)
{
  uint n;
  if (!take_number(from, end, Row_history::HAD_BITS + 2 * MAX_FIELDS, &n))
    return false;
  run->nulls= (Row_history::Null_bits) MY_MIN(n, (uint) Row_history::HAD_BITS);
  uint shift= n - run->nulls;
  run->null_shift= shift & 1 ? -(int) (shift / 2) - 1 : (int) (shift / 2);
  return true;
}

static void append_run(const Row_history::Run &run, Bytes *out)
{
  if (run.first != Row_history::GONE)
  {
    append_length(run.first + 1, out);
    append_length(run.columns, out);
  }
  else
  {
    append_length(0, out);
    out->push_back(run.kind);
    if (run.kind == FIXED)
      append_length(run.width, out);
  }
  append_nulls(run, out);
}

static bool take_run(const uchar **from, const uchar *end, Row_history::Run *run)
{
  uint first, kind;
  *run= {Row_history::GONE, 1, Row_history::NO_NULLS, 0, FIXED, 0};
  if (!take_number(from, end, MAX_FIELDS, &first))
    return false;
  if (first)
  {
    run->first= first - 1;
    return take_number(from, end, MAX_FIELDS, &run->columns) && take_nulls(from, end, run);
  }
  if (!take_number(from, end, BLOB, &kind))
    return false;
  run->kind= (Column_kind) kind;
  return (kind != FIXED || take_number(from, end, MAX_FIELD_VARCHARLENGTH, &run->width)) && take_nulls(from, end, run);
}

/* Takes what a layout begins with off the front, and the number of what follows. */
static bool take_layout(const uchar **from, const uchar *end, Row_history::Layout *layout, uint *following)
{
  return take_number(from, end, MAX_NULL_BYTES, &layout->null_bytes) && take_number(from, end, 1, &layout->first_null_bit) &&
    take_number(from, end, MAX_FIELDS, following);
}

static void append_value(const Row_history::Default &value, Bytes *out)
{
  append_length(value.is_null ? 0 : value.bytes.size() + 1, out);
  out->insert(out->end(), value.bytes.begin(), value.bytes.end());
}

static bool take_value(const uchar **from, const uchar *end, Row_history::Default *value)
{
  size_t n;
  if (!take_length(from, end, &n) || n > (size_t) (end - *from) + 1)
    return false;
  value->is_null= !n;
  if (n)
    value->bytes.assign((const char *) *from, n - 1);
  *from+= n ? n - 1 : 0;
  return true;
}

/* True if null bits that are told so can be those of the other columns, too. */
static bool agree(const Row_history::Run &a, const Row_history::Run &b)
{
  return a.nulls == b.nulls && a.null_shift == b.null_shift;
}

void Row_history::Layout::append(const Run &run)
{
  Run *last= runs.empty() ? nullptr : &runs.back();
  bool goes_on= last && last->first != GONE && run.first != GONE && last->first + last->columns == run.first &&
    (last->nulls == NO_NULLS || run.nulls == NO_NULLS || agree(*last, run));
  if (!goes_on)
  {
    runs.push_back(run);
    return;
  }
  last->columns+= run.columns;
  if (last->nulls == NO_NULLS)
  {
    last->nulls= run.nulls;
    last->null_shift= run.null_shift;
  }
}

bool Row_history::is_too_long() const
{
  size_t runs= 0;
  for (const Layout &layout : layouts)
    runs+= layout.runs.size();
  return layouts.size() > MAX_LAYOUTS || runs > MAX_RUNS;
}

void Row_history::encode(Bytes *out) const
{
  append_length(layouts.size(), out);
  for (const Layout &layout : layouts)
  {
    append_length(layout.null_bytes, out);
    append_length(layout.first_null_bit, out);
    append_length(layout.runs.size(), out);
    for (const Run &run : layout.runs)
      append_run(run, out);
  }
  append_length(defaults.size(), out);
  for (const Default &value : defaults)
  {
    append_length(value.column, out);
    append_value(value, out);
  }
}

/* Takes the layouts off the front. How the runs of one are told, behind their number,
   is `take_runs`'s to know. */
template <typename Take_runs> bool Row_history::decode_layouts(const uchar **from, const uchar *end, Take_runs take_runs)
{
  uint n;
  if (!take_number(from, end, MAX_LAYOUTS, &n))
    return false;
  layouts.resize(n);
  for (Layout &layout : layouts)
  {
    if (!take_layout(from, end, &layout, &n) || !take_runs(n, &layout.runs))
      return false;
  }
  return true;
}

bool Row_history::decode(const uchar **from, const uchar *end)
{
  auto take_runs= [&](uint n, std::vector<Run> *runs)
  {
    runs->resize(n);
    return std::all_of(runs->begin(), runs->end(), [&](Run &run) { return take_run(from, end, &run); });
  };
  uint n;
  if (!decode_layouts(from, end, take_runs) || !take_number(from, end, MAX_FIELDS, &n))
    return false;
  defaults.resize(n);
  for (Default &value : defaults)
  {
    if (!take_number(from, end, MAX_FIELDS, &value.column) || !take_value(from, end, &value))
      return false;
  }
  return true;
}

bool Row_history::decode_beginnings(const uchar **from, const uchar *end)
{
  auto one_run= [](uint n, std::vector<Run> *runs)
  {
    runs->push_back({0, n, HAD_BITS, 0, FIXED, 0});
    return true;
  };
  uint n;
  if (!decode_layouts(from, end, one_run))
    return false;
  uint first= layouts.empty() ? 0 : layouts[0].runs[0].columns;
  if (!take_number(from, end, MAX_FIELDS, &n))
    return false;
  defaults.resize(n);
  for (Default &value : defaults)
  {
    value.column= first++;
    if (!take_value(from, end, &value))
      return false;
  }
  return true;
}

/* The history of a layout */

static const uint NONE= UINT_MAX;

/* The number of the column with a number of the table's; NONE if no row has it. */
uint Row_layout::column_no(uint field_no) const
{
  auto at= std::lower_bound(columns.begin(), columns.end(), field_no,
                            [](const Column &column, uint no) { return column.field_no < no; });
  return at != columns.end() && at->field_no == field_no ? (uint) (at - columns.begin()) : NONE;
}

/* True if the value can be one of its column. */
bool Row_layout::is_possible(const Row_history::Default &value) const
{
  if (value.column >= columns.size())
    return false;
  const Column &column= columns[value.column];
  return value.is_null ? column.null_bit != 0 : fits(column, value.bytes.size());
}

/* True if the columns are there, and rows have their null bits. */
bool Row_layout::is_possible(const Row_history::Layout &then, const Row_history::Run &run) const
{
  auto has_bit= [&](uint from_first)
  {
    longlong no= (longlong) then.first_null_bit + from_first + run.null_shift;
    return run.nulls != Row_history::HAD_BITS || (no >= 0 && no < (longlong) then.null_bytes * 8);
  };
  if (run.first == Row_history::GONE)
    return has_bit(0);
  if (run.columns > columns.size() || run.first > columns.size() - run.columns)
    return false;
  for (uint i= run.first; i < run.first + run.columns; i++)
  {
    if (columns[i].null_bit && !has_bit(null_bit_from_first(columns[i])))
      return false;
  }
  return true;
}

/* Finds the defaults of the columns that the layout does not have. False if one of them has none,
   or a column is there twice. */
bool Row_layout::find_lacking(const std::vector<uint> &default_of, Row_history::Layout *then) const
{
  std::vector<bool> has(columns.size());
  for (const Row_history::Run &run : then->runs)
  {
    for (uint i= run.first; run.first != Row_history::GONE && i < run.first + run.columns; i++)
    {
      if (has[i])
        return false;
      has[i]= true;
    }
  }
  then->lacking.clear();
  for (uint i= 0; i < columns.size(); i++)
  {
    if (!has[i] && default_of[i] == NONE)
      return false;
    if (!has[i])
      then->lacking.push_back(default_of[i]);
  }
  return true;
}

bool Row_layout::set_history(const Row_history &known)
{
  Row_history next= known;
  std::vector<uint> default_of(columns.size(), NONE);
  for (uint i= 0; i < next.defaults.size(); i++)
  {
    if (!is_possible(next.defaults[i]))
      return false;
    default_of[next.defaults[i].column]= i;
  }
  for (Row_history::Layout &layout : next.layouts)
  {
    for (const Row_history::Run &run : layout.runs)
    {
      if (!is_possible(layout, run))
        return false;
    }
    if (!find_lacking(default_of, &layout))
      return false;
  }
  history= std::move(next);
  return true;
}

/* The history of an altered table */

bool Row_layout::Column::can_become(const Column &altered) const
{
  if (kind != altered.kind || (null_bit && !altered.null_bit))
    return false;
  // Values of a VARCHAR have lengths of their own.
  return kind == VARCHAR ? tail_bytes() <= altered.tail_bytes() : width == altered.width;
}

bool Row_layout::can_become(const Row_layout &altered, const Sources &sources) const
{
  for (const Column &column : altered.columns)
  {
    uint source= sources[column.field_no];
    if (source == NEW_COLUMN)
      continue;
    uint from= column_no(source);
    if (from == NONE || !columns[from].can_become(column))
      return false;
  }
  return !history_for(altered, sources).is_too_long();
}

/* The numbers in `altered` of the columns of this layout; GONE if they are not there. */
std::vector<uint> Row_layout::columns_in(const Row_layout &altered, const Sources &sources) const
{
  std::vector<uint> becomes(columns.size(), Row_history::GONE);
  for (uint i= 0; i < altered.columns.size(); i++)
  {
    uint from= column_no(sources[altered.columns[i].field_no]);
    if (from != NONE)
      becomes[from]= i;
  }
  return becomes;
}

/* A run of the one column that is number `column` now, and becomes number `becomes` of `altered`.
   It is in rows as `run` says, of which it is a part. */
Row_history::Run Row_layout::run_in(const Row_layout &altered, const Row_history::Run &run, uint column, uint becomes) const
{
  const Column &was= columns[column];
  bool had_bit= was.null_bit && run.nulls == Row_history::HAD_BITS;
  int lay_at= had_bit ? run.null_shift + (int) null_bit_from_first(was) : 0;
  Row_history::Null_bits nulls= had_bit ? Row_history::HAD_BITS : Row_history::NEVER_NULL;
  if (becomes == Row_history::GONE)
    return {becomes, 1, nulls, lay_at, was.kind, was.width};
  const Column &now= altered.columns[becomes];
  if (!now.null_bit)
    return {becomes, 1, Row_history::NO_NULLS, 0, FIXED, 0};
  return {becomes, 1, nulls, had_bit ? lay_at - (int) altered.null_bit_from_first(now) : 0, FIXED, 0};
}

Row_history Row_layout::history_for(const Row_layout &altered, const Sources &sources) const
{
  Row_history next;
  std::vector<uint> becomes= columns_in(altered, sources);
  std::vector<Row_history::Layout> known= history.layouts;
  known.push_back({null_bytes, first_null_bit, {{0, (uint) columns.size(), Row_history::HAD_BITS, 0, FIXED, 0}}, {}});
  for (const Row_history::Layout &layout : known)
  {
    next.layouts.push_back({layout.null_bytes, layout.first_null_bit, {}, {}});
    for (const Row_history::Run &run : layout.runs)
    {
      if (run.first == Row_history::GONE)
        next.layouts.back().append(run);
      for (uint i= run.first; run.first != Row_history::GONE && i < run.first + run.columns; i++)
        next.layouts.back().append(run_in(altered, run, i, becomes[i]));
    }
  }
  for (const Row_history::Default &value : history.defaults)
  {
    if (becomes[value.column] != Row_history::GONE)
      next.defaults.push_back({becomes[value.column], value.is_null, value.bytes});
  }
  return next;
}

void Row_layout::add_defaults(const TABLE *table, const Sources &sources, const uchar *record, Row_history *known) const
{
  for (uint i= 0; i < columns.size(); i++)
  {
    const Column &column= columns[i];
    if (sources[column.field_no] != NEW_COLUMN)
      continue;
    size_t n= 0;
    bool is_null= column.is_null(record);
    const uchar *value= is_null ? nullptr : value_of(table, column, record, &n);
    known->defaults.push_back({i, is_null, n ? std::string((const char *) value, n) : ""});
  }
}

} // namespace holdfast
