-- A number that is given lets the table count on in the series of the values
-- that its statement takes.
CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=$ENGINE;
SET STATEMENT auto_increment_increment = 3 FOR INSERT INTO a VALUES (NULL, 1), (2, 2), (20, 3), (-7, 4);
INSERT INTO a (v) VALUES (5);
SET STATEMENT auto_increment_increment = 5, auto_increment_offset = 2 FOR
  INSERT INTO a VALUES (NULL, 6), (41, 7), (42, 8);
INSERT INTO a (v) VALUES (9);
SELECT * FROM a;
-- At the end of the type.
SET STATEMENT auto_increment_increment = 3 FOR INSERT INTO a VALUES (NULL, 10), (2147483647, 11), (5, 12);
SELECT auto_increment FROM information_schema.tables WHERE table_schema = 'smoke' AND table_name = 'a';
INSERT INTO a (v) VALUES (13);
DROP TABLE a;
