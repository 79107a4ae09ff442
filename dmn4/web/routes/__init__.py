"""The functions of the HTTP interface, one a request."""
