"""What people do with a folder of photographs: rows, tables, sorted folders, reports, the quick start."""
