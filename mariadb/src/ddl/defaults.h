/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* The defaults of columns that an ALTER TABLE in place adds: each gives all rows the same value. */

#ifndef HOLDFAST_DEFAULTS_H
#define HOLDFAST_DEFAULTS_H

#include "row/row_format.h"

namespace holdfast {

/* True if the defaults of the new columns are values of these: else a copy judges them by the
   session's modes, where there are rows. As with InnoDB, what there is to warn of is said. */
bool try_defaults(TABLE *altered, const Sources &sources);

/* Puts the defaults that have been tried into record[0], and says nothing again. False if that
   cannot be done. */
bool repeat_defaults(TABLE *altered, const Sources &sources);

} // namespace holdfast

#endif
