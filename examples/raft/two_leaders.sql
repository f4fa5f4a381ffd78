-- A term has one leader. This finds those that have two.
SELECT a.what, a.process, b.process
  FROM events a JOIN events b ON a.what = b.what AND a.process < b.process
 WHERE a.kind = 'user-event' AND b.kind = 'user-event' AND a.what LIKE 'leader: %';
