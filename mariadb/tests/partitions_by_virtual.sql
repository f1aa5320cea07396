-- Rows of partitions come in the order of an index on a virtual column. InnoDB merges them by
-- values that it has not computed.
CREATE TABLE h (id INT PRIMARY KEY, v INT AS (id % 3) VIRTUAL, UNIQUE KEY k (v, id)) ENGINE=$ENGINE PARTITION BY HASH (id) PARTITIONS 4;
CREATE TABLE i (id INT PRIMARY KEY, v INT AS (id % 3) VIRTUAL, UNIQUE KEY k (v, id)) ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS 4;
INSERT INTO h (id) VALUES (1), (3), (4), (5), (6), (7), (10), (11);
INSERT INTO i (id) VALUES (1), (3), (4), (5), (6), (7), (10), (11);
SELECT * FROM h FORCE INDEX (k) WHERE id = 7 OR v = 2 ORDER BY v, id LIMIT 1;
SELECT * FROM i FORCE INDEX (k) WHERE id = 7 OR v = 2 ORDER BY v, id LIMIT 1;
DELETE FROM h WHERE id <=> 7 OR v <=> 2 ORDER BY v, id LIMIT 1;
DELETE FROM i WHERE id <=> 7 OR v <=> 2 ORDER BY v, id LIMIT 1;
SELECT id FROM h ORDER BY id;
SELECT id FROM i ORDER BY id;
