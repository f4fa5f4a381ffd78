-- Whom a node votes for, by the line that says so.
SELECT what, source FROM events WHERE kind = 'assignment-to-variables' ORDER BY tick;
