/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "defaults.h"

namespace holdfast {

namespace {

/* While it lives, conditions of one kind do not come to the statement. */
class Silence : public Internal_error_handler
{
public:
  enum Kind { ERRORS, NO_ERRORS };

  Silence(THD *thd, Kind kind) : thd(thd), kind(kind) { thd->push_internal_handler(this); }
  ~Silence() override { thd->pop_internal_handler(); }

  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *level, const char *,
                        Sql_condition **) override
  {
    bool is_error= *level == Sql_condition::WARN_LEVEL_ERROR;
    was_error|= is_error;
    return is_error == (kind == ERRORS);
  }

  /* True if there was an error, kept from the statement or not. */
  bool was_error= false;

private:
  THD *const thd;
  const Kind kind;
};

/* Gives a new column its default. False if that is no value of the column. As with InnoDB, a DATE
   or a TIME takes its part of a default that has both. */
bool put_default(Field *field)
{
  static const int WHOLE= 0, CUT_TO_DATE_OR_TIME= 3;
  int result= field->set_default();
  return result == WHOLE || result == CUT_TO_DATE_OR_TIME;
}

/* Puts the defaults of the new columns into record[0]. False if one is no value of its column. */
bool put_defaults(TABLE *altered, const Sources &sources)
{
  MY_BITMAP *columns= dbug_tmp_use_all_columns(altered, &altered->write_set);
  memcpy(altered->record[0], altered->s->default_values, altered->s->reclength);
  bool failed= false;
  for (uint i= 0; i < altered->s->fields && !failed; i++)
  {
    Field *field= altered->field[i];
    if (sources[i] != NEW_COLUMN)
      continue;
    if (field->default_value && field->stored_in_db())
      failed= !put_default(field);
    else if (field->has_default_now_unireg_check())
      failed= field->set_time();
  }
  dbug_tmp_restore_column_map(&altered->write_set, columns);
  return !failed;
}

} // namespace

/* An expression may fail and give a value all the same. That is no error of a statement which goes
   on to copy the table, or which has no row to give the value to. */
bool try_defaults(TABLE *altered, const Sources &sources)
{
  Silence trial(altered->in_use, Silence::ERRORS);
  return put_defaults(altered, sources) && !trial.was_error;
}

bool repeat_defaults(TABLE *altered, const Sources &sources)
{
  Silence repeated(altered->in_use, Silence::NO_ERRORS);
  return put_defaults(altered, sources) && !repeated.was_error;
}

} // namespace holdfast
