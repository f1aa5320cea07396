//! Two tables of dbt2 (OSDL DBT-2, MySQL flavour) and the report queries of the `scan` experiment.
//!
//! `new_order (no_o_id, no_d_id, no_w_id, PRIMARY KEY (no_d_id, no_w_id, no_o_id))`: district
//! first, 900 rows per district, ten districts per warehouse; all columns are in the key.
//!
//! `stock (s_i_id, s_w_id, s_quantity DOUBLE, s_dist_01..10 VARCHAR(24), s_ytd DECIMAL(16,8),
//! s_order_cnt, s_remote_cnt, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id))`: 100,000 rows per
//! warehouse.

use std::ops::RangeInclusive;

use crate::rng::Rng;
use crate::row::{Schema, Type, Value};
use crate::{Failure, Result, Rows, Scan, TableNo};

/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Rows of `new_order` per district.
pub const NEW_ORDERS_PER_DISTRICT: u32 = 900;
/// Rows of `stock` per warehouse.
pub const STOCK_PER_WAREHOUSE: u32 = 100_000;

/// First order that is still new, of the 3,000 that a district begins with.
const FIRST_NEW_ORDER: u32 = 2_101;

/// The columns of `new_order` that are not in its key: none.
#[must_use]
pub fn new_order_schema() -> Schema {
    Schema::new(&[])
}

/// Number of column `s_quantity` in [`stock_schema`].
pub const S_QUANTITY: usize = 0;
/// Number of column `s_data` in [`stock_schema`].
pub const S_DATA: usize = 14;

/// The columns of `stock` that are not in its key.
#[must_use]
pub fn stock_schema() -> Schema {
    const DIST: [&str; 10] = [
        "s_dist_01",
        "s_dist_02",
        "s_dist_03",
        "s_dist_04",
        "s_dist_05",
        "s_dist_06",
        "s_dist_07",
        "s_dist_08",
        "s_dist_09",
        "s_dist_10",
    ];
    let mut columns = vec![("s_quantity", Type::Double)];
    columns.extend(DIST.map(|name| (name, Type::Varchar(24))));
    columns.extend([("s_ytd", Type::BigInt), ("s_order_cnt", Type::Int), ("s_remote_cnt", Type::Int)]);
    columns.push(("s_data", Type::Varchar(50)));
    Schema::new(&columns)
}

fn key_of<const N: usize>(parts: [u32; N]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_be_bytes()).collect()
}

fn part(key: &[u8], n: usize) -> Result<u32> {
    let bytes = key.get(4 * n..4 * n + 4).and_then(|b| b.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or_else(|| Failure::fatal(format_args!("a key of {} bytes", key.len())))
}

/// Calls `each` with key and row of every `new_order` row of `warehouses` warehouses, in key order.
///
/// # Errors
/// What `each` returns.
pub fn generate_new_order<E>(warehouses: u32, mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<(), E> {
    let orders: RangeInclusive<u32> = FIRST_NEW_ORDER..=FIRST_NEW_ORDER + NEW_ORDERS_PER_DISTRICT - 1;
    for district in 1..=DISTRICTS {
        for warehouse in 1..=warehouses {
            for order in orders.clone() {
                each(&key_of([district, warehouse, order]), &[])?;
            }
        }
    }
    Ok(())
}

/// Calls `each` with key and row of every `stock` row of `warehouses` warehouses, in key order.
///
/// # Errors
/// What `each` returns.
pub fn generate_stock<E>(
    seed: u64,
    warehouses: u32,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let schema = stock_schema();
    let mut row = Vec::with_capacity(400);
    for warehouse in 1..=warehouses {
        for item in 1..=STOCK_PER_WAREHOUSE {
            let mut rng = Rng::for_part(seed, u64::from(warehouse) << 32 | u64::from(item));
            stock_row(&schema, &mut rng, &mut row);
            each(&key_of([warehouse, item]), &row)?;
        }
    }
    Ok(())
}

fn letters<'a>(rng: &mut Rng, buffer: &'a mut [u8; 50], len: usize) -> &'a [u8] {
    for byte in &mut buffer[..len] {
        *byte = b'a' + rng.below(26) as u8;
    }
    &buffer[..len]
}

fn stock_row(schema: &Schema, rng: &mut Rng, out: &mut Vec<u8>) {
    let mut texts = [[0u8; 50]; 11];
    let quantity = rng.between(10, 100) as f64;
    let data_len = rng.between(26, 50) as usize;
    let mut values = vec![Value::Double(quantity)];
    let (data, dists) = texts.split_last_mut().expect("eleven texts");
    for dist in dists {
        values.push(Value::Text(letters(rng, dist, 24)));
    }
    values.extend([Value::BigInt(0), Value::Int(0), Value::Int(0)]);
    values.push(Value::Text(letters(rng, data, data_len)));
    schema.encode(&values, out);
}

/// `SELECT SUM(no_w_id) FROM new_order`: the sum.
///
/// # Errors
/// What the store returns.
pub fn sum_new_order(rows: &mut dyn Rows, table: TableNo) -> Result<u64> {
    let mut sum = 0;
    rows.begin(true)?;
    rows.range(table, None, None, Scan::Undeclared, &mut |key, _| {
        sum += u64::from(part(key, 1)?);
        Ok(true)
    })?;
    rows.commit()?;
    Ok(sum)
}

/// `SELECT SUM(s_quantity) FROM stock WHERE s_data LIKE 'a%'`: the sum.
///
/// # Errors
/// What the store returns.
pub fn sum_stock(rows: &mut dyn Rows, table: TableNo) -> Result<f64> {
    let schema = stock_schema();
    let mut sum = 0.0;
    rows.begin(true)?;
    rows.range(table, None, None, Scan::Undeclared, &mut |_, row| {
        let row = schema.read(row);
        if row.text(S_DATA)?.starts_with(b"a") {
            sum += row.double(S_QUANTITY)?;
        }
        Ok(true)
    })?;
    rows.commit()?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_order_is_district_first_and_in_key_order() {
        let mut keys = Vec::new();
        generate_new_order::<Failure>(2, |key, row| {
            assert!(row.is_empty());
            keys.push(key.to_vec());
            Ok(())
        })
        .unwrap();
        assert_eq!(keys.len(), 18_000);
        assert!(keys.is_sorted());
        assert_eq!((part(&keys[900], 0).unwrap(), part(&keys[900], 1).unwrap()), (1, 2));
    }

    #[test]
    fn stock_rows_decode_and_an_a_begins_one_in_26() {
        let schema = stock_schema();
        let (mut rows, mut with_a, mut bytes) = (0u32, 0u32, 0);
        generate_stock::<Failure>(1, 1, |_, row| {
            let read = schema.read(row);
            assert!((10.0..=100.0).contains(&read.double(S_QUANTITY)?));
            with_a += u32::from(read.text(S_DATA)?.starts_with(b"a"));
            rows += 1;
            bytes += row.len();
            Ok(())
        })
        .unwrap();
        assert_eq!(rows, STOCK_PER_WAREHOUSE);
        assert!((3_500..4_200).contains(&with_a), "{with_a}");
        assert!((300..350).contains(&(bytes / rows as usize)), "{}", bytes / rows as usize);
    }
}
