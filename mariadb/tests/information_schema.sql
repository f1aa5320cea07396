-- What the pool holds: the query of 2011 over tables, indexes and pages, with the prefix changed.
CREATE TABLE small (id INT PRIMARY KEY, k INT, c CHAR(120), KEY k (k), UNIQUE KEY u (k, id)) ENGINE=$ENGINE;
INSERT INTO small SELECT seq, seq, 'x' FROM seq_1_to_5000;
CREATE TABLE parts (id INT PRIMARY KEY) ENGINE=$ENGINE PARTITION BY HASH (id) PARTITIONS 2;
INSERT INTO parts SELECT seq FROM seq_1_to_100;
SELECT t.SCHEMA, t.NAME AS table_name, i.NAME AS index_name, SUM(p.data_size) / 1024 / 1024 > 0.05 AS some_mb,
  ROUND(SUM(p.data_size) / SUM(p.n_recs)) > 4 AS plausible
FROM information_schema.HOLDFAST_SYS_TABLES t, information_schema.HOLDFAST_SYS_INDEXES i,
  information_schema.HOLDFAST_BUFFER_POOL_PAGES_INDEX p
WHERE t.TABLE_ID = i.TABLE_ID AND i.INDEX_ID = p.index_id AND t.SCHEMA = DATABASE()
GROUP BY t.SCHEMA, t.NAME, i.NAME ORDER BY 1, 2, 3;
-- The same from the list of all frames.
SELECT TABLE_NAME, INDEX_NAME, PAGE_TYPE, SUM(NUMBER_RECORDS) >= 5000 AS all_records, COUNT(*) > 1 AS many
FROM information_schema.HOLDFAST_BUFFER_PAGE WHERE TABLE_NAME LIKE '%`small`' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT i.NAME, TYPE, N_ENTRIES, RESIDENT_PAGES = (SELECT COUNT(*) FROM information_schema.HOLDFAST_BUFFER_PAGE b
  WHERE b.SPACE = i.SPACE AND b.INDEX_NAME = i.NAME) AS resident
FROM information_schema.HOLDFAST_SYS_INDEXES i JOIN information_schema.HOLDFAST_SYS_TABLES t USING (TABLE_ID)
WHERE t.NAME = CONCAT(DATABASE(), '/small') ORDER BY i.INDEX_ID;
SELECT NAME, N_INDEXES, N_ROWS, FILE_SIZE > 0, FILE_NAME = CONCAT('t', SPACE, '.hf') FROM information_schema.HOLDFAST_SYS_TABLES
WHERE SCHEMA = DATABASE() ORDER BY NAME;
SELECT DATABASE_PAGES = (SELECT COUNT(*) FROM information_schema.HOLDFAST_BUFFER_PAGE) AS as_listed,
  POOL_SIZE = DATABASE_PAGES + FREE_BUFFERS AS adds_up, HIT_RATE <= 1000 FROM information_schema.HOLDFAST_BUFFER_POOL_STATS;
-- Where the columns are InnoDB's.
SELECT h.TABLE_NAME, h.COLUMN_NAME FROM information_schema.COLUMNS h LEFT JOIN information_schema.COLUMNS i
ON i.TABLE_SCHEMA = h.TABLE_SCHEMA AND i.TABLE_NAME = REPLACE(h.TABLE_NAME, 'HOLDFAST', 'INNODB')
AND i.COLUMN_NAME = h.COLUMN_NAME
WHERE h.TABLE_SCHEMA = 'information_schema' AND h.TABLE_NAME LIKE 'HOLDFAST%' AND i.TABLE_NAME IS NULL
AND h.TABLE_NAME NOT LIKE '%METRICS' ORDER BY 1, h.ORDINAL_POSITION;
-- Nothing is left of a table that is dropped.
DROP TABLE small, parts;
SELECT COUNT(*) FROM information_schema.HOLDFAST_BUFFER_PAGE WHERE TABLE_NAME LIKE CONCAT('`', DATABASE(), '`%');
