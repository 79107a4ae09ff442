"""For people with photographs: fit, predict, reject, explain, sort, report."""
