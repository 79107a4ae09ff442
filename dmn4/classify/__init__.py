"""A classifier of photographs: learn, answer, calibrate, keep as a file."""
