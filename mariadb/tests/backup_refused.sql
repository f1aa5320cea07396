-- A backup into a directory that exists or cannot be made.
SET GLOBAL holdfast_backup_dir = 'mysql';
SET GLOBAL holdfast_backup_dir = 'no/such/directory';
SET GLOBAL holdfast_backup_dir = '';
SELECT @@GLOBAL.holdfast_backup_dir;
