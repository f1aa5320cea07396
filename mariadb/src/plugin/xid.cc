/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "xid.h"

namespace holdfast {

/* How many bytes stand before the parts. */
static const size_t XID_HEAD= 9;

std::string xid_bytes(const XID *xid)
{
  std::string bytes(1, (char) xid->gtrid_length);
  for (uint i= 0; i < 8; i++)
    bytes.push_back((char) ((ulonglong) xid->formatID >> (8 * i)));
  bytes.append(xid->data, (size_t) (xid->gtrid_length + xid->bqual_length));
  return bytes;
}

std::string xid_bytes(THD *thd)
{
  XID xid;
  thd_get_xid(thd, reinterpret_cast<MYSQL_XID *>(&xid));
  return xid_bytes(&xid);
}

std::string long_xid_bytes(const XID *xid)
{
  std::string bytes;
  for (long number : {xid->formatID, xid->gtrid_length, xid->bqual_length})
  {
    for (uint i= 0; i < 8; i++)
      bytes.push_back((char) ((ulonglong) number >> (8 * i)));
  }
  bytes.append(xid->data, (size_t) (xid->gtrid_length + xid->bqual_length));
  return bytes;
}

/* The numbers of a long one may be in the parts of a short one, which begin eight bytes earlier:
   two numbers of eight bytes, the larger byte first, are enough. What stands for the length of the
   first part is then the last byte of a format's number, and zeros. */
static bool xid_from_long_bytes(hf_slice bytes, XID *xid)
{
  if (bytes.len < 24 || bytes.len > 24 + XIDDATASIZE)
    return false;
  ulonglong gtrid= uint8korr(bytes.data + 8), bqual= uint8korr(bytes.data + 16);
  if (gtrid == 0 || gtrid > MAXGTRIDSIZE || bqual > MAXBQUALSIZE || gtrid + bqual != bytes.len - 24)
    return false;
  xid->formatID= (long) sint8korr(bytes.data);
  xid->gtrid_length= (long) gtrid;
  xid->bqual_length= (long) bqual;
  memcpy(xid->data, bytes.data + 24, bytes.len - 24);
  return true;
}

bool xid_from_bytes(hf_slice bytes, XID *xid)
{
  if (xid_from_long_bytes(bytes, xid))
    return true;
  if (bytes.len < XID_HEAD || bytes.len > XID_HEAD + XIDDATASIZE || bytes.data[0] > bytes.len - XID_HEAD)
    return false;
  size_t data= bytes.len - XID_HEAD;
  xid->formatID= (long) sint8korr(bytes.data + 1);
  xid->gtrid_length= (long) bytes.data[0];
  xid->bqual_length= (long) data - xid->gtrid_length;
  memcpy(xid->data, bytes.data + XID_HEAD, data);
  return true;
}

} // namespace holdfast
