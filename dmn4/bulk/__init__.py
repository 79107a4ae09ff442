"""Many pictures, on one machine or on many: pictures stream in, columns come out."""
